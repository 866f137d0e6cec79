"""A server that limits requests is asked again as it wants, within the time of the request."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stoker.endpoints.patient import PatientEndpoint
from stoker.model.contract import Exchange, Request

QUESTION = Request(method="POST", path="/v1/chat/completions", timeout_seconds=60.0)


@dataclass
class Clock:
    seconds: float = 1_000_000.0
    slept: list[float] = field(default_factory=list)

    def now_seconds(self) -> float:
        return self.seconds

    def monotonic_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@dataclass
class Limiting:
    """Refuses so many requests."""

    refusals: int
    retry_after: str = ""
    asked: list[Request] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"

    def exchange(self, request: Request) -> Exchange:
        self.asked.append(request)
        if len(self.asked) <= self.refusals:
            return Exchange(request=request, status=429, retry_after=self.retry_after)
        return Exchange(request=request, status=200)


def ask(server: Limiting, request: Request = QUESTION) -> tuple[Exchange, Clock, list[str], str]:
    clock, told = Clock(), list[str]()
    endpoint = PatientEndpoint(server, clock, told.append)
    return endpoint.exchange(request), clock, told, endpoint.describe_waits()


def test_a_server_without_a_limit_is_asked_once() -> None:
    exchange, clock, told, waits = ask(Limiting(0))
    assert (exchange.status, exchange.tries, clock.slept, told, waits) == (200, 1, [], [], "")


def test_it_is_asked_again_when_it_says() -> None:
    exchange, clock, told, waits = ask(Limiting(2, "7"))
    assert (exchange.status, exchange.tries) == (200, 3)
    assert clock.slept == [7.0, 7.0]
    assert "429" in told[0]
    assert "2 times, after 14 s" in waits


def test_without_a_word_the_pauses_grow() -> None:
    exchange, clock, _, _ = ask(Limiting(9))
    assert (exchange.status, exchange.tries) == (429, 4)
    assert clock.slept == [1.0, 2.0, 4.0]


def test_a_date_is_understood() -> None:
    _, clock, _, _ = ask(Limiting(1, "Mon, 12 Jan 1970 13:46:50 GMT"))
    assert clock.slept == [pytest.approx(10.0)]


@pytest.mark.parametrize("odd", ["soon", "-3", "9" * 400, "Mon, 99 Foo 1970"])
def test_what_is_no_time_does_no_harm(odd: str) -> None:
    exchange, clock, _, _ = ask(Limiting(1, odd))
    assert exchange.status == 200
    assert all(0 < seconds <= 30 for seconds in clock.slept)


def test_it_never_waits_longer_than_the_request_may_take() -> None:
    request = Request(method="GET", path="/", timeout_seconds=5.0)
    exchange, clock, _, _ = ask(Limiting(9, "20"), request)
    assert (exchange.status, exchange.tries, clock.slept) == (429, 1, [])


def test_the_exchange_carries_the_request_as_it_was_asked() -> None:
    exchange, _, _, _ = ask(Limiting(1))
    assert exchange.request is QUESTION
