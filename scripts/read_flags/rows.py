"""From calls of ``add_argument`` to the rows of a catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from scripts.read_flags.deprecations import read_deprecation
from scripts.read_flags.engines import Reading, Variable
from scripts.read_flags.evaluator import Evaluator
from scripts.read_flags.operations import members_of
from scripts.read_flags.values import (
    ABSENT,
    Argument,
    Class,
    External,
    FieldSpec,
    Function,
    Member,
    Record,
    Undecided,
    Unknown,
    Value,
)

Row: TypeAlias = dict[str, Any]

#: Actions of argparse that take no value, with the value that the flag has when it is left out.
_BARE = {"store_true": False, "store_false": False, "store_const": None, "count": None}
_SUPPRESS = External("argparse.SUPPRESS")
#: Functions that read a value, by the word that says what they want.
_READERS = {"loads": "json", "parse_dataclass": "json", "json_list_type": "json"}
#: Functions around another one, and the variable that holds the other.
_AROUND = {"_optional_type": "return_type", "_parse_type": "return_type"}


def make_rows(reading: Reading) -> list[Row]:
    """One row for every option, in the parser's own order; positional arguments are left out."""
    options = [each for each in reading.arguments if str(each.names[0]).startswith("-")]
    flags = frozenset(name for each in options for name in each.names)
    rows = [_make_row(each, flags, reading) for each in options]
    for row in rows:
        for name in row["names"]:
            if name in reading.suggestions and "choices" not in row:
                row["choices"] = list(reading.suggestions[name])
    return rows


def make_variable_rows(variables: Iterable[Variable]) -> list[Row]:
    """One row for every environment variable, sorted by name."""
    rows = []
    for variable in sorted(variables, key=lambda each: each.name):
        row: Row = {"name": variable.name, "type": variable.type, "default": None}
        default, reason = spell(variable.default)
        row |= {"default": default} if reason is None else {"unknown": reason}
        rows.append(row)
    return rows


def _make_row(argument: Argument, flags: frozenset[str], reading: Reading) -> Row:
    for name in argument.names:
        if not isinstance(name, str):
            raise Undecided(f"{argument.member}:{argument.line} has a name that is not known")
    unknown: dict[str, str] = {}
    evaluator = reading.evaluator
    row = _read_shape(argument, reading)
    default, reason = spell(_default_of(argument, evaluator))
    row["default"] = default
    if reason is not None:
        unknown["default"] = reason
    row |= _read_choices(argument, row, unknown)
    replaced_by = read_deprecation(argument, flags)
    if replaced_by is not None:
        row["deprecated_by"] = replaced_by
    return row | ({"unknown": unknown} if unknown else {})


def _read_shape(argument: Argument, reading: Reading) -> Row:
    """The names, and which words an option takes behind its name."""
    evaluator = reading.evaluator
    options, names = argument.options, [*argument.names]
    action = options.get("action")
    if action == External("argparse.BooleanOptionalAction"):
        off = [f"--no-{name[2:]}" for name in names if name.startswith("--")]
        swapped = [
            f"{inverse}{name.removeprefix(prefix)}"
            for name in names
            for prefix, inverse in reading.inverses.items()
            if name.startswith(prefix)
        ]
        return {"names": [*names, *off, *swapped], "argument": None, "type": "bool"}
    nargs = options.get("nargs", _preset(action, "nargs", evaluator))
    if action in _BARE or nargs == 0:
        return {"names": names, "argument": None, "type": "bool"}
    word = type_word(options.get("type"))
    metavar = options.get("metavar")
    shown = metavar if isinstance(metavar, str) and len(metavar) <= 40 else word
    row: Row = {"names": names, "argument": shown, "type": word}
    if nargs not in (None, ABSENT):
        row["nargs"] = str(nargs)
    if action in ("append", "extend"):
        row["repeatable"] = True
    return row


def _preset(action: Value, name: str, evaluator: Evaluator) -> Value:
    """What an action of the package presets for one of its arguments; ABSENT for nothing."""
    if not isinstance(action, Class) or not action.scope.binds("__init__"):
        return ABSENT
    function = evaluator.attribute(action, "__init__")
    expected = function.node.args
    named = [*expected.args[len(expected.args) - len(expected.defaults) :], *expected.kwonlyargs]
    for parameter, default in zip(named, [*expected.defaults, *expected.kw_defaults], strict=True):
        if parameter.arg == name and default is not None:
            return evaluator.evaluate(default, function.scope)
    return ABSENT


def _default_of(argument: Argument, evaluator: Evaluator) -> Value:
    action = argument.options.get("action")
    if "default" in argument.options:
        return argument.options["default"]
    preset = _preset(action, "default", evaluator)
    if preset is not ABSENT:
        return preset
    return _BARE.get(action) if isinstance(action, str) else None


