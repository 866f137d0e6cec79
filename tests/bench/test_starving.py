"""A client that did not keep up says so, and does not blame itself for what a server does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.bench.measuring import measure
from stoker.bench.starving import Watched
from stoker.model.benchmark import Arrival, Load, Point, Sample
from tests.bench.traffic import Server, closed_loop

STEADY = closed_loop(Server(), [0.0] * 4, 40)
CLOSED = Load(concurrency=4)
OPEN = Load(arrival=Arrival.CONSTANT, concurrency=0, rate_per_second=5)


def bursty(samples: Sequence[Sample]) -> list[Sample]:
    """The same answers in writes of eight events each."""
    return [replace(each, gaps_us=((0,) * 7 + (80_000,)) * 7 + (0,) * 7) for each in samples]


def watch(*lags_ms: float, busy: float = 0.3) -> Watched:
    return Watched(lags_seconds=[lag / 1e3 for lag in lags_ms], busy_share=busy)


def complaints(samples: Sequence[Sample], watched: Watched, load: Load = CLOSED) -> tuple[str, ...]:
    return measure(samples, load, watched=watched).health.complaints


@pytest.mark.parametrize(
    "watched",
    [Watched(), watch(0.1, 0.2), watch(*[0.5] * 995, *[300] * 5), watch(9, 15, 19, busy=0.9)],
)
def test_a_client_that_kept_up_has_no_complaint(watched: Watched) -> None:
    assert complaints(STEADY, watched) == ()


def test_a_late_loop_is_said_with_its_figures() -> None:
    lag, first = complaints(STEADY, watch(*[80] * 20))
    assert "80 ms late" in lag
    assert "10.0 ms between two" in lag
    assert "TTFT of 100 ms" in first


def test_what_is_late_for_tokens_need_not_be_late_for_the_first() -> None:
    slow_start = closed_loop(Server(ttft=2.0), [0.0] * 4, 40)
    (lag,) = complaints(slow_start, watch(*[80] * 20))
    assert "events behind" in lag


def test_many_events_at_once_are_the_late_readers() -> None:
    (complaint,) = complaints(bursty(STEADY), watch(*[15] * 20))
    assert "read at once" in complaint
    assert "15.0 ms late" in complaint


def test_many_events_at_once_are_the_servers_where_the_loop_was_in_time() -> None:
    point = measure(bursty(STEADY), CLOSED, watched=watch(*[0.2] * 20))
    assert point.health.complaints == ()
    assert any("The server sends its events several at once" in note for note in point.notes)


def test_many_events_at_once_are_nobodys_where_nothing_was_watched() -> None:
    (complaint,) = complaints(bursty(STEADY), Watched())
    assert "not watched" in complaint


def test_a_full_core_may_be_the_bound() -> None:
    (complaint,) = complaints(STEADY, watch(0.1, busy=0.99))
    assert "99% of its core" in complaint


def late(milliseconds: float) -> list[Sample]:
    return [
        replace(sample, due_seconds=sample.sent_seconds - milliseconds / 1e3) for sample in STEADY
    ]


def test_late_sending_is_said_of_open_loops_alone() -> None:
    assert complaints(late(30), watch(0.1)) == ()
    assert complaints(late(9), watch(0.1), OPEN) == ()
    (complaint,) = complaints(late(30), watch(0.1), OPEN)
    assert "30 ms after they were due" in complaint
    # With a bound it is the bound that holds them back, which a note says.
    assert complaints(late(30), watch(0.1), replace(OPEN, concurrency=4)) == ()


@given(
    st.lists(st.floats(0, 1), max_size=30),
    st.floats(0, 1.2),
    st.sampled_from([CLOSED, OPEN]),
    st.floats(0, 1000),
)
@settings(deadline=None, max_examples=30)
def test_a_later_client_never_complains_less(
    lags: list[float], busy: float, load: Load, late_ms: float
) -> None:
    def health(factor: float) -> Point:
        watched = Watched(lags_seconds=[lag * factor for lag in lags], busy_share=busy * factor)
        return measure(late(late_ms * factor), load, watched=watched)

    mild, bad = health(1.0).health, health(2.0).health
    assert len(bad.complaints) >= len(mild.complaints)
    assert mild.lag_p50_ms <= mild.lag_p99_ms <= mild.lag_max_ms
