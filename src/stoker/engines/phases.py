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

#: How much of one error is worth a person's time; its end says what it is.
MOST_ERROR_LINES = 40
#: An engine says in a line of its own that something failed, and shows the trace below it.
_LINES_BEFORE_TRACE = 3
_TRACE = "Traceback (most recent call last)"
#: The last line of a trace, behind whatever the engine's log puts before each line. The lines of
#: code above it are indented further.
_TRACE_END = re.compile(
    r"(?:^|\S )(?<!except )(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: |:?$)"
)


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


def find_error(lines: Sequence[str], table: EngineTable) -> range | None:
    """Where the first error of a start stands among its lines, at most MOST_ERROR_LINES of it.

    It is the nearest to the cause: what comes later is told by processes that lost another one.
    None where no line tells of an error.
    """
    begin = next((at for at, line in enumerate(lines) if _is_error(line, table)), None)
    if begin is None:
        return None
    near = range(begin, min(begin + _LINES_BEFORE_TRACE + 1, len(lines)))
    trace = next((at for at in near if _TRACE in lines[at]), None)
    end = begin if trace is None else _end_of_trace(lines, trace)
    return range(max(begin, end + 1 - MOST_ERROR_LINES), end + 1)


def _end_of_trace(lines: Sequence[str], begin: int) -> int:
    """The line that names the exception; where none does, the last that is shown."""
    behind = range(begin + 1, len(lines))
    last = min(begin + MOST_ERROR_LINES, len(lines)) - 1
    return next((at for at in behind if _TRACE_END.search(lines[at])), last)


def _is_error(line: str, table: EngineTable) -> bool:
    told = _read_line(line, table)
    return _TRACE in line or (told is not None and told.phase == _FAILED)


def _read_line(line: str, table: EngineTable) -> Phase | None:
    for row in table.log.phases:
        if found := re.search(row.pattern, line):
            return Phase(phase=row.phase, title=row.title, fraction=_fraction(row, found))
    return None


def _fraction(row: PhaseRow, found: re.Match[str]) -> float | None:
    percent = found.groupdict().get("percent")
    return None if percent is None else min(max(float(percent) / 100, 0.0), 1.0)
