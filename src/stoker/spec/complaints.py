"""What pydantic says about a deployment, as problems with a place and plain words.

Called by :mod:`stoker.spec.parse` alone. It must never show pydantic's own sentences, which are
about Python, and never show what may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from pydantic_core import ErrorDetails

from stoker.errors import Problem
from stoker.model.deployment import Deployment, Engine, ModelReference
from stoker.model.deployment_fields import MODEL_PATTERN
from stoker.model.facts import Plain
from stoker.spec.phrases import describe, join_names, may_be_secret, nearest, shorten
from stoker.spec.plain import Path, Place, Reading, dotted, resolve
from stoker.spec.tree import Kind, Node
from stoker.spec.vocabulary import explain_unknown_key, find_part, guess_keys

#: More errors than this are not explained: the file is of another kind.
MAX_EXPLAINED = 100
#: Paths that a hint repeats: a shell takes them as they are.
_SIMPLE_PATH = re.compile(r"[A-Za-z0-9._~+@/-]{1,80}")

Words = tuple[str, str]
"""A message and a hint, which may be empty."""


def explain_other_file(root: Node, text: str) -> Problem | None:
    """The one problem of a text that holds no keys and values at all; None where it holds some.

    Nothing of it is shown: it may be another file, given by mistake, and a secret.
    """
    if root.kind is Kind.MAPPING:
        return None
    count = sum(bool(line.strip()) for line in text.splitlines())
    lines = "one line" if count == 1 else f"{count} lines"
    what = "a list" if root.kind is Kind.SEQUENCE else f"{lines} of plain text"
    return Problem(
        message=f"a deployment file holds keys and values; this file is {what}",
        line=1,
        column=1,
        hint=f"it begins with `name: ...`; known keys: {', '.join(Deployment.model_fields)}",
    )


def explain_errors(
    errors: Sequence[ErrorDetails], reading: Reading, *, engine_kinds: Sequence[str]
) -> list[Problem]:
    """One problem for each entry that is wrong, leaving out what the reading reported already.

    ``engine_kinds`` are told where the engine's kind is missing.
    """
    found = [(error, _path_in_file(error, reading.value)) for error in errors[:MAX_EXPLAINED]]
    meant = {
        guess
        for error, path in found
        if error["type"] == "extra_forbidden"
        for guess in guess_keys(path)
    }
    problems: dict[Path, Problem] = {}
    for error, path in found:
        is_misspelt = error["type"] == "missing" and dotted(path) in meant
        if path not in problems and not is_misspelt and not _is_reported(error, path, reading):
            problems[path] = _explain(error, path, reading.places)
    return [_with_kinds(problem, engine_kinds) for problem in problems.values()]


def _with_kinds(problem: Problem, engine_kinds: Sequence[str]) -> Problem:
    about = Engine.model_fields["kind"].description
    if (problem.path, problem.hint) != ("engine.kind", about):
        return problem
    return replace(problem, hint=explain_kinds(engine_kinds))


def explain_kinds(engine_kinds: Sequence[str]) -> str:
    """The hint that tells which engines there are."""
    return f"known engines: {', '.join(engine_kinds)}"


def _path_in_file(error: ErrorDetails, value: Plain) -> Path:
    """The path of the entry: pydantic's, without its names for the members of unions."""
    path: list[str | int] = []
    for part in error["loc"]:
        if isinstance(value, Mapping) and part in value:
            path.append(part)
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
    if error["type"] == "missing" and isinstance(value, Mapping):
        path.append(error["loc"][-1])
    return tuple(path)


def _is_reported(error: ErrorDetails, path: Path, reading: Reading) -> bool:
    """Whether this is only a consequence of an entry that could not be read."""
    if any(path[: len(other)] == other for other in reading.broken):
        return True
    follows = error["type"] != "extra_forbidden"
    return follows and any(other[: len(path)] == path for other in reading.broken)


def _explain(error: ErrorDetails, path: Path, places: Mapping[Path, Place]) -> Problem:
    is_about_key = error["type"] in ("extra_forbidden", "missing") or "[key]" in error["loc"][-1:]
    place = places.get(path) or places.get(path[:-1])
    mark = (place.key if is_about_key else place.value) if place else None
    words = _WORDS.get(error["type"], _invalid)
    written = place.written if place and not may_be_secret(path) else ""
    message, hint = words(error, path, written)
    return Problem(
        message=message,
        path=dotted(path),
        line=mark.line if mark else 1,
        column=mark.column if mark else 1,
        hint=hint,
    )


