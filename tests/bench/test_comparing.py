"""Which of two measured servers is faster, on servers of which it is known."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from stoker.bench.comparing import compare
from stoker.bench.measuring import measure
from stoker.model.benchmark import (
    Arrival,
    Benchmark,
    ClientHealth,
    Figure,
    Load,
    Objectives,
    Point,
    Served,
    Window,
    Workload,
)
from stoker.model.benchmark_comparison import (
    BenchmarkComparison,
    BenchmarkVerdict,
    FigureComparison,
)
from stoker.model.document import parse_document, render_document
from tests.bench.traffic import Server, closed_loop

SERVED = Served(url="http://127.0.0.1:1", model="m", verified="2026-01-01T00:00:00Z")
EIGHT = Load(concurrency=8)


def benchmark(*points: Point, **changes: Any) -> Benchmark:
    fields: dict[str, Any] = {
        "id": "a",
        "started": "",
        "served": SERVED,
        "workload": Workload(name="chat", title="Chat"),
        "points": points,
    }
    return Benchmark(**(fields | changes))


def rate(*batches: float, name: str = "output_throughput") -> Figure:
    mean = sum(batches) / max(len(batches), 1)
    return Figure(name=name, unit="tokens/s", count=10, mean=mean, batches=batches)


def point(*figures: Figure, load: Load = EIGHT, **changes: Any) -> Point:
    return Point(load=load, window=Window(seconds=10), figures=figures, **changes)


def noisy(random: Random, speed: float = 1.0, waves: int = 10) -> Point:
    """A run of requests through :func:`measure`. The server's speed wanders by 2 % and comes back
    over about two waves; each request adds 5 % of its own."""
    wander = 0.0
    factors = []
    for _ in range(8 * waves):
        wander = 0.94 * wander + math.sqrt(1 - 0.94**2) * random.gauss(0, 0.02)
        factors.append(math.exp(wander + random.gauss(0, 0.05)) / speed)
    samples = closed_loop(Server(tokens=16), [0.0] * 8, 8 * waves, factors.__getitem__)
    return measure(samples, EIGHT)


def verdicts(found: BenchmarkComparison) -> dict[str, BenchmarkVerdict]:
    return {figure.name: figure.verdict for figure in found.figures}


def only(found: BenchmarkComparison) -> FigureComparison:
    (figure,) = found.figures
    return figure


def test_equal_servers_are_seldom_told_apart() -> None:
    """Over all figures of a comparison together: Holm's promise."""
    random, false, trials = Random(5), 0, 150
    for _ in range(trials):
        found = compare(benchmark(noisy(random)), benchmark(noisy(random)))
        assert set(verdicts(found)) == {"output_throughput", "ttft", "tpot", "e2e"}
        false += set(verdicts(found).values()) != {BenchmarkVerdict.INDISTINCT}
    assert false <= 0.07 * trials


def test_a_tenth_more_is_seen() -> None:
    random, seen, held, trials = Random(6), 0, 0, 40
    for _ in range(trials):
        found = compare(benchmark(noisy(random, 1.0, 20)), benchmark(noisy(random, 1.1, 20)))
        seen += verdicts(found)["output_throughput"] is BenchmarkVerdict.FASTER
        held += (found.figures[0].low or 0) <= 1.1 <= (found.figures[0].high or 0)
        assert BenchmarkVerdict.SLOWER not in verdicts(found).values()
    assert seen >= 0.9 * trials
    assert held >= 0.9 * trials


def test_exact_servers_are_told_apart_by_more_than_runs_differ() -> None:
    def run(itl: float) -> Benchmark:
        return benchmark(measure(closed_loop(Server(itl=itl), [0.0] * 8, 80), EIGHT))

    assert set(verdicts(compare(run(0.01), run(0.01))).values()) == {BenchmarkVerdict.INDISTINCT}
    assert verdicts(compare(run(0.01), run(0.008))) == {
        "output_throughput": BenchmarkVerdict.FASTER,
        "ttft": BenchmarkVerdict.INDISTINCT,
        "tpot": BenchmarkVerdict.FASTER,
        "e2e": BenchmarkVerdict.FASTER,
    }
    assert verdicts(compare(run(0.008), run(0.01)))["tpot"] is BenchmarkVerdict.SLOWER
    barely = compare(run(0.01), run(0.00995))
    assert set(verdicts(barely).values()) == {BenchmarkVerdict.INDISTINCT}
    assert verdicts(compare(run(0.01), run(0.0099), run_spread=0.0))["tpot"] == "faster"


def test_the_ratio_has_its_interval_and_its_size() -> None:
    a, b = rate(99, 101, 100, 98, 102, 100), rate(118, 122, 120, 119, 121, 120)
    figure = only(compare(benchmark(point(a)), benchmark(point(b), id="b")))
    assert figure.ratio == pytest.approx(1.2, rel=0.001)
    assert 1.17 < (figure.low or 0) < 1.2 < (figure.high or 0) < 1.23
    assert figure.effect is not None
    assert figure.effect > 5
    assert figure.chance is not None
    assert figure.chance < 0.001
    assert (figure.a, figure.b, figure.verdict) == (100, 120, BenchmarkVerdict.FASTER)


