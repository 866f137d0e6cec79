"""How engines keep context and weights in host memory: package data, typed.

Called by :mod:`stoker.knowledge.derived.hicache`. Loads what ships with the package and names no
engine and no flag itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.facts import Plain
from stoker.model.finding import Source

_WHERE = "host_cache.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBounds:
    """Least and most: bytes of a GPU before the weights, and weights against their files."""

    overhead_bytes: tuple[int, ...]
    weight_shares: tuple[float, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFlags:
    """What sizes the cache, by flags without dashes; empty for what an engine does not have.

    Without ``switch`` set, where there is one, there is no cache. ``size`` counts in
    ``size_bytes`` and goes before ``ratio``; ``share`` lets the engine fit it to what is free.
    """

    switch: str = ""
    size: str = ""
    size_bytes: int = 1
    ratio: str = ""
    usual_ratio: float = 0.0
    share: str = ""
    by_rank: bool = False
    state_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCache:
    """What some releases of one engine keep in host memory.

    ``gpu_share`` is the flag for the part of a GPU that the engine takes, ``gpu_shares`` least and
    most of it where it is not set. ``weights`` counts in ``weights_bytes``, for each rank.
    """

    cache: CacheFlags
    gpu_share: str = ""
    gpu_shares: tuple[float, ...] = (0.0, 1.0)
    weights: str = ""
    weights_bytes: int = 1
    reserve_bytes: int = 0
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCacheRow:
    """For which releases of which engine it holds; empty ``versions`` are all."""

    kind: str
    versions: str
    rules: HostCache


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCacheTable:
    """All of it."""

    bounds: PoolBounds
    rows: tuple[HostCacheRow, ...]

    def find(self, kind: str, release: str) -> HostCache:
        """What holds for a release; for one without numbers the engine's first row.

        An engine without a row keeps nothing there that is known.
        """
        version = parse_version(release)
        for row in self.rows:
            wanted = parse_version_range(row.versions) if row.versions else None
            fits = wanted is None or version is None or version_is_in(version, wanted)
            if row.kind == kind and fits:
                return row.rules
        return HostCache(cache=CacheFlags(), source=self.bounds.source)


@cache
def load_host_cache() -> HostCacheTable:
    """The data file. Raises DataError."""
    data = read_toml(_WHERE)
    bounds = structure(PoolBounds, data.pop("bounds"), where=f"{_WHERE}: bounds")
    check_source(bounds.source, where=f"{_WHERE}: bounds")
    _check_pair(bounds.overhead_bytes, f"{_WHERE}: overhead_bytes")
    _check_pair(bounds.weight_shares, f"{_WHERE}: weight_shares")
    rows = tuple(
        _parse_row(row, f"{_WHERE}: engine {n + 1}") for n, row in enumerate(data["engine"])
    )
    return HostCacheTable(bounds=bounds, rows=rows)


def _parse_row(row: Mapping[str, Plain], where: str) -> HostCacheRow:
    inner = CacheFlags.__dataclass_fields__
    parts = {name: value for name, value in row.items() if name in inner}
    rest = {name: value for name, value in row.items() if name not in {*inner, "kind", "versions"}}
    rules = structure(HostCache, {**rest, "cache": parts}, where=where)
    made = HostCacheRow(
        kind=str(row.get("kind", "")), versions=str(row.get("versions", "")), rules=rules
    )
    check_source(rules.source, where=where)
    _check_pair(rules.gpu_shares, f"{where}: gpu_shares")
    if made.versions and parse_version_range(made.versions) is None:
        raise DataError(f"{where}: {made.versions} is no range of versions")
    if rules.cache.ratio and not (rules.gpu_share and rules.cache.usual_ratio > 0):
        raise DataError(f"{where}: a ratio needs usual_ratio and gpu_share")
    return made


def _check_pair(pair: Sequence[float], where: str) -> None:
    if len(pair) != 2 or not 0 <= pair[0] <= pair[1]:
        raise DataError(f"{where}: a least and a most, in this order")
