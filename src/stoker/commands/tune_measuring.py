"""The objective's value of what runs now: short benchmarks at each concurrency.

Called by :mod:`stoker.commands.tune_work`. Larger is always better. The values at several
concurrencies are joined by their geometric mean, so that each counts by its ratio. What cannot be
believed is told as such: it says nothing of the configuration, or something else than its value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import Protocol

from stoker.bench.load_values import Patience
from stoker.bench.statistics import geometric_mean
from stoker.commands.bench import Benched, BenchWish, bench_server
from stoker.commands.bench_server import Which, find_bench_server
from stoker.commands.bench_traffic import Traffic, TrafficWish, choose_traffic
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.model.benchmark import Load, Objectives, Point, Sample
from stoker.model.campaign import Effort
from stoker.model.tuning import Aim

METRICS = ("throughput", "latency", "goodput")
#: Where no request kept its objectives the rate is put at half a request in the window, since a
#: value must be above 0.
_HALF = 0.5
_MOST_SECONDS, _LEAST_SECONDS = 3600.0, 0.5
#: A few requests of a thousand may fail for reasons of their own.
_MOST_FAILED_SHARE = 0.01
#: What is advised to be measured, in times of an answer; a benchmark below it says so.
ADVISED_ANSWERS = 3.0


class Doubt(StrEnum):
    """Why what was measured is not believed.

    ``TOO_SHORT``: the answers are longer than the load. ``STARVED``: the client could not keep up.
    ``UNANSWERED``: requests failed.
    """

    TOO_SHORT = "too-short"
    STARVED = "starved"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """``values``: of each repetition. ``doubt`` with ``said``: why they are not believed, None
    where they are. ``answer_seconds``: how long a whole answer takes on average, at the concurrency
    where it takes longest; 0 where none came."""

    values: tuple[float, ...] = ()
    benchmarks: tuple[str, ...] = ()
    said: str = ""
    doubt: Doubt | None = None
    answer_seconds: float = 0.0
    was_interrupted: bool = False


class MeasureAim(Protocol):
    """Measures a deployment that runs; :func:`measure_aim` is the one that asks a real server."""

    def __call__(
        self,
        world: World,
        name: str,
        aim: Aim,
        effort: Effort,
        *,
        traffic: Traffic,
        spared: Collection[str] = (),
    ) -> Measured:
        """As :func:`measure_aim`."""


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
    if any(not value > 0 for value in aim.objectives.values()):
        raise UsageError("an objective is a time above 0", "--ttft 500 is half a second")
    if not aim.concurrencies or any(count < 1 for count in aim.concurrencies):
        raise UsageError("a search needs numbers of requests at once", "--concurrency 1,8")
    if len(set(aim.concurrencies)) < len(aim.concurrencies):
        raise UsageError("a number of requests at once is named twice", "name each once")
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
    longest = 0.0
    for number in range(effort.repetitions):
        # Each repetition sends texts of its own: what the last one left in caches must not help.
        wish = replace(traffic.wish, seed=effort.seed * 1009 + number)
        done = bench_server(
            world,
            BenchWish(
                loads=_loads(aim, effort),
                objectives=Objectives(**aim.objectives),
                # What was cut off counts as far as it came: a slow configuration is not waited for.
                patience=Patience(drain_seconds=effort.seconds),
            ),
            server,
            replace(traffic, wish=wish),
            spared=(*spared, *kept),
        )
        kept.append(done.benchmark.id)
        found = judge_benchmark(aim, effort, done)
        values += found.values
        longest = max(longest, found.answer_seconds)
        if found.doubt or found.was_interrupted:
            return replace(
                found,
                values=tuple(values),
                benchmarks=tuple(kept),
                answer_seconds=longest,
            )
    return Measured(values=tuple(values), benchmarks=tuple(kept), answer_seconds=longest)


def judge_benchmark(aim: Aim, effort: Effort, done: Benched) -> Measured:
    """What one repetition is worth, and whether it is believed."""
    if done.was_interrupted:
        return Measured(said="the measurement was interrupted", was_interrupted=True)
    points = done.benchmark.points
    longest = max(map(_answer_seconds, points), default=0.0)
    known = [value for value in (_value_of(aim, point) for point in points) if value is not None]
    is_whole = bool(known) and len(known) == len(points) == len(aim.concurrencies)
    found = Measured(values=(geometric_mean(known),) if is_whole else (), answer_seconds=longest)
    for point, samples in zip(points, done.samples, strict=False):
        doubt, said = _judge_point(point, samples, effort)
        if doubt is Doubt.TOO_SHORT:
            return replace(found, doubt=doubt, said=said)
        if doubt is not None:
            return Measured(doubt=doubt, said=said, answer_seconds=longest)
    if is_whole:
        return found
    return Measured(doubt=Doubt.UNANSWERED, said=_explain(done), answer_seconds=longest)


def advise_seconds(answer_seconds: float) -> int:
    """How long to measure answers of this length."""
    return max(ceil(ADVISED_ANSWERS * answer_seconds), 1)


def _loads(aim: Aim, effort: Effort) -> tuple[Load, ...]:
    return tuple(
        Load(concurrency=count, seconds=effort.seconds, warmup_requests=count)
        for count in aim.concurrencies
    )


def _answer_seconds(point: Point) -> float:
    e2e = point.find("e2e")
    return e2e.mean / 1000.0 if e2e else 0.0


def _judge_point(
    point: Point, samples: Sequence[Sample], effort: Effort
) -> tuple[Doubt | None, str]:
    if point.health.complaints:
        return Doubt.STARVED, point.health.complaints[0]
    # Nothing more is sent once the load is over; who is still under way after that patience is cut.
    last = max((sample.sent_seconds for sample in samples), default=0.0) + effort.seconds
    failed = [each for each in samples if each.error and each.ended_seconds < last]
    answered = sum(each.is_good for each in samples)
    if len(failed) > _MOST_FAILED_SHARE * (len(failed) + answered):
        return Doubt.UNANSWERED, (
            f"{len(failed)} of {len(samples)} requests failed: {failed[0].error}"
        )
    if not point.window.requests:
        return Doubt.TOO_SHORT, (
            f"no answer ended in a load of {effort.seconds:g} s and as long behind it; "
            "measure longer"
        )
    takes = _answer_seconds(point)
    if takes > effort.seconds:
        return Doubt.TOO_SHORT, (
            f"an answer takes {takes:.1f} s and each load is {effort.seconds:g} s long; "
            f"measure longer: --measure {advise_seconds(takes)}s"
        )
    return None, ""


def _value_of(aim: Aim, point: Point) -> float | None:
    if not point.window.requests or point.health.complaints:
        return None
    if aim.metric == "latency":
        e2e = point.find("e2e")
        median = e2e.percentiles.get("50") if e2e else None
        return 1000.0 / median if median else None
    figure = point.find("output_throughput" if aim.metric == "throughput" else "goodput")
    if figure is None:
        return None
    if aim.metric == "goodput" and point.window.seconds > 0:
        return max(figure.mean, _HALF / point.window.seconds)
    return figure.mean or None


def _explain(done: Benched) -> str:
    said: Sequence[str] = [
        *(text for point in done.benchmark.points for text in point.errors),
        *(text for point in done.benchmark.points for text in point.notes),
        *done.benchmark.notes,
    ]
    return said[0] if said else "the server gave no answer that could be measured"
