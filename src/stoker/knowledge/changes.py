"""What model cards ask of an engine: since which release a numbered change is there.

Called by :mod:`stoker.recipes.notes.card`. The rows stand in ``data/changes.toml``; a change that
nobody wrote down there is unknown, never absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPackage:
    """A package that cards ask for; the data file explains each field."""

    name: str
    words: tuple[str, ...]
    repository: str
    kind: str = ""
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A numbered change of an engine, and the first release that has it."""

    engine: str
    number: int
    release: str
    title: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionWord:
    """How cards call a way of quantizing weights, and our word for it."""

    word: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All of ``data/changes.toml``."""

    package: tuple[AskedPackage, ...]
    change: tuple[Change, ...]
    precision: tuple[PrecisionWord, ...]

    def find_change(self, engine: str, number: int) -> Change | None:
        """What is known of a change; None where nobody wrote it down."""
        rows = (row for row in self.change if (row.engine, row.number) == (engine, number))
        return next(rows, None)


@cache
def load_asked() -> Asked:
    """The data file. Raises DataError."""
    where = "changes.toml"
    found = structure(Asked, read_toml(where), where=where)
    sources = [*(row.source for row in found.package), *(row.source for row in found.change)]
    for source in sources:
        check_source(source, where=where)
    if len({(row.engine, row.number) for row in found.change}) != len(found.change):
        raise DataError(f"{where}: a change stands there twice")
    for change in found.change:
        if parse_version(change.release) is None:
            raise DataError(f"{where}: {change.number}: {change.release} is no release")
    patterns = [word for row in found.package for word in row.words]
    for pattern in (*patterns, *(row.pattern for row in found.precision)):
        try:
            re.compile(pattern)
        except re.error as error:
            raise DataError(f"{where}: {pattern!r} is not a pattern: {error}") from error
    return found
