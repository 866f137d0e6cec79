"""Values of engine flags that the engine cannot take, by what its own parser says of each flag.

Called by :mod:`stoker.knowledge.derived.flags`. A value that might do is never called wrong: the
engine's own parser has the last word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from stoker.knowledge.derived.case import Case
from stoker.model.deployment_fields import Scalar
from stoker.model.engine_table import Option
from stoker.model.facts import Unknown

#: What the readers of numbers in C take as a whole. With something behind it they take the
#: beginning (``8k`` is 8 to them), which nobody means.
_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_SIZED = re.compile(r"[-+]?\d+(_\d+)*|\d+(\.\d+)?\s*([kKmMgGtT]i?)")
#: Behind a number of a JSON text some engines take such a letter.
_LETTER = re.compile(r"(?<=\d)[kKmMgGtT]\b")
_NEAR_ENOUGH = 0.5
_MOST_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """What a reader of values takes, and how that is called."""

    takes: Callable[[str], bool]
    title: str


def find_unfit(case: Case) -> list[str] | Unknown:
    """What to say about each value that cannot be right; unknown for another build's flags."""
    found = {
        f"{path} is {_shorten(value)}, and must be {_explain(option, value)}": path
        for path, value, option in _values(case)
        if not fits(value, option)
    }
    if found and not case.is_known_build:
        paths, build = ", ".join(dict.fromkeys(found.values())), case.table.catalogue.build
        return Unknown(reason=f"{paths}: only the values of build {build} are known")
    return list(found)


def fits(value: str, option: Option) -> bool:
    """Whether the engine may take this value, one word, for the option."""
    taken = (*option.choices, *option.also)
    match option.kind:
        case "number":
            return value in taken or _number(option).takes(value.strip())
        case "choice":
            return value in taken
        case "list":
            return all(item in taken for item in value.split(","))
    reader = _READERS.get(option.type)
    return reader is None or value in ("", "None", *taken) or reader.takes(value.strip())


def _number(option: Option) -> _Reader:
    """How an engine reads a number: Python's way where its parser told the type, else C's."""
    return _READERS.get(option.type, _C_NUMBER)


def _reads(reader: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether a reader of Python's takes a text."""

    def takes(text: str) -> bool:
        try:
            reader(text)
        except ValueError:
            return False
        return True

    return takes


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return _is_json(plain) if (plain := _LETTER.sub("", value)) != value else False
    except RecursionError:
        return False
    return True


_C_NUMBER = _Reader(takes=lambda text: _NUMBER.fullmatch(text) is not None, title="a number")
#: By the word for the type in a catalogue; what has another word takes anything.
_READERS: Mapping[str, _Reader] = {
    "int": _Reader(takes=_reads(int), title="a whole number"),
    "float": _Reader(takes=_reads(float), title="a number"),
    "json": _Reader(takes=_is_json, title="JSON"),
    "human_readable_int": _Reader(
        takes=lambda text: _SIZED.fullmatch(text) is not None,
        title="a whole number, or one like 16k",
    ),
}


def _values(case: Case) -> Iterator[tuple[str, str, Option]]:
    engine, catalogue = case.deployment.engine, case.table.catalogue
    for name, value in engine.settings.items():
        option = catalogue.find_whole(catalogue.complete(name) or name)
        for item in value if isinstance(value, list) else [value]:
            if option is not None and option.argument is not None and _has_value(item):
                yield f"engine.settings.{name}", str(item), option
    for name, text in engine.env.items():
        for option in catalogue.options:
            if option.env == name and option.argument is not None:
                yield f"engine.env.{name}", text, option


def _has_value(item: Scalar | None) -> bool:
    return item is not None and not isinstance(item, bool)


def _explain(option: Option, value: str) -> str:
    if option.kind == "number":
        return _join([_number(option).title, *option.choices])
    if not option.kind:
        return _READERS[option.type].title
    near = get_close_matches(value.lower(), option.choices, n=1, cutoff=_NEAR_ENOUGH)
    guess = f" (did you mean {near[0]}?)" if near else ""
    several = "one or more, with commas, of " if option.kind == "list" else ""
    return f"{several}{_join(option.choices)}{guess}"


def _join(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _shorten(value: str) -> str:
    shown = value[:_MOST_SHOWN_CHARACTERS]
    return shown if shown == value and value.strip() else f'"{shown}"'
