"""Which flags of the engines size memory, by meaning: package data, typed.

Called by :mod:`stoker.capacity.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/settings.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """The flags of one engine: numbers, words, switches, and sizes with the bytes of their unit.

    ``draft_table``: a flag whose value is a table about drafting.
    """

    engine: str
    source: Source
    meanings: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)
    off: Mapping[str, str] = field(default_factory=dict)
    sized: Mapping[str, str] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    draft_table: str = ""


@cache
def load_capacity_flags() -> Mapping[str, FlagRow]:
    """The rows by engine. Raises DataError."""
    rows = structure(tuple[FlagRow, ...], read_toml(_WHERE).get("flag"), where=_WHERE)
    for row in rows:
        check_source(row.source, where=f"{_WHERE}: {row.engine}")
    return {row.engine: row for row in rows}
