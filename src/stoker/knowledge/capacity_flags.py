"""Which flags of the engines size memory, by meaning: package data, typed.

Called by :mod:`stoker.capacity.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/settings.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """The flags of one engine: numbers, words, switches, and sizes with the bytes of their unit.

    ``also`` names further places of the same meaning, which count where the first is not set; a
    place is a flag, or a flag and a path in its table (``flag:a.b``). ``off_words``: a place, and
    the words in it that switch the meaning off. ``largest``: places of lists whose greatest number
    counts before all others.
    """

    engine: str
    source: Source
    meanings: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)
    off: Mapping[str, str] = field(default_factory=dict)
    sized: Mapping[str, str] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    off_words: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    largest: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    draft_table: str = ""

    def places(self, meaning: str, first: Mapping[str, str]) -> tuple[str, ...]:
        """Where a meaning may stand, in the order in which the places count."""
        known = first.get(meaning)
        return (*(() if known is None else (known,)), *self.also.get(meaning, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndescribedRow:
    """A flag that moves memory in a way that is not described.

    It counts where its number is above ``above``, else where it is one of ``words``, else where it
    is set to anything but false, none and zero. ``refuses``: then no figure may be given.
    ``of_weights``: it moves the weights alone, so what is free after them settles it.
    ``of_gpus``: it moves nothing where there is no GPU.
    """

    engine: str
    flag: str
    says: str
    source: Source
    above: float | None = None
    words: tuple[str, ...] = ()
    refuses: bool = False
    of_weights: bool = False
    of_gpus: bool = False


@cache
def load_capacity_flags() -> Mapping[str, FlagRow]:
    """The rows by engine. Raises DataError."""
    rows = structure(tuple[FlagRow, ...], read_toml(_WHERE).get("flag"), where=_WHERE)
    for row in rows:
        check_source(row.source, where=f"{_WHERE}: {row.engine}")
        if set(row.sized) != set(row.bytes):
            raise DataError(f"{_WHERE}: {row.engine}: sized and bytes name different meanings")
    return {row.engine: row for row in rows}


@cache
def load_undescribed() -> tuple[UndescribedRow, ...]:
    """What moves memory and is not described. Raises DataError."""
    where = f"{_WHERE}: undescribed"
    rows = structure(tuple[UndescribedRow, ...], read_toml(_WHERE).get("undescribed"), where=where)
    for row in rows:
        check_source(row.source, where=f"{where} {row.flag}")
    return rows
