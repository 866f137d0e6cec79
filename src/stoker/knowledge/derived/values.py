"""Values of engine flags that the engine cannot take, by what its own help says of each flag.

Called by :mod:`stoker.knowledge.derived.flags`. A value that might do is never called wrong: the
engine's own parser has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from stoker.knowledge.derived.case import Case
from stoker.model.deployment import Scalar
from stoker.model.engine_table import Option
from stoker.model.facts import Unknown

#: What the readers of numbers in C take as a whole. With something behind it they take the
#: beginning (``8k`` is 8 to them), which nobody means.
_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_NEAR_ENOUGH = 0.5
_MOST_SHOWN_CHARACTERS = 40


def find_unfit(case: Case) -> list[str] | Unknown:
    """What to say about each value that cannot be right; unknown for another build's flags."""
    found = {
        f"{path} is {_shorten(value)}, and must be {_explain(option, value)}": path
        for path, value, option in _values(case)
        if not fits(value, option)
    }
    build = case.table.catalogue.build
    if found and case.launch.engine_build != build:
        paths = ", ".join(dict.fromkeys(found.values()))
        return Unknown(reason=f"{paths}: only the values of build {build} are known")
    return list(found)


def fits(value: str, option: Option) -> bool:
    """Whether the engine may take this value for the option."""
    taken = (*option.choices, *option.also)
    match option.kind:
        case "number":
            return value in taken or _NUMBER.fullmatch(value.strip()) is not None
        case "choice":
            return value in taken
        case "list":
            return all(item in taken for item in value.split(","))
    return True


def _values(case: Case) -> Iterator[tuple[str, str, Option]]:
    engine, catalogue = case.deployment.engine, case.table.catalogue
    for name, value in engine.settings.items():
        option = catalogue.find(name)
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
        return _join(["a number", *option.choices])
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
