"""Calls that stand in a text as the model wrote them, with the marks of its family or without.

A text counts where a parser could read a call of an offered tool in it, or where nothing but a mark
is left of one. A model may talk about a tool, quote its prompt, or write what no parser reads: that
is no call. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from stoker.contract.markers import MARKERS, Kind, Marker, find_markers
from stoker.model.facts import Plain

#: Tools by their names: the JSON schemas of their arguments.
Schemas = Mapping[str, Mapping[str, Plain]]

#: How far the name of a tool may be from its mark; only signs of the format stand between.
_NEAR_CHARACTERS = 160
_GLUE = re.compile(r"[^\w]|\w+\|?>|\w+\"?\s*[=:]|\b\d+\b|function(?=<)|functions\.|invoke\b|call\b")
_AFTER_NAME = r"(?:\s*[\"'({<\[:>|]|[ \t]*\n|\s*$)"

#: A text without end is not read to its end.
_MOST_PLACES = 32
_MOST_CHARACTERS = 4096

#: What so many families' prompts speak of that models put anything into it.
_OPENING = "<tool_call>"
_CLOSING = "</tool_call>"


def find_marked_call(text: str, schemas: Schemas) -> Marker | None:
    """The mark beside which a call of one of these tools stands; None where there is none."""
    for marker in find_markers(text, Kind.TOOLS):
        if any(_is_call(marker, match, schemas) for match in _find_places(text, marker)):
            return marker
    return None


def _find_places(text: str, marker: Marker) -> Iterator[re.Match[str]]:
    pattern = marker.pattern or re.escape(marker.text)
    return islice(re.finditer(pattern, text), _MOST_PLACES)


def _is_call(marker: Marker, match: re.Match[str], schemas: Schemas) -> bool:
    text, (start, end) = match.string, match.span()
    before, after = text[max(0, start - _MOST_CHARACTERS) : start], text[end:]
    if marker.text == _OPENING:
        return _is_framed_call(after.lstrip(), schemas)
    if read_bare_family(before, schemas):
        return True
    if marker.text == _CLOSING:
        return False
    names = _any_of(schemas)
    if marker.pattern:
        return re.search(names, text[start:end]) is not None
    if _leads_to(re.compile(f"{names}{_AFTER_NAME}"), after[:_NEAR_CHARACTERS]):
        return True
    near = before[-_NEAR_CHARACTERS:]
    # Two families address a call, and where special tokens are dropped a word comes right behind.
    addressed = rf"\bto=(?:functions\.)?(?:{'|'.join(map(re.escape, schemas))})"
    if re.search(addressed, near + text[start : end + _NEAR_CHARACTERS]):
        return True
    if re.search(rf"(?<![\w-]){names}[\"'>]?\s*(?:<\|\w+\|>\w*\s*)*$", near):
        return True
    return _is_call_data(_read_value(after.lstrip()), schemas)


def _leads_to(name: re.Pattern[str], text: str) -> bool:
    """Whether nothing but signs of a format stands before a name."""
    place = 0
    while not name.match(text, place):
        glue = _GLUE.match(text, place)
        if not glue:
            return False
        place = glue.end()
    return True


def _any_of(schemas: Schemas) -> str:
    return f"(?:{'|'.join(map(re.escape, schemas))})(?![\\w-])"


def _is_framed_call(inner: str, schemas: Schemas) -> bool:
    if inner.startswith("{"):
        return _is_call_data(_read_value(inner), schemas)
    if re.match(rf"{_any_of(schemas)}\s*(?:<arg_key|<tool_sep)", inner):
        return True
    bare = re.match(rf"({_any_of(schemas)})\s*{_CLOSING}", inner)
    # Without arguments there is nothing but the name, which the tool must allow.
    return bare is not None and not schemas[bare[1]].get("required")


def _read_value(text: str) -> Plain:
    """The JSON object or list that a text begins with; None where there is none."""
    return _split_value(text)[0]


def _split_value(text: str) -> tuple[Plain, str]:
    if not text.startswith(("{", "[")):
        return None, text
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, text
    return value, text[end:]


def _is_call_data(data: Plain, schemas: Schemas) -> bool:
    return bool(_read_data_family(data, schemas))


def find_lone_mark(text: str) -> Marker | None:
    """A mark that is all that is left of a call: of the whole text, or as its last line.

    The other marks of the format are then gone; where a model quotes them they stand there, too.
    """
    lines = text.strip().splitlines()
    if not lines:
        return None
    last = lines[-1].strip()
    for marker in find_markers(last, Kind.TOOLS):
        if marker.text in (_OPENING, _CLOSING) or marker.pattern:
            continue
        is_alone = last == marker.text and not find_markers("\n".join(lines[:-1]), Kind.TOOLS)
        if is_alone or not _without_marks(text).strip():
            return marker
    return None


def _without_marks(text: str) -> str:
    texts = sorted((each.text for each in MARKERS if not each.pattern), key=len, reverse=True)
    return re.sub("|".join(map(re.escape, texts)), "", text)


def read_bare_family(text: str, schemas: Schemas) -> str:
    """The family that writes such a text, which is calls and nothing else; empty if it is none.

    A call may also stand right behind a sentence, without a space: there a mark was dropped.
    """
    text = _unwrap(text)
    family = _read_whole(text, schemas)
    if family:
        return family
    glued = re.finditer(rf"(?<=[.!?])(?=[\[{{]|{_any_of(schemas)}\{{)", text)
    tails = (_read_whole(text[match.start() :], schemas) for match in islice(glued, _MOST_PLACES))
    return next(filter(None, tails), "")


def _read_whole(text: str, schemas: Schemas) -> str:
    for read in (_read_pythonic, _read_special_less, _read_named):
        family = read(text, schemas)
        if family:
            return family
    role = re.search(r"(?:^|\n)function call\s*\n(?=\{)", text)
    data = _read_values(text[role.end() :] if role else text)
    families = [_read_data_family(each, schemas) for each in data]
    if not families or not all(families):
        return ""
    return "gigachat-3" if role else families[0]


def read_second_family(text: str, schemas: Schemas) -> str:
    """The family of a call that is left behind others, as the end of the text; empty if none."""
    text = text.strip().rstrip("],; \n")
    place = min((found for each in "{[" if (found := text.find(each)) >= 0), default=-1)
    before = text[: max(place, 0)].strip()
    if place < 0 or not (not before or before.endswith((",", ";"))):
        return ""
    tail = text[place:]
    return next(filter(None, (read_bare_family(tail + end, schemas) for end in ("", "]"))), "")


def _unwrap(text: str) -> str:
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*(?:```)?", text.strip(), re.DOTALL)
    return fenced[1] if fenced else text.strip()


def _read_pythonic(text: str, schemas: Schemas) -> str:
    names = _any_of(schemas)
    return "llama-4" if re.fullmatch(rf"\[{names}\(.*\)\]", text, re.DOTALL) else ""


def _read_special_less(text: str, schemas: Schemas) -> str:
    """Formats whose marks are special tokens, as they read where those are dropped."""
    names = _any_of(schemas)
    if text.endswith("}") and re.search(rf"(?<!\w)call:{names}\{{", text):
        return "gemma-4"
    if re.search(rf"tools?call tool=\"{names}\" index=\"", text):
        return "kimi-k3"
    return ""


def _read_named(text: str, schemas: Schemas) -> str:
    """The name of the tool and behind it an object, once or more."""
    family, rest = "", text
    while match := re.match(rf"\s*({_any_of(schemas)})\s*(?=\{{)", rest):
        value, rest = _split_value(rest[match.end() :])
        if not isinstance(value, dict):
            return ""
        family = "inkling" if set(value) == {"name", "args"} else "mistral"
    return family if not rest.strip() else ""


def _read_values(text: str) -> Sequence[Plain]:
    """The objects and lists of a text that holds nothing else but what joins them."""
    values: list[Plain] = []
    rest = text.strip()
    while rest:
        value, rest = _split_value(rest)
        if value is None:
            return ()
        values.append(value)
        rest = rest.lstrip("; \n\t,")
    return values


#: How the keys of the name and of the arguments are called, and who calls them so.
_KEYS: tuple[tuple[str, str, str], ...] = (
    ("tool_name", "parameters", "command-a-plus"),
    ("name", "parameters", "llama-3"),
    ("name", "arguments", "writes-like-hermes"),
    ("name", "args", "inkling"),
)
_BESIDE = frozenset({"type", "id", "tool_call_id"})


def _read_data_family(data: Plain, schemas: Schemas) -> str:
    if isinstance(data, list):
        return _read_list_family(data, schemas)
    if not isinstance(data, dict):
        return ""
    for name, arguments, family in _KEYS:
        is_whole = {name, arguments} <= set(data) <= {name, arguments} | _BESIDE
        if is_whole and _is_name(data[name], schemas) and _is_arguments(data[arguments]):
            return family
    return ""


def _read_list_family(data: Sequence[Plain], schemas: Schemas) -> str:
    families = [_read_data_family(each, schemas) for each in data]
    if families and all(families):
        return "xlam" if families[0] in ("llama-3", "writes-like-hermes") else families[0]
    named = [
        isinstance(each, dict)
        and len(each) == 1
        and all(_is_name(key, schemas) and _is_arguments(each[key]) for key in each)
        for each in data
    ]
    return "apertus" if named and all(named) else ""


def _is_name(name: Plain, schemas: Schemas) -> bool:
    return isinstance(name, str) and name in schemas


def _is_arguments(value: Plain) -> bool:
    """An object that is no schema: a model may quote the tools that its prompt lists."""
    return isinstance(value, dict) and not (
        value.get("type") == "object" and isinstance(value.get("properties"), dict)
    )
