"""Ways of drafting tokens ahead, by engine: package data, typed.

Called by :mod:`stoker.knowledge.derived.speculation`. Loads what ships with the package and names
no engine's flag or method itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.lifetimes import order_releases
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.finding import Source

_WHERE = "speculation.toml"
#: Who drafts: a model of its own, the served model's own layers, either of the two, or no model.
NEEDED, OWN, EITHER, NONE = "needed", "own", "either", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeys:
    """What the parts of the JSON object are called; empty where an engine takes none.

    ``ranks``: over how many the draft is divided; ``longest`` and ``shortest``: of the pieces of
    the text that are looked up in it.
    """

    method: str = ""
    draft: str = ""
    tokens: str = ""
    ranks: str = ""
    longest: str = ""
    shortest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationFlags:
    """How one engine names it, without dashes; empty for what it does not have.

    ``config`` takes a JSON object with all of it, by ``keys``. ``width``: how many branches each
    drafted token has. ``tensor``: the flag that a size in the object must agree with. ``off``:
    words that mean no drafting, or no draft.
    """

    method: str
    tokens: str
    draft: str
    config: str = ""
    keys: ConfigKeys = ConfigKeys()
    steps: str = ""
    width: str = ""
    tensor: str = ""
    off: tuple[str, ...] = ()
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From which release to which a word is known; ``until`` is empty where it still is."""

    since: str
    until: str = ""

    def holds(self, release: str) -> bool:
        """Whether a release knows it."""
        ends = (self.since, release, self.until or release)
        return order_releases(ends) == ends

    def explain(self, release: str) -> str:
        """When it is known, beside the release at hand."""
        when = f"was there until {self.until}" if self.until else f"comes with {self.since}"
        return f"{when}, and this is {release}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way of drafting. ``draft`` says who drafts; ``works``: releases that run it too.

    ``is_plain``: for a draft that is a model like any other. ``is_free``: it needs no number of
    tokens.
    """

    since: str
    until: str = ""
    draft: str
    same: str = ""
    works: str = ""
    is_plain: bool = False
    is_free: bool = False

    @property
    def span(self) -> Span:
        """When its name is known."""
        return Span(since=self.since, until=self.until)

    def runs_in(self, release: str) -> bool:
        """Whether a release that knows the name can also run it."""
        wanted = parse_version_range(self.works) if self.works else None
        version = parse_version(release)
        return wanted is None or version is None or version_is_in(version, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a draft's name or class says it is made for, by engine."""

    pattern: str
    methods: Mapping[str, str]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationTable:
    """All of it."""

    engine: Mapping[str, SpeculationFlags]
    method: Mapping[str, Mapping[str, Method]]
    key: Mapping[str, Span]
    head: tuple[Head, ...]
    source: Mapping[str, Source]


@cache
def load_speculation() -> SpeculationTable:
    """The data file. Raises DataError."""
    table = structure(SpeculationTable, read_toml(_WHERE), where=_WHERE)
    sources = [*table.source.values(), *(head.source for head in table.head)]
    for source in (*sources, *(flags.source for flags in table.engine.values())):
        check_source(source, where=_WHERE)
    for engine, methods in table.method.items():
        for name, method in methods.items():
            _check_method(method, methods, f"{_WHERE}: {engine}: {name}")
    for head in table.head:
        _check_head(head, table)
    return table


def _check_method(method: Method, methods: Mapping[str, Method], where: str) -> None:
    if method.draft not in (NEEDED, OWN, EITHER, NONE):
        raise DataError(f"{where}: draft is one of {NEEDED}, {OWN}, {EITHER}, {NONE}")
    if method.same and method.same not in methods:
        raise DataError(f"{where}: there is no method {method.same}")
    if method.works and parse_version_range(method.works) is None:
        raise DataError(f"{where}: {method.works} is no range of versions")


def _check_head(head: Head, table: SpeculationTable) -> None:
    where = f"{_WHERE}: {head.pattern}"
    try:
        re.compile(head.pattern)
    except re.error as error:
        raise DataError(f"{where}: is not a pattern: {error}") from error
    for engine, name in head.methods.items():
        if name not in table.method.get(engine, {}):
            raise DataError(f"{where}: {engine} has no method {name}")
