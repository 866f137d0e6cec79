"""What engines do with host memory, by release: package data, typed.

Called by :mod:`stoker.capacity.host_cache` and :mod:`stoker.capacity.host_cache_limits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

from stoker.errors import DataError
from stoker.knowledge.capacity import find_row
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/host.toml"
_WORDS = {"pools": ("all", "each"), "copies": ("one", "each", "either")}


class OfEngine(Protocol):
    """A row that holds for some releases of one engine."""

    @property
    def engine(self) -> str:
        """The engine's kind."""
        ...

    @property
    def versions(self) -> str:
        """The range in which it holds."""
        ...


Row = TypeVar("Row", bound=OfEngine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Whether ranks are bound to NUMA nodes; see the data file."""

    engine: str
    versions: str
    by_itself: bool
    is_strict: bool
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """How a cache is made to fit where nothing sizes it; see the data file."""

    engine: str
    versions: str
    most_ratio: float
    filled_share: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRule:
    """What a size that is set is the budget of; see the data file."""

    engine: str
    versions: str
    pools: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentRule:
    """How many copies of a latent cache are kept; see the data file."""

    engine: str
    versions: str
    copies: str
    is_shared: bool
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """Whether pinned memory counts against what a process may lock."""

    is_counted: bool
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """The whole of host.toml."""

    binding: tuple[Binding, ...]
    fitting: tuple[Fitting, ...]
    size: tuple[SizeRule, ...]
    latent: tuple[LatentRule, ...]
    pinning: Pinning


@cache
def load_host_rules() -> HostRules:
    """The data file. Raises DataError."""
    rules = structure(HostRules, read_toml(_WHERE), where=_WHERE)
    rows: tuple[Binding | Fitting | SizeRule | LatentRule, ...]
    rows = (*rules.binding, *rules.fitting, *rules.size, *rules.latent)
    for row in rows:
        check_source(row.source, where=f"{_WHERE}: {row.engine} {row.versions}")
    check_source(rules.pinning.source, where=f"{_WHERE}: pinning")
    for name, words in _WORDS.items():
        told = {getattr(row, name) for row in rows if hasattr(row, name)}
        if unknown := sorted(told - set(words)):
            raise DataError(f"{_WHERE}: {name}: expected one of {words}, found {unknown[0]}")
    return rules


def find_host_row(rows: Sequence[Row], engine: str, release: str) -> Row | None:
    """What holds for a release of an engine; for one without numbers the newest. None for none."""
    return find_row([row for row in rows if row.engine == engine], release)
