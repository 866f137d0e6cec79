"""Which flags, beside the ranks, change what the weights take of a GPU.

Called where a start's figures are kept and where they are used again. Data with a source:
``data/capacity/loading.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/loading.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Flags of one engine, without dashes."""

    flags: tuple[str, ...]
    source: Source


@cache
def load_loading() -> dict[str, Loading]:
    """By the engine's kind. Raises DataError."""
    found = structure(dict[str, Loading], read_toml(_WHERE).get("engine"), where=_WHERE)
    for kind, row in found.items():
        check_source(row.source, where=f"{_WHERE}: {kind}")
    return found
