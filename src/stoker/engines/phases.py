"""How far a start has come, read from the engine's log.

Called while a service is started or watched. Pure: lines and a table in, a phase out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.model.engine_log import PhaseRow
from stoker.model.engine_table import EngineTable

_NOTHING_YET = "starting"
_FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A word of ours, its title for a person, and how much of it is done (0 to 1) if known."""

    phase: str
    title: str
    fraction: float | None = None


def read_phase(lines: Sequence[str], table: EngineTable) -> Phase:
    """The phase that the last telling line of a start tells; ``starting`` if none does.

    Of several lines about one failure it is the first, which is nearest to its cause.
    """
    last: Phase | None = None
    for line in reversed(lines):
        told = _read_line(line, table)
        if told is None:
            continue
        if told.phase != _FAILED:
            return last or told
        last = told
    return last or Phase(phase=_NOTHING_YET, title=_NOTHING_YET)


def _read_line(line: str, table: EngineTable) -> Phase | None:
    for row in table.log.phases:
        if found := re.search(row.pattern, line):
            return Phase(phase=row.phase, title=row.title, fraction=_fraction(row, found))
    return None


def _fraction(row: PhaseRow, found: re.Match[str]) -> float | None:
    percent = found.groupdict().get("percent")
    return None if percent is None else min(max(float(percent) / 100, 0.0), 1.0)
