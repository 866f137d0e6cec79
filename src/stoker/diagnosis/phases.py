"""How far a start had come at each line, from the rows of the engine's table.

Called by :mod:`stoker.diagnosis.diagnose`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import re2

from stoker.diagnosis.inputs import LogLine
from stoker.model.engine_log import PhaseRow

_FAILED = "failed"


def follow_phases(lines: Sequence[LogLine], rows: Sequence[PhaseRow]) -> tuple[str, ...]:
    """For each line the phase that it, or the last line before it of any process, told."""
    patterns = [(re2.compile(row.pattern), row.phase) for row in rows if row.phase != _FAILED]
    current, found = "", []
    for line in lines:
        for pattern, phase in patterns:
            if pattern.search(line.text):
                current = phase
                break
        found.append(current)
    return tuple(found)
