"""The trials so far in the words of a search: what runs, what it cost, what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean

from stoker.model.tuning import Outcome, Trial
from stoker.tuning.belief import Row
from stoker.tuning.blame import BROKEN, SERVED, Faults, find_faults
from stoker.tuning.grid import Grid, Point, restart_part, to_point

#: A short workload is this share of the full one; what it measures is worth as much.
SHORT_SHARE = 0.25
#: A configuration that was interrupted so often is let be.
_MOST_INTERRUPTIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """``running``: the restart part of what runs, None where nothing does. ``level``: logarithm of
    the first baseline's value. ``since_baseline``: restarts since the baseline was measured.
    ``tried``: how often each point was tried to an end."""

    grid: Grid
    trials: tuple[Trial, ...]
    rows: tuple[Row, ...]
    faults: Faults
    running: Point | None
    restarts: int
    since_baseline: int
    level: float
    tried: Mapping[Point, int]

    def would_restart(self, point: Point) -> bool:
        """Whether the point needs another start than the one that runs."""
        return self.running is None or self.running != restart_part(self.grid, point)


def read_history(
    grid: Grid, trials: Sequence[Trial], blamed: Mapping[str, tuple[str, ...]]
) -> History:
    """The trials in the search's words; those whose choices the space lacks only cost."""
    baselines = [
        t for t in trials if _measured(t) and to_point(grid, t.configuration) == grid.baseline
    ]
    level = _value(baselines[0]) if baselines else 0.0
    restarts = sum(trial.restarted for trial in trials)
    last = baselines[-1] if baselines else None
    after = trials[trials.index(last) + 1 :] if last is not None else ()
    return History(
        grid=grid,
        trials=tuple(trials),
        rows=tuple(_list_rows(grid, trials, level)) if baselines else (),
        faults=find_faults(grid, trials, blamed),
        running=_find_running(grid, trials),
        restarts=restarts,
        since_baseline=sum(trial.restarted for trial in after),
        level=level,
        tried=_count_tried(grid, trials),
    )


def _measured(trial: Trial) -> bool:
    return trial.outcome in SERVED and bool(trial.values) and min(trial.values) > 0


def _value(trial: Trial) -> float:
    return fmean(map(log, trial.values))


def _list_rows(grid: Grid, trials: Sequence[Trial], level: float) -> list[Row]:
    rows: list[Row] = []
    restarts = 0
    for trial in trials:
        restarts += trial.restarted
        point = to_point(grid, trial.configuration)
        if point is None or not _measured(trial):
            continue
        weight = SHORT_SHARE if trial.outcome is Outcome.STOPPED else 1.0
        value = _value(trial) - level
        rows.append(Row(point=point, value=value, weight=weight, moment=float(restarts)))
    return rows


def _find_running(grid: Grid, trials: Sequence[Trial]) -> Point | None:
    """The restart part of the last trial that touched the server."""
    for trial in reversed(trials):
        point = to_point(grid, trial.configuration)
        if trial.outcome in SERVED:
            return None if point is None else restart_part(grid, point)
        if trial.outcome is not Outcome.REFUSED:
            return None
    return None


def _count_tried(grid: Grid, trials: Sequence[Trial]) -> dict[Point, int]:
    """Points that are not tried again: measured, broken, or interrupted too often. Confirmations
    and baselines that only repeat count as well."""
    counts: Counter[Point] = Counter()
    interrupted: Counter[Point] = Counter()
    for trial in trials:
        point = to_point(grid, trial.configuration)
        if point is None:
            continue
        if trial.outcome in SERVED | BROKEN:
            counts[point] += 1
        else:
            interrupted[point] += 1
    often = {point: n for point, n in interrupted.items() if n >= _MOST_INTERRUPTIONS}
    return {**often, **counts}
