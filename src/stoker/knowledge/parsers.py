"""Model families and the parsers that read them, as data.

Called by :mod:`stoker.knowledge.derived.parsers`. Loads what ships with the package: it names no
family and no parser itself, and never reads a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version_range
from stoker.model.finding import Source

_WHERE = "parsers.toml"
_THINKS = ("always", "by-default", "on-request", "never", "by-template")
#: What a parser may be for; the second word is also the key in a family's row.
USES = ("tool_call", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFlags:
    """How one engine names the two parsers, without dashes.

    ``automatic``: values that make the engine look itself. ``switch``: a bare flag without which
    the tool-call parser is not used, empty where there is none.
    """

    tool_call: str
    reasoning: str
    automatic: tuple[str, ...] = ()
    switch: str = ""
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """One parser of an engine. ``until`` is the last release that has it, empty for the newest.

    ``same``: the name of the parser that reads the same format. ``unused``: why it is never
    chosen. ``presumes``: the releases in which it takes everything for thought until the mark that
    ends thinking.
    """

    since: str
    until: str = ""
    same: str = ""
    unused: str = ""
    presumes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyParsers:
    """What one engine reads a family with: parsers in the order of preference.

    ``also`` are other parsers that do. ``reads``: in which releases a parser of these two reads
    this family, where that is not all that have it. ``template``: a chat template in the engine's
    repository that the family needs for calls. ``note``: what else a person must know.
    """

    tool_call: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of models and how one is recognised.

    ``names`` are patterns of the model's name in small letters without its organisation, ``types``
    and ``classes`` what its config.json calls it, ``markers`` texts that its chat template must
    contain, all of them. ``kin`` are types and classes that it may have and others have too.
    ``silent`` are patterns of names that never think. With
    ``needs_markers`` a type or class alone is not enough.
    """

    id: str
    title: str
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    kin: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    needs_markers: bool = False
    silent: tuple[str, ...] = ()
    thinks: str
    engines: Mapping[str, FamilyParsers] = field(default_factory=dict)
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserTable:
    """All of it. ``parsers`` is by engine, use and name; ``source`` is that of the parsers."""

    engine: Mapping[str, EngineFlags]
    parsers: Mapping[str, Mapping[str, Mapping[str, Parser]]]
    source: Source
    families: tuple[Family, ...]


@cache
def load_parsers() -> ParserTable:
    """The data file. Raises DataError, also for a family that names a parser nobody has."""
    data = read_toml(_WHERE)
    source = structure(Source, data["parsers"].pop("source"), where=f"{_WHERE}: parsers")
    families = data.pop("family")
    rows = {**data, "families": families, "source": source}
    table = structure(ParserTable, rows, where=_WHERE)
    for family in table.families:
        _check_family(family, table)
    for source in (*(engine.source for engine in table.engine.values()), table.source):
        check_source(source, where=_WHERE)
    for engines in table.parsers.values():
        for parser in (row for rows in engines.values() for row in rows.values()):
            if parser.presumes and parse_version_range(parser.presumes) is None:
                raise DataError(f"{_WHERE}: {parser.presumes} is no range of versions")
    return table


def _check_family(family: Family, table: ParserTable) -> None:
    where = f"{_WHERE}: {family.id}"
    check_source(family.source, where=where)
    if family.thinks not in _THINKS:
        raise DataError(f"{where}: thinks is one of {', '.join(_THINKS)}")
    if not (family.names or family.types or family.classes or family.markers):
        raise DataError(f"{where}: nothing says how it is recognised")
    for pattern in (*family.names, *family.silent):
        _check_pattern(pattern, where)
    for engine, chosen in family.engines.items():
        known = table.parsers.get(engine, {})
        for use, names in (("tool_call", chosen.tool_call), ("reasoning", chosen.reasoning)):
            if lost := sorted(set(names) - set(known.get(use, ()))):
                raise DataError(f"{where}: {engine} has no parser {', '.join(lost)}")
        for name, versions in chosen.reads.items():
            if name not in (*chosen.tool_call, *chosen.reasoning, *chosen.also):
                raise DataError(f"{where}: {engine} does not read it with {name}")
            if parse_version_range(versions) is None:
                raise DataError(f"{where}: {versions} is no range of versions")


def _check_pattern(pattern: str, where: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise DataError(f"{where}: {pattern!r} is not a pattern: {error}") from error
