"""Load for a given time: what the question that watches it notices, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from stoker.contract.interview import Style
from stoker.contract.load import KINDS, make_load
from stoker.contract.run import Selection, verify
from stoker.contract.selection import SOAK, select_checks
from stoker.contract.soak import soak
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import Script
from stoker.fake_engine.switches import discover_faults
from stoker.model.contract import CanaryAnswer, CheckResult, Exchange, Request, Verdict
from stoker.model.event import EventKind
from stoker.ports import Endpoint
from tests.contract.trying import Recorder, WallClock, subject_of

SUBJECT = subject_of(Script())


@dataclass
class Hourglass:
    """A clock that goes on by what is slept, and lets others work for a moment meanwhile."""

    seconds: float = 0.0
    interrupt_at: float = 1e9

    def now_seconds(self) -> float:
        return 1000.0 + self.seconds

    def monotonic_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        if self.seconds >= self.interrupt_at:
            raise KeyboardInterrupt
        threading.Event().wait(0.002)


@dataclass
class Changing:
    """An endpoint that is right at first, and then as ``change`` has it."""

    change: Callable[[Exchange], Exchange]
    after: int
    endpoint: Endpoint = field(default_factory=lambda: DirectEndpoint(Core(Script())))
    asked: int = 0
    url: str = "http://127.0.0.1:9"

    def exchange(self, request: Request) -> Exchange:
        self.asked += 1
        exchange = self.endpoint.exchange(request)
        return self.change(exchange) if self.asked > self.after else exchange


def try_soak(
    endpoint: Endpoint | None = None,
    *,
    seconds: float = 60.0,
    clock: Hourglass | None = None,
    reporter: Recorder | None = None,
) -> tuple[CheckResult, tuple[CanaryAnswer, ...]]:
    return soak(
        endpoint or DirectEndpoint(Core(Script())),
        SUBJECT,
        clock or Hourglass(),
        reporter or Recorder(),
        seconds=seconds,
        parallel=2,
    )


def test_a_correct_server_stands_the_load() -> None:
    recorder = Recorder()
    result, history = try_soak(reporter=recorder)
    assert (result.verdict, result.check, result.symptom) == (Verdict.PASSED, "soak", "")
    assert len(history) == 12
    assert {answer.verdict for answer in history} == {Verdict.PASSED}
    assert {event.kind for event in recorder.events} == {EventKind.PROGRESS}
    assert recorder.events[-1].fraction == 1.0
    assert "asked 12 times" in result.found
    assert result.exchanges == ()


def test_the_history_is_thinned_evenly() -> None:
    _, history = try_soak(seconds=5 * 900)
    assert 100 < len(history) <= 240
    gaps = [round(after.at_seconds - before.at_seconds) for before, after in pairwise(history)]
    assert max(gaps) <= 2 * min(gaps)


def wrong(exchange: Exchange) -> Exchange:
    return replace(
        exchange,
        body=exchange.body.replace("WALRUS", "LEMON"),
        events=tuple(event.replace("WALRUS", "LEMON") for event in exchange.events),
    )


def refused(exchange: Exchange) -> Exchange:
    return Exchange(request=exchange.request, error="nobody listens", error_kind="refused")


def broken(exchange: Exchange) -> Exchange:
    return Exchange(request=exchange.request, status=500, body='{"error": {"message": "oops"}}')


@pytest.mark.parametrize(
    ("change", "symptom"),
    [(wrong, "canary_wrong"), (refused, "server_died"), (broken, "canary_lost")],
)
def test_what_goes_wrong_twice_ends_it(
    change: Callable[[Exchange], Exchange], symptom: str
) -> None:
    result, history = try_soak(Changing(change=change, after=60))
    assert (result.verdict, result.symptom) == (Verdict.FAILED, symptom)
    assert [answer.verdict for answer in history[-2:]] == [Verdict.FAILED] * 2
    assert len(result.exchanges) == 2
    assert "twice" in result.found


def test_what_goes_wrong_once_is_told_and_no_failure() -> None:
    flips = iter([True])

    def change(exchange: Exchange) -> Exchange:
        is_canary = exchange.request.stream and "Alice" in str(exchange.request.body)
        return wrong(exchange) if is_canary and next(flips, False) else exchange

    result, history = try_soak(Changing(change=change, after=60))
    assert result.verdict is Verdict.PASSED
    assert [answer.verdict for answer in history].count(Verdict.FAILED) <= 1


def test_requests_that_are_lost_break_the_promise() -> None:
    def change(exchange: Exchange) -> Exchange:
        is_long = "Read this text" in str(exchange.request.body)
        return broken(exchange) if is_long else exchange

    result, _ = try_soak(Changing(change=change, after=40))
    assert (result.verdict, result.symptom) == (Verdict.FAILED, "lost_under_load")


def test_a_server_that_is_broken_already_is_not_loaded() -> None:
    endpoint = Changing(change=broken, after=0)
    result, history = try_soak(endpoint)
    assert (result.verdict, history) == (Verdict.FAILED, ())
    assert endpoint.asked < 20


def test_an_interrupt_ends_it_with_what_was_seen() -> None:
    result, history = try_soak(clock=Hourglass(interrupt_at=23.0))
    assert result.verdict is Verdict.PASSED
    assert "interrupted" in result.found
    assert len(history) == 4


def test_no_worker_goes_on_afterwards() -> None:
    endpoint = Changing(change=lambda exchange: exchange, after=0)
    try_soak(endpoint)
    asked = endpoint.asked
    threading.Event().wait(0.1)
    assert endpoint.asked == asked


def test_the_load_is_mixed_and_the_same_for_a_number() -> None:
    made = [make_load(SUBJECT, Style(), number) for number in range(KINDS)]
    assert made == [make_load(SUBJECT, Style(), number) for number in range(KINDS)]
    assert {request.stream for request in made} == {True, False}
    assert [request.stop_after_events for request in made].count(0) == KINDS - 1
    assert len({len(str(request.body)) // 1000 for request in made}) >= 3
    assert all(request.is_new for request in made)


def test_the_level_soak_is_offered() -> None:
    assert "soak_canary" in [check.id for check in select_checks(SOAK)]


def test_a_fault_that_comes_with_use_is_noticed() -> None:
    core = Core(Script(), faults=[discover_faults()["breaks_after_forty"]])
    verification = verify(
        DirectEndpoint(core),
        name="x",
        subject=SUBJECT,
        clock=WallClock(),
        reporter=Recorder(),
        selection=Selection(level=SOAK, only=["soak_canary"]),
    )
    (result,) = verification.results
    assert (result.verdict, result.symptom) == (Verdict.FAILED, "canary_nonsense")
