"""What a repetition of a trial is worth, and when it is not believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from stoker.commands.bench import Benched
from stoker.commands.tune_measuring import Doubt, advise_seconds, judge_benchmark
from stoker.model.benchmark import ClientHealth, Figure, Point, Sample, Window
from stoker.model.campaign import Effort
from stoker.model.tuning import Aim
from tests.report.benchmarks import benchmark, latency, rate, sample
from tests.report.benchmarks import point as whole_point

EFFORT = Effort(seconds=10.0)


def point(
    rate_: float = 100.0, *, e2e_ms: float = 1000.0, requests: int = 50, **rest: Any
) -> Point:
    found = (
        rate("output_throughput", rate_, "tokens/s"),
        rate("goodput", rate_ / 100, "requests/s"),
        latency("e2e", e2e_ms),
    )
    made = whole_point(found=found)
    return replace(made, window=Window(seconds=10.0, requests=requests), **rest)


def benched(
    *points: Point, samples: Sequence[Sample] = (), was_interrupted: bool = False
) -> Benched:
    own = samples or [sample(number) for number in range(20)]
    return Benched(
        benchmark=benchmark(*points),
        samples=tuple(tuple(own) for _ in points),
        was_interrupted=was_interrupted,
    )


def test_concurrencies_count_by_their_ratios() -> None:
    aim = Aim(concurrencies=(1, 8))
    found = judge_benchmark(aim, EFFORT, benched(point(10.0), point(1000.0, e2e_ms=2000.0)))
    assert found.doubt is None
    assert found.values == pytest.approx((sqrt(10.0 * 1000.0),))
    assert found.answer_seconds == pytest.approx(2.0)


def test_latency_is_the_median_and_larger_is_better() -> None:
    found = judge_benchmark(Aim(metric="latency"), EFFORT, benched(point(e2e_ms=500.0)))
    assert found.values == pytest.approx((1000.0 / (500.0 * 0.95),))


def test_no_good_request_is_half_a_one() -> None:
    aim = Aim(metric="goodput", objectives={"ttft_ms": 1.0})
    assert judge_benchmark(aim, EFFORT, benched(point(0.0))).values == pytest.approx((0.05,))
    assert judge_benchmark(aim, EFFORT, benched(point(300.0))).values == pytest.approx((3.0,))


def test_a_load_that_was_not_measured_is_none() -> None:
    found = judge_benchmark(Aim(concurrencies=(1, 8)), EFFORT, benched(point()))
    assert (found.values, found.doubt) == ((), Doubt.UNANSWERED)
    nothing = judge_benchmark(Aim(), EFFORT, benched(replace(point(), figures=())))
    assert nothing.doubt is Doubt.UNANSWERED


def test_an_interruption_is_no_answer() -> None:
    found = judge_benchmark(Aim(), EFFORT, benched(point(), was_interrupted=True))
    assert found.was_interrupted
    assert found.values == ()


def test_answers_longer_than_the_load_ask_for_more_time() -> None:
    found = judge_benchmark(Aim(), EFFORT, benched(point(e2e_ms=12_000.0)))
    assert found.doubt is Doubt.TOO_SHORT
    assert found.values == pytest.approx((100.0,))
    assert found.said.endswith("measure longer: --measure 36s")
    assert advise_seconds(0.1) == 1


def cut(number: int) -> Sample:
    """One that had not ended when patience was over, ten seconds after the last was sent."""
    return Sample(
        number=number,
        due_seconds=0.0,
        sent_seconds=0.0,
        ended_seconds=10.001,
        error="it had not ended when the load was over",
    )


def test_no_answer_at_all_asks_for_more_time() -> None:
    silent = replace(point(requests=0), figures=())
    found = judge_benchmark(Aim(), EFFORT, benched(silent, samples=[cut(0), cut(1)]))
    assert found.doubt is Doubt.TOO_SHORT
    assert found.values == ()
    assert "measure longer" in found.said


def test_requests_that_fail_are_no_speed() -> None:
    samples = [sample(0, error="HTTP 429: too many requests"), *map(sample, range(1, 30))]
    found = judge_benchmark(Aim(), EFFORT, benched(point(), samples=samples))
    assert found.doubt is Doubt.UNANSWERED
    assert found.values == ()
    assert found.said == "1 of 30 requests failed: HTTP 429: too many requests"
    # One in a thousand may fail for a reason of its own, and what was cut off has not failed.
    many = [sample(0, error="reset"), *map(sample, range(1, 200)), *map(cut, range(200, 208))]
    ended = [replace(each, ended_seconds=60.0) if each.number >= 200 else each for each in many]
    assert judge_benchmark(Aim(), EFFORT, benched(point(), samples=ended)).doubt is None


def test_a_starved_client_is_no_result() -> None:
    health = ClientHealth(complaints=("its own loop was 300 ms late",))
    found = judge_benchmark(Aim(), EFFORT, benched(point(health=health)))
    assert (found.doubt, found.values) == (Doubt.STARVED, ())
    assert found.said == "its own loop was 300 ms late"


def test_a_rate_of_nothing_is_none() -> None:
    still = replace(point(), figures=(Figure(name="output_throughput", unit="", count=1, mean=0),))
    assert judge_benchmark(Aim(), EFFORT, benched(still)).values == ()
