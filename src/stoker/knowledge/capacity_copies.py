"""What an engine keeps of the weights a second time.

Called by the arithmetic of weights. Data with a source: ``data/capacity/weights.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/weights.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentCopies:
    """Engines that keep the up-projection of a latent attention again, as two matrices."""

    engines: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopies:
    """Engines that make the table of positions again after the weights, longer by
    ``margin_tokens`` and rounded up to ``align_tokens``. Where freed memory is held (a memory
    saver) the first one stays; both are made in steps of ``step_mib``."""

    engines: tuple[str, ...]
    margin_tokens: int
    align_tokens: int
    step_mib: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Both of them."""

    latent: LatentCopies
    table: TableCopies


@cache
def load_copies() -> Copies:
    """The tables below ``copies``. Raises DataError."""
    found = structure(Copies, read_toml(_WHERE).get("copies"), where=_WHERE)
    for row in (found.latent, found.table):
        check_source(row.source, where=_WHERE)
    return found
