"""What is known of ways to draft tokens, for memory: package data, typed.

Called by :mod:`stoker.capacity.drafting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/drafting.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Those without a model, and those whose model has one layer."""

    without_model: tuple[str, ...]
    one_layer: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownDraft:
    """What is taken of a draft model that nobody described; see the data file."""

    weight_shares: tuple[float, ...]
    least_share: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """The whole of drafting.toml."""

    ways: Ways
    unknown: UnknownDraft


@cache
def load_drafting() -> Drafting:
    """The data file. Raises DataError."""
    found = structure(Drafting, read_toml(_WHERE), where=_WHERE)
    check_source(found.ways.source, where=f"{_WHERE}: ways")
    check_source(found.unknown.source, where=f"{_WHERE}: unknown")
    return found
