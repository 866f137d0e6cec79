"""How far a start has come, read from the engine's log.

Called while a service is started or watched. Pure: lines and a table in, a phase out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.model.engine_table import EngineTable, PhaseRow

_NOTHING_YET = "starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A word of ours, its title for a person, and how much of it is done (0 to 1) if known."""

    phase: str
    title: str
    fraction: float | None = None


def read_phase(lines: Sequence[str], table: EngineTable) -> Phase:
    """The phase that the last telling line of a start tells; ``starting`` if none does."""
    for line in reversed(lines):
        for row in table.phases:
            if found := re.search(row.pattern, line):
                return Phase(phase=row.phase, title=row.title, fraction=_fraction(row, found))
    return Phase(phase=_NOTHING_YET, title=_NOTHING_YET)


def _fraction(row: PhaseRow, found: re.Match[str]) -> float | None:
    percent = found.groupdict().get("percent")
    return None if percent is None else min(max(float(percent) / 100, 0.0), 1.0)
