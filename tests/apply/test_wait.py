"""What is told while an engine loads: a fraction that only grows, and none of one that failed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stoker.apply.wait import LAST_LINES, LINE_CHARACTERS, Progress, Watched, wait_loaded
from stoker.errors import SupervisorError
from stoker.model.launch import ServicePhase, ServiceState
from tests.laws.worlds import FakeClock, ListReporter

RUNNING = ServiceState(name="demo", phase=ServicePhase.STARTING, pid=7, process="7:1")
FAILED = ServiceState(name="demo", phase=ServicePhase.FAILED)


def watch(told: Sequence[Progress], lines: Sequence[str], error: range | None = None) -> Watched:
    """An engine that tells these, one at each look, and ends."""
    left = list(told)
    return Watched(
        name="demo",
        state=lambda: RUNNING if left else FAILED,
        read_log=lambda: lines,
        progress=lambda _: left.pop(0),
        is_loaded=lambda: False,
        is_verified=lambda _: False,
        explain=lambda _: "",
        find_error=lambda _: error,
    )


def follow(watched: Watched, expected_seconds: float | None = None) -> tuple[ListReporter, str]:
    reporter = ListReporter()
    with pytest.raises(SupervisorError) as failure:
        wait_loaded(
            watched, clock=FakeClock(), reporter=reporter, expected_seconds=expected_seconds
        )
    return reporter, failure.value.summary


def phases(*fractions: float | None) -> list[Progress]:
    return [Progress(title="loading", fraction=fraction) for fraction in fractions]


def test_a_later_phase_that_begins_anew_takes_nothing_back() -> None:
    reporter, _ = follow(watch(phases(0.2, 0.9, 0.1, None, 1.0), []))
    assert [event.fraction for event in reporter.events] == [0.2, 0.9, None, None, 1.0]


def test_earlier_starts_tell_the_whole_of_it() -> None:
    reporter, _ = follow(watch(phases(0.2, 0.9, 0.1, None), []), expected_seconds=2.0)
    told = [event.fraction or 0.0 for event in reporter.events]
    assert told == sorted(told)
    assert told[-1] == pytest.approx(0.3)


def test_of_one_that_failed_nothing_is_estimated() -> None:
    failed = Progress(title="failed", fraction=0.5, has_failed=True)
    reporter, _ = follow(watch([*phases(0.2), failed], []), expected_seconds=100.0)
    assert reporter.events[-1].fraction is None
    assert reporter.events[-1].data["expected_seconds"] is None


def test_the_first_error_is_shown_before_the_end() -> None:
    lines = [f"line {number}" for number in range(100)]
    _, summary = follow(watch([], lines, range(10, 13)))
    shown = [line.strip() for line in summary.splitlines()[1:]]
    assert shown == ["line 10", "line 11", "line 12", "...", "line 97", "line 98", "line 99"]


@pytest.mark.parametrize("error", [None, range(95, 97)])
def test_an_error_at_the_end_is_among_the_last_lines(error: range | None) -> None:
    _, summary = follow(watch([], [f"{number}" * 999 for number in range(100)], error))
    shown = summary.splitlines()[1:]
    assert len(shown) == LAST_LINES
    assert max(map(len, shown)) == LINE_CHARACTERS + len("    ")
