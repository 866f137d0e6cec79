"""What a load found, where the truth is known: an exact server, in step and out of step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.bench.figures import keeps
from stoker.bench.measuring import mark_warmup, measure
from stoker.bench.windows import find_shares
from stoker.model.benchmark import Arrival, Figure, Load, Objectives, Point, Sample, TokenCount
from stoker.model.document import parse_document, render_document
from tests.bench.traffic import Server, closed_loop


def figure(point: Point, name: str) -> Figure:
    found = point.find(name)
    assert found is not None, (name, point.notes)
    return found


servers = st.builds(
    Server,
    ttft=st.floats(0.001, 0.2),
    itl=st.floats(0.002, 0.05),
    tokens=st.integers(32, 300),
    per_event=st.sampled_from([1, 1, 2, 5]),
)


def whole_events(server: Server) -> Server:
    """Without a last event that carries fewer tokens: it would break the ideal rate."""
    return replace(server, tokens=server.events * server.per_event, itl=round(server.itl, 4))


@given(servers.map(whole_events), st.integers(1, 12), st.integers(5, 15), st.integers(0, 24))
@settings(deadline=None, max_examples=60)
def test_waves_in_step_have_the_ideal_rate(
    server: Server, places: int, waves: int, more: int
) -> None:
    samples = closed_loop(server, [0.0] * places, places * waves + more % places)
    point = measure(samples, Load(concurrency=places))
    assert figure(point, "output_throughput").mean == pytest.approx(server.ideal(places), rel=0.005)
    assert figure(point, "request_throughput").mean == pytest.approx(
        server.ideal(places) / server.tokens, rel=0.005
    )
    assert point.window.requests == places * waves
    assert point.window.drain_requests == more % places
    assert min(point.batches) == pytest.approx(max(point.batches), rel=0.01)


@given(servers.map(whole_events), st.integers(1, 12), st.integers(8, 15), st.booleans())
@settings(deadline=None, max_examples=60)
def test_places_out_of_step_have_the_ideal_rate(
    server: Server, places: int, waves: int, is_warm: bool
) -> None:
    offsets = [index * server.seconds / places for index in range(places)]
    samples = mark_warmup(closed_loop(server, offsets, places * waves), places * is_warm)
    point = measure(samples, Load(concurrency=places))
    assert figure(point, "output_throughput").mean == pytest.approx(server.ideal(places), rel=0.005)


@given(st.integers(2, 64), st.integers(0, 1000), st.floats(0, 0.06), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_slow_sender_and_jitter_do_not_move_the_rate(
    places: int, seed: int, ramp: float, is_warm: bool
) -> None:
    server, random = Server(), Random(seed)
    offsets = [ramp * index / places for index in range(places)]
    factors = [1 + random.gauss(0, 0.003) for _ in range(places * 12)]
    samples = closed_loop(server, offsets, places * 12, factors.__getitem__)
    point = measure(mark_warmup(samples, places * is_warm), Load(concurrency=places))
    assert figure(point, "output_throughput").mean == pytest.approx(server.ideal(places), rel=0.005)


def test_the_long_first_token_of_a_queue_is_no_loss() -> None:
    """A server that works on two at a time makes tokens at the same rate from the first moment."""
    samples = []
    free = [0.0, 0.0]
    sendings = [0.0] * 8
    for number in range(80):
        place = free.index(min(free))
        start = max(free[place], sendings[number])
        done = Server(ttft=0.01).answer(number, start)
        samples.append(replace(done, sent_seconds=sendings[number]))
        free[place] = done.ended_seconds
        sendings.append(done.ended_seconds)
    point = measure(samples, Load(concurrency=8))
    assert figure(point, "output_throughput").mean == pytest.approx(
        Server(ttft=0.01).ideal(2), rel=0.01
    )


def test_one_wave_is_measured_whole_and_says_so() -> None:
    server = Server()
    point = measure(closed_loop(server, [0.0] * 8, 8), Load(concurrency=8))
    assert figure(point, "output_throughput").mean == pytest.approx(server.ideal(8))
    assert point.window.requests == 8
    assert "over the whole run of 8 requests" in point.notes[0]
    assert point.batches == ()
    assert figure(point, "output_throughput").low is None


def test_fewer_requests_than_places_are_measured_whole() -> None:
    point = measure(closed_loop(Server(), [0.0] * 8, 3), Load(concurrency=8))
    assert figure(point, "output_throughput").mean == pytest.approx(Server().ideal(3))
    assert "whole run of 3" in point.notes[0]


def test_a_wave_and_a_half_counts_the_wave_and_says_that_it_is_short() -> None:
    point = measure(closed_loop(Server(), [0.0] * 8, 12), Load(concurrency=8))
    assert figure(point, "output_throughput").mean == pytest.approx(Server().ideal(8))
    assert (point.window.requests, point.window.drain_requests) == (8, 4)
    assert "1.0 times as long as a request" in point.notes[0]


def test_warm_up_and_drain_are_told() -> None:
    samples = mark_warmup(closed_loop(Server(), [0.0] * 4, 26), 4)
    window = measure(samples, Load(concurrency=4)).window
    assert (window.warmup_requests, window.requests, window.drain_requests) == (4, 20, 2)
    assert window.seconds == pytest.approx(5 * Server().seconds)
    assert window.warmup_seconds == pytest.approx(Server().seconds)
    assert window.drain_seconds == pytest.approx(Server().seconds)


@pytest.mark.parametrize("arrival", list(Arrival))
def test_nothing_at_all_is_a_point_too(arrival: Arrival) -> None:
    load = Load(arrival=arrival, concurrency=4)
    point = measure([], load)
    assert (point.figures, point.window.seconds) == ((), 0)
    assert point.notes[0] == "No request was measured."
    failed = Sample(number=0, due_seconds=0, sent_seconds=0, ended_seconds=1, error="refused")
    point = measure([failed], load, objectives=Objectives(ttft_ms=1))
    assert point.window.failed_requests == 1
    assert point.errors == {"refused": 1}
    assert figure(point, "goodput_share").mean == 0


# --- figures ---


def test_latencies_are_by_the_field() -> None:
    point = measure(closed_loop(Server(), [0.0] * 4, 40), Load(concurrency=4))
    for name, value in (("ttft", 100), ("itl", 10), ("tpot", 10), ("e2e", 730)):
        found = figure(point, name)
        assert found.mean == pytest.approx(value)
        assert found.deviation == pytest.approx(0, abs=1e-6)
        assert set(found.percentiles) == {"50", "90", "95", "99"}
        assert len(found.batches) == 10
    assert figure(point, "itl").count == 40 * 63
    assert figure(point, "itl").intervals == {}
    assert set(figure(point, "e2e").intervals) == {"50", "90"}
    assert figure(point, "prompt_tokens").mean == 32
    assert figure(point, "output_tokens").mean == 64
    assert figure(point, "cached_share").mean == 0
    assert figure(point, "total_throughput").mean == pytest.approx(Server().ideal(4) * 1.5)
    assert parse_document(render_document(point), Point) == point


def test_an_engine_that_puts_tokens_together_is_seen_through() -> None:
    server = Server(per_event=4)
    point = measure(closed_loop(server, [0.0] * 4, 40), Load(concurrency=4))
    assert figure(point, "tokens_per_event").mean == 4
    assert figure(point, "itl").mean == pytest.approx(40)
    assert figure(point, "tpot").mean == pytest.approx(600 / 63)
    assert any("4.00 tokens" in note for note in point.notes)


def without_usage(samples: Sequence[Sample], numbers: range) -> list[Sample]:
    return [
        replace(sample, tokens=TokenCount()) if sample.number in numbers else sample
        for sample in samples
    ]


def test_tokens_that_the_server_does_not_tell_are_unknown() -> None:
    samples = without_usage(closed_loop(Server(), [0.0] * 4, 40), range(10))
    point = measure(samples, Load(concurrency=4))
    assert point.find("output_throughput") is None
    assert figure(point, "events_throughput").mean == pytest.approx(Server().ideal(4))
    assert figure(point, "events_throughput").unit == "events/s"
    assert "no usage for 10 of 40" in point.notes[0]


def test_a_single_missing_usage_is_estimated_and_told() -> None:
    samples = without_usage(closed_loop(Server(), [0.0] * 4, 40), range(1))
    point = measure(samples, Load(concurrency=4))
    assert figure(point, "output_throughput").mean == pytest.approx(Server().ideal(4))
    assert "estimated" in point.notes[0]


def test_what_an_interruption_cut_off_still_counts_for_the_rate() -> None:
    samples = closed_loop(Server(), [index * 0.73 / 8 for index in range(8)], 80)
    at = samples[70].sent_seconds + 0.3
    kept = [
        sample
        if sample.ended_seconds <= at
        else replace(
            sample,
            ended_seconds=at,
            last_seconds=at,
            gaps_us=sample.gaps_us[: max(int((at - (sample.first_seconds or at)) / 0.01), 0)],
            tokens=TokenCount(),
            error="cut",
        )
        for sample in samples
        if sample.sent_seconds + 0.1 < at
    ]
    point = measure(kept, Load(concurrency=8), was_interrupted=True)
    assert point.was_interrupted
    assert figure(point, "output_throughput").mean == pytest.approx(Server().ideal(8), rel=0.01)
    assert any("cut off" in note for note in point.notes)


# --- goodput ---


def test_goodput_counts_what_keeps_the_objectives() -> None:
    samples = closed_loop(Server(), [0.0] * 4, 40, lambda number: 1 + (number % 4 == 0) * 0.001)
    point = measure(samples, Load(concurrency=4), objectives=Objectives(ttft_ms=100.05))
    assert figure(point, "goodput_share").mean == pytest.approx(0.75)
    rate = figure(point, "request_throughput").mean
    assert figure(point, "goodput").mean == pytest.approx(0.75 * rate, rel=0.01)
    assert figure(point, "goodput").unit == "requests/s"


@pytest.mark.parametrize(
    ("objectives", "kept"),
    [
        (Objectives(), True),
        (Objectives(ttft_ms=101, tpot_ms=10.1, itl_p99_ms=10.1, e2e_ms=731), True),
        (Objectives(ttft_ms=99), False),
        (Objectives(tpot_ms=9.9), False),
        (Objectives(itl_p99_ms=9.9), False),
        (Objectives(e2e_ms=729), False),
    ],
)
def test_each_objective_is_kept_or_not(objectives: Objectives, kept: bool) -> None:
    assert keeps(Server().answer(0, 0.0), objectives) is kept


def test_objectives_about_unknown_tokens_are_unknown() -> None:
    sample = replace(Server().answer(0, 0.0), tokens=TokenCount())
    assert keeps(sample, Objectives(tpot_ms=1)) is None
    assert keeps(sample, Objectives(tpot_ms=1, ttft_ms=1)) is False
    samples = without_usage(closed_loop(Server(), [0.0] * 4, 40), range(40))
    point = measure(samples, Load(concurrency=4), objectives=Objectives(tpot_ms=11))
    assert point.find("goodput") is None
    assert any("Goodput is unknown" in note for note in point.notes)


def test_failures_are_no_goodput() -> None:
    samples = closed_loop(Server(), [0.0] * 4, 40)
    samples[20] = replace(samples[20], error="HTTP status 500", first_seconds=None)
    point = measure(samples, Load(concurrency=4), objectives=Objectives(ttft_ms=200))
    assert figure(point, "goodput_share").mean == pytest.approx(39 / 40)
    assert (point.window.failed_requests, point.window.requests) == (1, 39)


# --- open loops ---


def open_loop(rate: float, seconds: float, random: Random | None) -> list[Sample]:
    moment = 0.0
    samples: list[Sample] = []
    while moment < seconds:
        samples.append(Server().answer(len(samples), moment))
        moment += random.expovariate(rate) if random else 1 / rate
    return samples


def test_a_constant_rate_is_found_again() -> None:
    load = Load(arrival=Arrival.CONSTANT, rate_per_second=20, concurrency=0)
    point = measure(open_loop(20, 30, None), load)
    assert figure(point, "request_throughput").mean == pytest.approx(20, rel=0.005)
    assert figure(point, "output_throughput").mean == pytest.approx(20 * 64, rel=0.005)
    assert point.window.warmup_seconds == pytest.approx(0.73)


def test_the_interval_of_a_random_rate_holds_it() -> None:
    load, held = Load(arrival=Arrival.POISSON, rate_per_second=20, concurrency=0), 0
    for seed in range(40):
        found = figure(measure(open_loop(20, 30, Random(seed)), load), "request_throughput")
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 20 <= found.high
    assert held >= 34


def test_a_bound_that_holds_requests_back_is_told() -> None:
    late = [replace(each, due_seconds=each.sent_seconds - 1) for each in open_loop(20, 9, None)]
    load = Load(arrival=Arrival.CONSTANT, rate_per_second=20, concurrency=5)
    assert any("waited, since 5 at once" in note for note in measure(late, load).notes)


def test_a_short_open_loop_is_measured_whole() -> None:
    load = Load(arrival=Arrival.CONSTANT, rate_per_second=20, concurrency=0)
    point = measure(open_loop(20, 0.3, None), load)
    assert point.window.requests == len(open_loop(20, 0.3, None))
    assert "whole run" in point.notes[0]


# --- anything ---

moments = st.floats(0, 5)


@st.composite
def any_sample(draw: st.DrawFn, number: int = 0) -> Sample:
    sent = draw(moments)
    first = sent + draw(st.floats(0, 1)) if draw(st.booleans()) else None
    gaps = tuple(draw(st.lists(st.integers(0, 200_000), max_size=5))) if first else ()
    last = None if first is None else first + sum(gaps) / 1e6
    tokens = st.none() | st.integers(0, 50)
    return Sample(
        number=number,
        due_seconds=sent,
        sent_seconds=sent,
        ended_seconds=(last or sent) + draw(st.sampled_from([0.0, 0.1])),
        first_seconds=first,
        last_seconds=last,
        gaps_us=gaps,
        tokens=TokenCount(prompt=draw(tokens), output=draw(tokens), cached=draw(tokens)),
        error=draw(st.sampled_from(["", "", "", "broken"])),
        is_measured=draw(st.sampled_from([True, True, False])),
    )


@given(
    st.lists(any_sample(), max_size=12),
    st.sampled_from(Arrival),
    st.integers(0, 4),
    st.sampled_from(
        [Objectives(), Objectives(ttft_ms=500, tpot_ms=50, itl_p99_ms=100, e2e_ms=1000)]
    ),
)
@settings(deadline=None, max_examples=150)
def test_no_run_of_requests_breaks_the_figures(
    samples: list[Sample], arrival: Arrival, concurrency: int, objectives: Objectives
) -> None:
    numbered = [replace(sample, number=number) for number, sample in enumerate(samples)]
    load = Load(arrival=arrival, concurrency=concurrency, rate_per_second=1.0)
    point = measure(numbered, load, objectives=objectives)
    assert parse_document(render_document(point), Point) == point
    assert point.window.seconds >= 0
    good = sum(sample.is_good for sample in samples)
    window = point.window
    assert window.requests + window.warmup_requests + window.drain_requests == good
    for found in point.figures:
        assert math.isfinite(found.mean)
        assert found.mean >= 0
        assert found.low is None or found.low <= found.mean <= (found.high or 0)


@given(any_sample(), st.lists(st.floats(-1, 9), min_size=2, max_size=6).map(sorted))
def test_shares_of_a_request_add_up(sample: Sample, edges: list[float]) -> None:
    shares = find_shares(sample, edges)
    assert all(share >= -1e-9 for share in shares)
    assert sum(shares) == pytest.approx(find_shares(sample, [edges[0], edges[-1]])[0], abs=1e-9)
    assert find_shares(sample, [-2.0, 20.0]) == [1]
