"""The table of a search, from its trials and the benchmarks that they made.

Called for what `stoker tune` shows. A benchmark that is gone leaves its figures out; the values of
the objective stand in the search itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from statistics import fmean

from stoker.commands.world import World
from stoker.errors import HostError, StateError, UsageError
from stoker.model.benchmark import Benchmark, Point
from stoker.model.campaign import Campaign
from stoker.model.tuning import Configuration, Outcome, Trial
from stoker.model.tuning_table import RefusedTrial, TableCell, TableRow, TuningTable
from stoker.state.benchmarks import read_benchmark

_Key = tuple[tuple[str, str], ...]


def make_table(world: World, campaign: Campaign) -> TuningTable:
    """The configurations that were measured, the best first, and those that were not."""
    groups: dict[_Key, list[Trial]] = {}
    for trial in campaign.trials:
        if trial.values:
            groups.setdefault(_key(trial.configuration), []).append(trial)
    baseline = _key({knob.id: knob.default for knob in campaign.space.knobs})
    level = _mean(groups.get(baseline, ()))
    winner = _key(campaign.end.configuration) if campaign.end else baseline
    rows = [
        TableRow(
            title=describe_configuration(campaign, trials[0].configuration),
            ratio=_mean(trials) / level if level else None,
            trials=len(trials),
            cells=_cells(world, campaign, trials),
            is_baseline=key == baseline,
            is_winner=key == winner and key != baseline,
        )
        for key, trials in groups.items()
    ]
    rows.sort(key=lambda row: -(row.ratio or 0.0))
    return TuningTable(
        campaign=campaign,
        rows=_with_trades(rows),
        refused=tuple(
            RefusedTrial(
                title=describe_configuration(campaign, trial.configuration),
                outcome=trial.outcome.value,
                said=trial.said,
            )
            for trial in campaign.trials
            if not trial.values
        ),
        restarts=sum(trial.restarted for trial in campaign.trials),
        seconds=sum(trial.seconds for trial in campaign.trials),
    )


def describe_configuration(campaign: Campaign, configuration: Configuration) -> str:
    """What differs from the deployment as it was."""
    changes = [
        f"{knob.id} {configuration[knob.id]}"
        for knob in campaign.space.knobs
        if configuration.get(knob.id, knob.default) != knob.default
    ]
    return ", ".join(changes) or "the deployment as it was"


def _key(configuration: Configuration) -> _Key:
    return tuple(sorted(configuration.items()))


def _mean(trials: Sequence[Trial]) -> float:
    """The geometric mean, as the search has it; what was given up early counts only where nothing
    else is known."""
    whole = [trial for trial in trials if trial.outcome is Outcome.MEASURED] or trials
    values = [value for trial in whole for value in trial.values]
    return exp(fmean(map(log, values))) if values else 0.0


def _cells(world: World, campaign: Campaign, trials: Sequence[Trial]) -> tuple[TableCell, ...]:
    points: dict[int, list[Point]] = {}
    for benchmark in _read(world, trials):
        for point in benchmark.points:
            points.setdefault(point.load.concurrency, []).append(point)
    return tuple(_cell(count, points.get(count, ())) for count in campaign.aim.concurrencies)


def _read(world: World, trials: Sequence[Trial]) -> list[Benchmark]:
    found = []
    for trial in trials:
        for each in trial.benchmarks:
            try:
                found.append(read_benchmark(world.host, world.folders, each))
            except (HostError, StateError, UsageError):
                continue
    return found


def _cell(concurrency: int, points: Sequence[Point]) -> TableCell:
    return TableCell(
        concurrency=concurrency,
        tokens_per_second=_figure(points, "output_throughput"),
        requests_per_second=_figure(points, "request_throughput"),
        ttft_ms=_figure(points, "ttft", "50"),
        tpot_ms=_figure(points, "tpot", "50"),
        e2e_ms=_figure(points, "e2e", "50"),
    )


def _figure(points: Sequence[Point], name: str, percentile: str = "") -> float | None:
    values: list[float] = []
    for point in points:
        figure = point.find(name)
        if figure is None:
            continue
        value = figure.percentiles.get(percentile) if percentile else figure.mean
        if value is not None:
            values.append(value)
    return fmean(values) if values else None


def _with_trades(rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """The rows with the best trades between tokens/s of all and the time of one's own token marked:
    the Pareto front over all configurations and numbers of requests at once."""
    known = [trade for row in rows for cell in row.cells if (trade := _trade(cell)) is not None]
    return tuple(
        replace(
            row,
            cells=tuple(replace(cell, is_best_trade=_is_best(cell, known)) for cell in row.cells),
        )
        for row in rows
    )


def _trade(cell: TableCell) -> tuple[float, float] | None:
    if cell.tokens_per_second is None or cell.tpot_ms is None:
        return None
    return cell.tokens_per_second, cell.tpot_ms


def _is_best(cell: TableCell, known: Sequence[tuple[float, float]]) -> bool:
    own = _trade(cell)
    return own is not None and not any(
        rate >= own[0] and wait <= own[1] and (rate, wait) != own for rate, wait in known
    )
