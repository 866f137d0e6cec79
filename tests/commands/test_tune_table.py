"""The table of a search: rows, ratios, what was not measured, and the best trades."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.commands.tune_table import make_table
from stoker.model.benchmark import Load
from stoker.model.tuning import Aim, Choice, Knob, Outcome, Purpose, Trial
from stoker.state.benchmarks import keep_benchmark
from tests.laws.worlds import FOLDERS, Machine
from tests.report.benchmarks import benchmark, latency, point, rate
from tests.state.test_campaigns import CAMPAIGN

KNOB = Knob(id="steps", title="", choices=tuple(Choice(id=each) for each in "1248"), default="1")
AIM = Aim(concurrencies=(1, 8))


def trial(number: int, steps: str, *values: float, **rest: Any) -> Trial:
    made = Trial(
        number=number,
        configuration={"steps": steps},
        purpose=Purpose.PROPOSAL,
        outcome=Outcome.MEASURED,
        values=values,
        seconds=60.0,
        benchmarks=(f"b20261201-020500-000{steps}",) if values else (),
    )
    return replace(made, **rest)


TRIALS = (
    trial(1, "1", 100.0, 100.0),
    trial(2, "8", 150.0, 150.0),
    trial(3, "4", 90.0, outcome=Outcome.STOPPED),
    trial(4, "2", outcome=Outcome.FAILED, said="out of memory"),
    trial(5, "1", 100.0, restarted=False),
)


def measured(machine: Machine, steps: str, *found: tuple[int, float, float]) -> None:
    """Keep the benchmark of a trial: tokens/s and TPOT at each concurrency."""
    points = [
        replace(
            point(found=(rate("output_throughput", speed, "tokens/s"), latency("tpot", tpot))),
            load=Load(concurrency=count, seconds=10.0),
        )
        for count, speed, tpot in found
    ]
    kept = benchmark(*points, name=f"b20261201-020500-000{steps}")
    keep_benchmark(machine.host, FOLDERS, kept)


def test_rows_ratios_and_the_pareto_front() -> None:
    machine = Machine()
    measured(machine, "1", (1, 50.0, 10.0), (8, 200.0, 30.0))
    measured(machine, "8", (1, 80.0, 9.0), (8, 300.0, 30.0))
    campaign = replace(
        CAMPAIGN,
        space=replace(CAMPAIGN.space, knobs=(KNOB,), cuts=()),
        wish=replace(CAMPAIGN.wish, aim=AIM),
        trials=TRIALS,
    )
    table = make_table(machine.world(), campaign)
    assert [row.title for row in table.rows] == ["steps 8", "the deployment as it was", "steps 4"]
    assert [round(row.ratio or 0, 3) for row in table.rows] == [1.5, 1.0, 0.9]
    best, baseline, gone = table.rows
    assert (best.is_winner, baseline.is_baseline, baseline.trials) == (True, True, 2)
    assert [cell.is_best_trade for cell in best.cells] == [True, True]
    assert [cell.is_best_trade for cell in baseline.cells] == [False, False]
    # Its benchmark is gone: the ratio stands in the search itself, the figures are not known.
    assert [cell.tokens_per_second for cell in gone.cells] == [None, None]
    assert [cell.is_best_trade for cell in gone.cells] == [False, False]
    (refused,) = table.refused
    assert (refused.title, refused.outcome, refused.said) == ("steps 2", "failed", "out of memory")
    assert table.restarts == 4
    assert table.seconds == 300.0


def test_a_search_without_anything_measured_is_a_table_too() -> None:
    table = make_table(Machine().world(), replace(CAMPAIGN, trials=(), end=None))
    assert (table.rows, table.refused, table.restarts) == ((), (), 0)
