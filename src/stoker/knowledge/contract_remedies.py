"""What would keep a broken promise: rows of data, found by the symptom of a failed check.

Called by :mod:`stoker.commands.remedies`. Pure. Names no engine, flag or parser itself; which
parser reads a family on an engine is told by :mod:`stoker.knowledge.parsers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.derived.parsers import recognise
from stoker.knowledge.parsers import Family, load_parsers
from stoker.knowledge.structure import structure
from stoker.model.contract import CheckResult, Remedy
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Source

_WHERE = "contract_remedies.toml"
#: More than so many are a list to try, not advice.
MOST_REMEDIES = 3
#: Words that the failure's own details fill.
_DETAILS = ("parameter", "published")
_WORDS = ("engine", "name", "family", "tool_parser", "reasoning_parser", *_DETAILS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyRow:
    """One remedy. It applies to a failure with one of ``symptoms``, in one of ``checks`` and on one
    of ``engines`` (any where these are empty), whose details are those of ``details``.

    With ``is_last_resort`` it applies only where no other row does. ``text`` and ``value`` may hold
    the words of :func:`find_remedies` in braces; where one of them is not known, the row does not
    apply. ``key`` is a key of the deployment file, ``value`` what it is to be.
    """

    symptoms: tuple[str, ...]
    checks: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    text: str
    key: str = ""
    value: Plain = None
    is_last_resort: bool = False
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """Symptoms that no setting mends, and why."""

    symptoms: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyTable:
    """All of it."""

    remedies: tuple[RemedyRow, ...]
    without: tuple[Without, ...]


@cache
def load_remedies() -> RemedyTable:
    """The data file. Raises DataError, also for a word in braces that nothing fills."""
    data = read_toml(_WHERE)
    table = structure(
        RemedyTable,
        {"remedies": data.get("remedy", ()), "without": data.get("without", ())},
        where=_WHERE,
    )
    for number, row in enumerate(table.remedies):
        where = f"{_WHERE}: remedy {number + 1}"
        check_source(row.source, where=where)
        if not row.symptoms or not row.text:
            raise DataError(f"{where}: a remedy has symptoms and a text")
        if lost := sorted(set(_words_of(row)) - set(_WORDS)):
            raise DataError(f"{where}: nothing fills {', '.join(lost)}")
    return table


def _words_of(row: RemedyRow) -> Iterator[str]:
    for text in (row.text, row.value if isinstance(row.value, str) else ""):
        yield from re.findall(r"\{([a-z_]+)\}", text)


def find_remedies(
    result: CheckResult, *, engine: str = "", published_name: str = ""
) -> tuple[Remedy, ...]:
    """What would mend a failure, the best first; empty where nothing is known.

    ``engine`` is its kind, empty for an unknown one. The parsers are those of the family that the
    failure's details name, else of the one that the model's name tells.
    """
    words = _fill(result, engine=engine, published_name=published_name)
    rows = [
        row
        for row in load_remedies().remedies
        if _applies(row, result, engine) and set(_words_of(row)) <= words.keys()
    ]
    sure = [row for row in rows if not row.is_last_resort]
    return tuple(_make(row, words) for row in (sure or rows))[:MOST_REMEDIES]


def _applies(row: RemedyRow, result: CheckResult, engine: str) -> bool:
    details = {key: str(value) for key, value in result.details.items()}
    return (
        result.symptom in row.symptoms
        and (not row.checks or result.check in row.checks)
        and (not row.engines or engine in row.engines)
        and all(details.get(key) == value for key, value in row.details.items())
    )


def _make(row: RemedyRow, words: Mapping[str, str]) -> Remedy:
    value = _fill_value(row.value, words)
    version = row.source.version or row.source.date
    return Remedy(
        text=row.text.format(**words),
        key=row.key,
        value=value,
        source=f"{row.source.where} ({version})" if version else row.source.where,
    )


def _fill_value(value: Plain, words: Mapping[str, str]) -> Plain:
    """Text with braces is filled; a figure that fills all of it is one."""
    if not isinstance(value, str) or not _has_words(value):
        return value
    text = value.format(**words)
    return int(text) if text.isdecimal() and text.isascii() else text


def _has_words(text: str) -> bool:
    """JSON has braces of its own, with quotes in them."""
    return re.search(r"\{[a-z_]+\}", text) is not None


def _fill(result: CheckResult, *, engine: str, published_name: str) -> Mapping[str, str]:
    words = {"engine": engine, "name": published_name}
    family = _find_family(result, published_name)
    if family is not None:
        chosen = family.engines.get(engine)
        words["family"] = family.title
        words["tool_parser"] = next(iter(chosen.tool_call), "") if chosen else ""
        words["reasoning_parser"] = next(iter(chosen.reasoning), "") if chosen else ""
    words |= {name: str(result.details.get(name) or "") for name in _DETAILS}
    return {key: value for key, value in words.items() if value}


def _find_family(result: CheckResult, published_name: str) -> Family | None:
    named = result.details.get("family")
    known = {family.id: family for family in load_parsers().families}
    match = recognise({"names": [published_name]}) if published_name else None
    by_name = None if match is None or isinstance(match, Unknown) else match.family
    # The name tells variants apart that write alike; what a reply holds tells how it is written.
    if isinstance(named, str) and named in known:
        told = known[named]
        return by_name if by_name and _writes_alike(by_name, told) else told
    return by_name


def _writes_alike(one: Family, other: Family) -> bool:
    """Whether some parser reads both families."""
    return any(_parsers(one, engine) & _parsers(other, engine) for engine in one.engines)


def _parsers(family: Family, engine: str) -> frozenset[str]:
    chosen = family.engines.get(engine)
    if chosen is None:
        return frozenset()
    return frozenset((*chosen.tool_call, *chosen.reasoning, *chosen.also))
