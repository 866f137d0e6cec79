"""The engine's table for the release that is really there.

Called where a deployment is resolved, once the engine's version is known. A flag that has another
name in a release is another name in the table's row: data, no code. Pure but for cached loaders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from stoker.errors import DataError
from stoker.knowledge.datafiles import list_data
from stoker.knowledge.engines import load_catalogue, load_engine_table, newest_build
from stoker.knowledge.lifetimes import Lifetimes, order_releases, public_version
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version
from stoker.model.engine_table import (
    EngineTable,
    FlagCatalogue,
    Option,
    ReservedFlag,
    SettingRow,
)
from stoker.model.facts import Plain
from stoker.model.finding import Source
from stoker.model.visible import visible

Row = TypeVar("Row", SettingRow, ReservedFlag)

#: What a parser tells of itself is believed within these bounds.
_MOST_OPTIONS = 5000
_LONGEST_TEXT = 20_000
#: A name of an option: a dash, and printable ASCII without blanks.
_NAME = re.compile(r"-[!-~]{1,200}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The known build that describes an engine best; ``is_exact`` where it is that very one."""

    build: str
    is_exact: bool


def known_builds(kind: str) -> tuple[str, ...]:
    """All builds of an engine whose flags are known, the oldest first."""
    return order_releases(list_data(f"flags/{kind}", ".json"))


def find_release(kind: str, version: str | None) -> Release:
    """The build whose flags are nearest to a version's: itself, or the newest one before it.

    The oldest one for a version that is older than all; the newest one for none, and for the
    zeros that a build from a repository without tags calls itself.
    """
    builds = known_builds(kind)
    if version is None or not any(parse_version(version) or ()):
        return Release(build=newest_build(kind), is_exact=False)
    lifetimes = Lifetimes(engine=kind, releases=builds, flags={})
    found = lifetimes.release_of(version)
    is_exact = found is not None and found == public_version(version)
    return Release(build=found or builds[0], is_exact=is_exact)


@cache
def load_table_for(kind: str, version: str | None) -> EngineTable:
    """The engine's table with the flags of this version, as near as they are known.

    Raises UsageError for an engine that nobody described.
    """
    table = load_engine_table(kind)
    return fit_table(table, load_catalogue(kind, find_release(kind, version).build))


def fit_table(table: EngineTable, catalogue: FlagCatalogue) -> EngineTable:
    """The table with another catalogue, every row under the name that the flag has there.

    A row that the catalogue has under no name keeps its first one.
    """
    return replace(
        table,
        catalogue=catalogue,
        settings={name: _spell(row, catalogue) for name, row in table.settings.items()},
        reserved=tuple(_spell(row, catalogue) for row in table.reserved),
    )


def _spell(row: Row, catalogue: FlagCatalogue) -> Row:
    if isinstance(row, SettingRow) and row.kind == "env":
        return row
    names = (row.flag, *row.also)
    there = next((name for name in names if catalogue.find(name) is not None), row.flag)
    return row if there == row.flag else replace(row, flag=there)


def parse_options(
    rows: Plain, known: FlagCatalogue, *, version: str, source: Source
) -> FlagCatalogue:
    """What an installed engine's parser told as a catalogue. Raises DataError for anything odd.

    ``known`` is the catalogue of the nearest release; what its help texts and its sources say
    beyond the parser (what replaces a deprecated flag, which values a plug-in may add to) is kept.
    """
    if not isinstance(rows, list) or not 0 < len(rows) <= _MOST_OPTIONS:
        raise DataError(f"the parser of {known.engine} {version} told no usable list of options")
    if len(str(rows)) > _MOST_OPTIONS * _LONGEST_TEXT:
        raise DataError(f"the parser of {known.engine} {version} told too much")
    told = structure(tuple[Option, ...], rows, where=f"the parser of {known.engine} {version}")
    by_name = {name: option for option in known.options for name in option.names}
    odd = next((name for option in told for name in option.names if not _NAME.match(name)), None)
    if odd is not None:
        raise DataError(
            f"the parser of {known.engine} {version} has an option of an odd name: {visible(odd)}"
        )
    options = tuple(_complete(option, by_name) for option in told if option.names)
    return replace(known, build=version, options=options, source=source)


def _complete(option: Option, known: Mapping[str, Option]) -> Option:
    same = next((known[name] for name in option.names if name in known), None)
    if same is None:
        return option
    if option.env is None and same.env is not None:
        option = replace(option, env=same.env)
    if not option.deprecated_by and same.deprecated_by is not None:
        option = replace(option, deprecated_by=same.deprecated_by)
    if not option.choices and not same.kind and same.choices:
        option = replace(option, choices=same.choices)
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How an installed parser differs from the catalogue of its release: flags by first names.

    ``choices`` are flags that take other values.
    """

    only_installed: tuple[str, ...]
    only_known: tuple[str, ...]
    choices: tuple[str, ...]


def compare_catalogues(installed: FlagCatalogue, known: FlagCatalogue) -> Difference:
    """What one has and the other has not. A default may follow the machine, so none counts."""
    here, there = _names(installed.options), _names(known.options)
    return Difference(
        only_installed=tuple(sorted(here.keys() - there.keys())),
        only_known=tuple(sorted(there.keys() - here.keys())),
        choices=tuple(
            sorted(
                {
                    here[name].names[0]
                    for name in here.keys() & there.keys()
                    if _take_others(here[name], there[name])
                }
            )
        ),
    )


def _names(options: Iterable[Option]) -> dict[str, Option]:
    return {name: option for option in options for name in option.names}


def _take_others(one: Option, other: Option) -> bool:
    """Whether two options surely take different values."""
    is_unknown = "choices" in one.unknown or "choices" in other.unknown
    return not is_unknown and _choices(one) != _choices(other)


def _choices(option: Option) -> frozenset[str] | None:
    """The only values of an option; None where others may do, or they are not known."""
    return frozenset(option.choices) if option.kind == "choice" else None
