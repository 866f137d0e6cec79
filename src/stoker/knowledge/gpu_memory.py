"""How much of a GPU's memory others may hold, and what its driver keeps for itself: data.

Called by the derived facts and by the command that waits until memory is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Little:
    """Up to which share of a GPU other programs are no reason to forbid a start."""

    share: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What the driver keeps of a GPU that nobody uses: at most so much."""

    least_bytes: int
    share: float
    source: Source

    def count_bytes(self, total_bytes: int) -> int:
        """The same for a GPU of this size."""
        return max(self.least_bytes, int(self.share * total_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """All that is known about it."""

    little: Little
    idle: Idle


@cache
def load_gpu_memory() -> GpuMemory:
    """The data file. Raises DataError."""
    where = "gpu_memory.toml"
    found = structure(GpuMemory, read_toml(where), where=where)
    check_source(found.little.source, where=f"{where}.little")
    check_source(found.idle.source, where=f"{where}.idle")
    return found