def _found(error: ErrorDetails, path: Path) -> str:
    """What stands there instead, but nothing of it where it may be a secret."""
    is_shown = not may_be_secret(path) or error["input"] in (None, "")
    return describe(error["input"]) if is_shown else "what stands here (it may be a secret)"


def _expected(what: str, error: ErrorDetails, path: Path) -> str:
    return f"must be {what}, not {_found(error, path)}"


def _no_value(error: ErrorDetails, path: Path) -> Words | None:
    """The words for a key with nothing behind its colon, None for all others."""
    if error["input"] is not None:
        return None
    if find_part(path) not in (None, ModelReference):
        return "has no value", "write its keys on the lines below, indented by two blanks"
    part = find_part(path[:-1])
    about = part.model_fields.get(str(path[-1])) if part and path else None
    is_required = about is not None and about.is_required()
    return "has no value", "write one behind the colon" + ", or remove the key" * (not is_required)


def _missing(error: ErrorDetails, path: Path, written: str) -> Words:
    part = find_part(path[:-1])
    about = part.model_fields[str(path[-1])] if part else None
    return f"the key `{path[-1]}` is missing", (about.description or "") if about else ""


def _unknown(error: ErrorDetails, path: Path, written: str) -> Words:
    return explain_unknown_key(path)


def _whole_number(error: ErrorDetails, path: Path, written: str) -> Words:
    value = error["input"]
    hint = ""
    if isinstance(value, str) and isinstance(_resolved(value), int):
        hint = f"write it without quotes: {value.strip()}"
    elif isinstance(value, float) and value.is_integer():
        hint = f"write {int(value)}"
    return _no_value(error, path) or (_expected("a whole number", error, path), hint)


def _number(error: ErrorDetails, path: Path, written: str) -> Words:
    value = error["input"]
    is_number = isinstance(value, str) and isinstance(_resolved(value), (int, float))
    hint = f"write it without quotes: {value.strip()}" if is_number else ""
    return _no_value(error, path) or (_expected("a number", error, path), hint)


def _resolved(text: str) -> Plain:
    try:
        return resolve(text.strip())
    except ValueError:
        return text


def _text(error: ErrorDetails, path: Path, written: str) -> Words:
    hint = f'put it in quotes: "{shorten(written)}"' if written else ""
    return _no_value(error, path) or (_expected("text", error, path), hint)


def _true_or_false(error: ErrorDetails, path: Path, written: str) -> Words:
    # The words that YAML 1.1 knew; in YAML 1.2 they are text.
    meant = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
    value = error["input"]
    word = meant.get(value.lower(), value.lower()) if isinstance(value, str) else ""
    hint = f"write {word}, without quotes" if word in ("true", "false") else "write true or false"
    return _no_value(error, path) or (_expected("true or false", error, path), hint)


def _group(error: ErrorDetails, path: Path, written: str) -> Words:
    part = find_part(path)
    keys = list(part.model_fields) if part else []
    if part is ModelReference:
        form = pattern_messages()[MODEL_PATTERN]
        message = f"{form}, or hold the keys ref and file; this is {_found(error, path)}"
        return _no_value(error, path) or (message, "")
    of_its_own = f"keys of its own ({', '.join(keys)})" if keys else "keys and values"
    required = [name for name in keys if part and part.model_fields[name].is_required()]
    hint = "write them on the lines below, indented by two blanks"
    if isinstance(error["input"], list):
        hint = "write the keys without dashes"
    elif required and written:
        hint = f"write `{required[0]}: {shorten(written)}` on the line below, indented"
    message = f"must hold {of_its_own}, not {_found(error, path)}"
    return _no_value(error, path) or (message, hint)


def _list(error: ErrorDetails, path: Path, written: str) -> Words:
    is_single = written and find_part(path) is None
    hint = f"write [{shorten(written)}]" if is_single else "begin each item with a dash"
    return _no_value(error, path) or (_expected("a list", error, path), hint)


def _one_of(error: ErrorDetails, path: Path, written: str) -> Words:
    expected = error.get("ctx", {}).get("expected", "")
    names = expected.replace("'", "").replace(" or ", ", ").split(", ")
    value = error["input"]
    near = nearest(value, names) if isinstance(value, str) else ""
    hint = f"did you mean {near}?" if near else ""
    return _no_value(error, path) or (_expected(join_names(names, "or"), error, path), hint)


