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
    told = [row for row in rows if row.phase != _FAILED]
    patterns = [(re2.compile(row.pattern), row.phase) for row in told]
    # Most lines tell none, and one question settles that.
    any_of_them = re2.compile("|".join(f"(?:{_without_names(row.pattern)})" for row in told))
    current, found = "", []
    for line in lines:
        if told and any_of_them.search(line.text):
            matching = (phase for pattern, phase in patterns if pattern.search(line.text))
            current = next(matching, current)
        found.append(current)
    return tuple(found)


def _without_names(pattern: str) -> str:
    """Two groups of one pattern may not have the same name."""
    return pattern.replace("(?P<percent>", "(?:")
