"""Which GPU a name means: what NVIDIA's library prints, or what a recipe collection calls it.

Called by the derived facts and by whoever reads recipes. What a machine has is read there, never
here; this only knows what such a card is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "gpus.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One kind of GPU.

    ``names`` are patterns of what NVML prints, ``words`` those of the recipe collections.
    ``capability`` is 90 for compute capability 9.0; ``memory_gb`` the sizes that are sold.
    """

    key: str
    names: tuple[str, ...]
    capability: int
    memory_gb: tuple[int, ...]
    nvlink: bool
    words: tuple[str, ...]
    source: Source


@cache
def load_gpus() -> tuple[GpuRow, ...]:
    """All kinds that are known, the narrower names first. Raises DataError."""
    rows = structure(tuple[GpuRow, ...], read_toml(_WHERE).get("gpu"), where=_WHERE)
    for row in rows:
        check_source(row.source, where=f"{_WHERE}: {row.key}")
    words = [word for row in rows for word in (row.key, *(w for w in row.words if w != row.key))]
    if doubled := sorted({word for word in words if words.count(word) > 1}):
        raise DataError(f"{_WHERE}: more than one row has the word {', '.join(doubled)}")
    return rows


def find_gpu(name: str) -> GpuRow | None:
    """The kind that NVML's name of a GPU means; None for one that is not in our list."""
    return next((row for row in load_gpus() if _is_named(row, name)), None)


def find_gpu_by_word(word: str) -> GpuRow | None:
    """The kind that a recipe's word for its hardware means; None for one that is not known."""
    plain = word.strip().lower().replace(" ", "_")
    return next((row for row in load_gpus() if plain in (row.key, *row.words)), None)


def _is_named(row: GpuRow, name: str) -> bool:
    return any(re.search(pattern, name, re.IGNORECASE) for pattern in row.names)