def _pattern(error: ErrorDetails, path: Path, written: str) -> Words:
    message = pattern_messages().get(error.get("ctx", {}).get("pattern", ""), "has another form")
    if may_be_secret(path) and error["input"]:
        found = "what stands here is another thing, and not shown, since it may be a secret"
        return f"{message}; {found}", "write the path from the root on: /folder/file"
    return f"{message}; this is {_found(error, path)}", _hint_for_model(error["input"], path)


def _hint_for_model(value: str, path: Path) -> str:
    """Names and paths of models that only lack the word that says what they are, or a root."""
    if path[0] not in ("model", "draft") or path[-1] == "file":
        return ""
    if value.startswith(("path:", "./", "../", "~/")):
        return _hint_for_path(value.removeprefix("path:").strip())
    meant = [f"{kind}:{value}" for kind in ("hf", "path")]
    fitting = [model for model in meant if re.fullmatch(MODEL_PATTERN, model)]
    return f"write {fitting[0]}" if fitting else ""


def _hint_for_path(relative: str) -> str:
    """The text cannot know which folder a path begins in; the person's shell does."""
    name = relative.rstrip("/").rpartition("/")[2]
    if not name or not _SIMPLE_PATH.fullmatch(relative):
        return "write path:/absolute/path"
    return f"write path:/absolute/path/{name}; `realpath {relative}` prints it"


def _bound(what: str, key: str) -> Callable[[ErrorDetails, Path, str], Words]:
    def words(error: ErrorDetails, path: Path, written: str) -> Words:
        limit = error.get("ctx", {}).get(key, "")
        hint = "write none to use no GPU" if path == ("gpus",) else ""
        return _expected(f"{what} {limit}", error, path), hint

    return words


def _length(what: str, key: str) -> Callable[[ErrorDetails, Path, str], Words]:
    def words(error: ErrorDetails, path: Path, written: str) -> Words:
        limit = error.get("ctx", {}).get(key, "")
        noun = "character" if limit == 1 else "characters"
        return f"must have {what} {limit} {noun}", ""

    return words


def _empty_list(error: ErrorDetails, path: Path, written: str) -> Words:
    hint = "write none to use no GPU" if path == ("gpus",) else "remove the key to leave it out"
    return "must not be an empty list", hint


def _finite(error: ErrorDetails, path: Path, written: str) -> Words:
    return _expected("a finite number", error, path), ""


def _refusal(error: ErrorDetails, path: Path, written: str) -> Words:
    context = error.get("ctx")
    if context is None:  # our sentence for a whole union, which cannot name what it found
        if words := _no_value(error, path):
            return words
        is_count = isinstance(error["input"], str) and isinstance(_resolved(error["input"]), int)
        hint = f"write it without quotes: {error['input']}" if is_count else ""
        return f"{error['msg']}, not {_found(error, path)}", hint
    return context["message"], context["hint"]


def _invalid(error: ErrorDetails, path: Path, written: str) -> Words:
    return "is not allowed here", ""


_WORDS: Mapping[str, Callable[[ErrorDetails, Path, str], Words]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "int_type": _whole_number,
    "float_type": _number,
    "string_type": _text,
    "bool_type": _true_or_false,
    "model_type": _group,
    "dict_type": _group,
    "list_type": _list,
    "literal_error": _one_of,
    "string_pattern_mismatch": _pattern,
    "string_too_short": _length("at least", "min_length"),
    "string_too_long": _length("at most", "max_length"),
    "too_short": _empty_list,
    "greater_than_equal": _bound("at least", "ge"),
    "less_than_equal": _bound("at most", "le"),
    "finite_number": _finite,
    "refusal": _refusal,
}


@cache
def pattern_messages() -> Mapping[str, str]:
    """What each pattern of the model asks for, in the words that editors show too."""
    return dict(_walk(Deployment.model_json_schema()))


def _walk(schema: Plain) -> Iterator[tuple[str, str]]:
    if isinstance(schema, Mapping):
        if "pattern" in schema and "patternErrorMessage" in schema:
            yield schema["pattern"], schema["patternErrorMessage"]
        for pattern in schema.get("patternProperties", {}):
            yield pattern, schema.get("propertyNames", {}).get("patternErrorMessage", "")
        for inner in schema.values():
            yield from _walk(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _walk(inner)