def type_word(reader: Value) -> str:
    """A word for what turns the text behind a flag into a value."""
    if reader is None:
        return "str"
    if isinstance(reader, type):
        return reader.__name__
    if isinstance(reader, Function) and reader.name in _AROUND:
        return type_word(reader.scope.names.get(_AROUND[reader.name]))
    if isinstance(reader, Function) and reader.name == "<lambda>":
        return "str"
    name = reader.last if isinstance(reader, External) else getattr(reader, "name", "str")
    return _READERS.get(name, name)


def _takes_none(reader: Value) -> bool:
    return isinstance(reader, Function) and reader.name == "_optional_type"


def _read_choices(argument: Argument, row: Row, unknown: dict[str, str]) -> Row:
    """Which values an option takes: the keys ``kind``, ``choices`` and ``also``."""
    if row["argument"] is None:
        return {}
    reader, has_words = argument.options.get("type"), "nargs" in row
    is_exact = not has_words and _keeps_words(reader)
    also = {"also": ["None"]} if _takes_none(reader) else {}
    choices = argument.options.get("choices")
    problem = next((each for each in (choices, *_listed(choices)) if _is_opaque(each)), None)
    if problem is not None:
        unknown["choices"] = _reason(problem)
        return {}
    words = [_word(item) for item in _listed(choices)]
    if choices is not None and not words:
        unknown["choices"] = "the source leaves them empty, for something else to fill"
        return {}
    if words:
        if is_exact and also and None not in _listed(choices):
            # The reader makes nothing of this word, which the parser then finds among no choices.
            words = [word for word in words if word != "None"]
        return {"choices": words} | ({"kind": "choice"} if is_exact else {})
    if row["type"] in ("int", "float") and is_exact:
        return {"kind": "number", **also}
    return _suggest(argument.options.get("metavar"))


def _suggest(metavar: Value) -> Row:
    """The values that the help names, where the parser takes others too."""
    if isinstance(metavar, (list, tuple)):
        return {"choices": [_word(item) for item in metavar]}
    listed = re.match(r"\{([^{}]+)\}", metavar) if isinstance(metavar, str) else None
    return {"choices": listed[1].split(",")} if listed else {}


def _keeps_words(reader: Value) -> bool:
    """Whether a choice is written as the parser compares it: nothing rewrites it before."""
    if isinstance(reader, Function) and reader.name in _AROUND:
        return _keeps_words(reader.scope.names.get(_AROUND[reader.name]))
    return reader in (None, str, int, float)


def _listed(choices: Value) -> Sequence[Value]:
    if choices is None or isinstance(choices, Unknown):
        return ()
    if isinstance(choices, Class):
        return members_of(choices)
    if isinstance(choices, (set, frozenset)):
        return sorted(choices, key=str)
    return list(choices)


def _is_opaque(value: Value) -> bool:
    """Whether a value has no spelling that a person could write."""
    return isinstance(value, (Unknown, Record, Function, External))


def _word(value: Value) -> str:
    return str(value.value if isinstance(value, Member) else value)


def spell(value: Value) -> tuple[str | None, str | None]:
    """A default as a person would write it, and why not where that is not known."""
    if value is None or value == _SUPPRESS:
        return None, None
    if isinstance(value, Unknown):
        return None, _explain(value)
    if isinstance(value, bool):
        return str(value).lower(), None
    if isinstance(value, (str, int, float)):
        return str(value), None
    if isinstance(value, Member):
        return spell(value.value)
    return _spell_json(value)


def _spell_json(value: Value) -> tuple[str | None, str | None]:
    try:
        return json.dumps(_plain(value), separators=(",", ":"), sort_keys=True), None
    except Undecided as error:
        return None, str(error)


def _plain(value: Value) -> Value:
    """A list or table as JSON has it. Raises Undecided."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Member):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {_word(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [_plain(item) for item in sorted(value, key=repr)]
    raise Undecided(_reason(value))


def _reason(value: Value) -> str:
    if isinstance(value, Unknown):
        return _explain(value)
    if isinstance(value, Record):
        return f"{'the defaults' if value.values else 'an object'} of {value.kind.name}"
    if isinstance(value, FieldSpec):
        return "a default that is made anew each time is not followed"
    name = getattr(value, "name", type(value).__name__)
    return f"{name} is no value that could be written"


def _explain(value: Unknown) -> str:
    """Why a value is unknown, with what it is where nothing interferes."""
    if value.assumed is ABSENT:
        return value.reason
    text, reason = spell(value.assumed)
    shown = "nothing" if text is None else text
    return value.reason if reason is not None else f"{value.reason}; {shown} while it is unset"