def test_too_few_slices_say_so() -> None:
    figure = only(compare(benchmark(point(rate(1, 2))), benchmark(point(rate(3, 4, 5)))))
    assert figure.verdict is BenchmarkVerdict.INDISTINCT
    assert "Fewer than 3 slices" in figure.note
    assert figure.ratio is None


def test_a_rate_of_nothing_is_compared_without_logarithms() -> None:
    zero, some = rate(0, 0, 0, 0, name="goodput"), rate(3, 3.1, 2.9, 3, name="goodput")
    figure = only(compare(benchmark(point(zero)), benchmark(point(some))))
    assert (figure.ratio, figure.verdict) == (None, BenchmarkVerdict.FASTER)
    figure = only(compare(benchmark(point(some)), benchmark(point(zero))))
    assert figure.ratio == pytest.approx(0)
    assert figure.verdict is BenchmarkVerdict.SLOWER
    figure = only(compare(benchmark(point(zero)), benchmark(point(zero))))
    assert figure.verdict is BenchmarkVerdict.INDISTINCT


def test_stand_ins_are_compared_where_tokens_are_unknown() -> None:
    figures = (
        rate(1, 2, 3, name="request_throughput"),
        rate(1, 2, 3, name="itl"),
    )
    found = compare(benchmark(point(*figures)), benchmark(point(*figures)))
    assert list(verdicts(found)) == ["request_throughput", "itl"]


# --- what cannot be compared ---

GOOD = point(rate(9, 10, 11, 10))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"served": replace(SERVED, verified="")}, "the second was not verified"),
        ({"workload": Workload(name="code", title="Code")}, "workloads differ: chat and code"),
        ({"workload": Workload(name="chat", title="Chat", turns=2)}, "chat was changed"),
        ({"seed": 4}, "different seeds: 0 and 4"),
    ],
)
def test_what_differs_between_benchmarks_is_an_obstacle(
    changes: dict[str, Any], words: str
) -> None:
    found = compare(benchmark(GOOD), benchmark(GOOD, **changes))
    assert words in found.obstacles[0]
    assert only(found).verdict is BenchmarkVerdict.INCOMPARABLE
    assert only(found).ratio == pytest.approx(1)
    assert only(found).note == found.obstacles[0]


def test_a_starved_client_spoils_its_load_alone() -> None:
    starved = replace(GOOD, health=ClientHealth(complaints=("It was late.",)))
    other = replace(GOOD, load=Load(concurrency=16))
    found = compare(benchmark(GOOD, other), benchmark(starved, other))
    assert [figure.verdict.name for figure in found.figures] == ["INCOMPARABLE", "INDISTINCT"]
    assert "second did not keep up. It was late." in found.figures[0].note


def test_answers_of_another_length_are_not_compared() -> None:
    def with_length(mean: float, deviation: float) -> Benchmark:
        length = Figure(
            name="output_tokens", unit="tokens", count=100, mean=mean, deviation=deviation
        )
        return benchmark(point(rate(9, 10, 11, 10), length))

    assert "64.0 and 32.0" in only(compare(with_length(64, 0), with_length(32, 0))).note
    assert only(compare(with_length(64, 0), with_length(64.5, 0))).note == ""
    # So much may be chance where lengths are random.
    assert only(compare(with_length(64, 40), with_length(70, 40))).note == ""


def test_other_objectives_leave_goodput_alone_uncompared() -> None:
    both = point(rate(9, 10, 11, 10), rate(1, 2, 1, 2, name="goodput"))
    a = benchmark(both, objectives=Objectives(ttft_ms=100))
    found = compare(a, benchmark(both, objectives=Objectives(ttft_ms=200, e2e_ms=9)))
    assert verdicts(found) == {
        "output_throughput": BenchmarkVerdict.INDISTINCT,
        "goodput": BenchmarkVerdict.INCOMPARABLE,
    }
    assert found.figures[1].note == "The objectives differ: ttft_ms 100 and 200, e2e_ms None and 9."


def test_loads_are_the_same_by_how_hard_they_are() -> None:
    longer = replace(GOOD, load=replace(EIGHT, requests=500, warmup_requests=8))
    assert compare(benchmark(GOOD), benchmark(longer)).figures
    others = [
        Load(concurrency=9),
        Load(arrival=Arrival.POISSON, concurrency=8, rate_per_second=3),
    ]
    for load in others:
        found = compare(benchmark(GOOD), benchmark(replace(GOOD, load=load)))
        assert (found.figures, found.only_a, found.only_b) == ((), (EIGHT,), (load,))
        assert "no load in common" in found.notes[0]


def test_settings_are_told_flag_by_flag() -> None:
    a = replace(SERVED, engine="sglang", settings={"--tp": 8, "--old": "x", "--same": 1})
    b = replace(SERVED, engine="vllm", settings={"--tp": 4, "--new": True, "--same": 1})
    found = compare(benchmark(GOOD, served=a), benchmark(GOOD, served=b))
    assert [(each.name, each.a, each.b) for each in found.settings] == [
        ("engine", "sglang", "vllm"),
        ("--new", None, True),
        ("--old", "x", None),
        ("--tp", 8, 4),
    ]
    assert found.obstacles == ()
    assert parse_document(render_document(found), BenchmarkComparison) == found


def test_the_same_launch_is_told() -> None:
    served = replace(SERVED, digest="d")
    found = compare(benchmark(GOOD, served=served), benchmark(GOOD, served=served))
    assert "Both measured the very same launch." in found.notes
