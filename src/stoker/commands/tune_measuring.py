"""The objective's value of what runs now: short benchmarks at each concurrency.

Called by :mod:`stoker.commands.tune`. Larger is always better. The values at several concurrencies
are joined by their geometric mean, so that each counts by its ratio.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from stoker.bench.load_values import Patience
from stoker.bench.statistics import geometric_mean
from stoker.commands.bench import Benched, BenchWish, bench_server
from stoker.commands.bench_server import Which, find_bench_server
from stoker.commands.bench_traffic import Traffic, TrafficWish, choose_traffic
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.model.benchmark import Load, Objectives, Point
from stoker.model.campaign import Effort
from stoker.model.tuning import Aim

METRICS = ("throughput", "latency", "goodput")
#: What stands for no request that kept its objectives: a value must be above 0.
_NONE_GOOD = 1e-6
_MOST_SECONDS, _LEAST_SECONDS = 3600.0, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """``values``: of each repetition; fewer where a load gave no answer, as ``said`` explains."""

    values: tuple[float, ...]
    benchmarks: tuple[str, ...]
    said: str = ""
    was_interrupted: bool = False


def check_aim(aim: Aim, effort: Effort) -> Traffic:
    """The traffic of an aim. Raises UsageError for an aim that is none."""
    if aim.metric not in METRICS:
        raise UsageError(f"there is no objective {aim.metric}", f"there are: {', '.join(METRICS)}")
    if aim.metric == "goodput" and not aim.objectives:
        raise UsageError(
            "goodput counts requests that keep objectives, and none is given",
            "give --ttft, --tpot or --e2e in milliseconds",
        )
    if aim.metric != "goodput" and aim.objectives:
        raise UsageError(f"objectives say nothing for {aim.metric}", "write --objective goodput")
    if not aim.concurrencies or any(count < 1 for count in aim.concurrencies):
        raise UsageError("a search needs numbers of requests at once", "--concurrency 1,8")
    if not _LEAST_SECONDS <= effort.seconds <= _MOST_SECONDS or effort.repetitions < 1:
        raise UsageError(
            f"a load of {effort.seconds:g} s tells nothing", "give --measure 15s, or longer"
        )
    return choose_traffic(TrafficWish(workload=aim.workload, seed=effort.seed))


def measure_aim(
    world: World,
    name: str,
    aim: Aim,
    effort: Effort,
    *,
    traffic: Traffic,
    spared: Collection[str] = (),
) -> Measured:
    """Measure a deployment that runs. ``spared``: benchmarks that must be kept.

    Raises UsageError, ContractFailed, EndpointError or HostError.
    """
    server = find_bench_server(world, Which(target=name))
    values: list[float] = []
    kept: list[str] = []
    for number in range(effort.repetitions):
        # Each repetition sends texts of its own: what the last one left in caches must not help.
        wish = replace(traffic.wish, seed=effort.seed * 1009 + number)
        done = bench_server(
            world,
            BenchWish(
                loads=_loads(aim, effort),
                objectives=_objectives(aim),
                # What was cut off counts as far as it came: a slow configuration is not waited for.
                patience=Patience(drain_seconds=effort.seconds),
            ),
            server,
            replace(traffic, wish=wish),
            spared=(*spared, *kept),
        )
        kept.append(done.benchmark.id)
        value = _value(aim, done)
        if value is None:
            return Measured(
                values=tuple(values),
                benchmarks=tuple(kept),
                said=_explain(done),
                was_interrupted=done.was_interrupted,
            )
        values.append(value)
    return Measured(values=tuple(values), benchmarks=tuple(kept))


def _loads(aim: Aim, effort: Effort) -> tuple[Load, ...]:
    return tuple(
        Load(concurrency=count, seconds=effort.seconds, warmup_requests=count)
        for count in aim.concurrencies
    )


def _objectives(aim: Aim) -> Objectives:
    return Objectives(**aim.objectives)


def _value(aim: Aim, done: Benched) -> float | None:
    """The value of one repetition; None where a load was not measured whole."""
    points = done.benchmark.points
    if done.was_interrupted or len(points) < len(aim.concurrencies):
        return None
    values = [_value_of(aim, point) for point in points]
    known = [value for value in values if value is not None]
    return geometric_mean(known) if len(known) == len(values) else None


def _value_of(aim: Aim, point: Point) -> float | None:
    if not point.window.requests or point.health.complaints:
        return None
    if aim.metric == "latency":
        e2e = point.find("e2e")
        median = e2e.percentiles.get("50") if e2e else None
        return 1000.0 / median if median else None
    name = "output_throughput" if aim.metric == "throughput" else "goodput"
    figure = point.find(name)
    if figure is None:
        return None
    return max(figure.mean, _NONE_GOOD) if aim.metric == "goodput" else figure.mean or None


def _explain(done: Benched) -> str:
    if done.was_interrupted:
        return "the measurement was interrupted"
    said: Sequence[str] = [
        *(text for point in done.benchmark.points for text in point.health.complaints),
        *(text for point in done.benchmark.points for text in point.errors),
        *(text for point in done.benchmark.points for text in point.notes),
        *done.benchmark.notes,
    ]
    return said[0] if said else "the server gave no answer that could be measured"
