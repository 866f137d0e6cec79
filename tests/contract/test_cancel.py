"""What a gauge and a wait tell of answers that were abandoned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from stoker.contract.abandoning import follows_length, is_suspect, is_too_late
from stoker.model.contract import Exchange, Request, Subject, Verdict
from tests.contract.hand_made import (
    REFUSALS,
    answer,
    left,
    listing,
    raw,
    reply,
    subject_of,
    try_check,
)

CHECK = "cancel_frees_slot"
EVENTS = 8


@dataclass
class Engine:
    """An engine with a clock of its own. ``frees_after`` seconds, None for never.

    Each token takes ``token_seconds``; with ``slots`` a question waits for a free one.
    """

    token_seconds: float = 0.05
    slots: int = 4
    frees_after: float | None = 0.0
    has_gauge: bool = True
    others: int = 0
    now: float = 0.0
    ends: list[float] = field(default_factory=list)

    def __call__(self, request: Request) -> Exchange:
        if request.path == "/v1/models":
            return listing(request, max_model_len=2048)
        self.ends = [end for end in self.ends if end > self.now]
        if request.path == "/metrics":
            return self._metrics(request)
        body = request.body or {}
        if request.stop_after_events:
            seconds = self.token_seconds * (EVENTS - 1)
            life = body["max_tokens"] * self.token_seconds
            end = self.now + (life if self.frees_after is None else min(self.frees_after, life))
            self.ends.append(end)
            return left(request, events=EVENTS, seconds=seconds)
        waits = 0.0
        if len(self.ends) >= self.slots:
            waits = max(sorted(self.ends)[-self.slots] - self.now, 0)
        seconds = waits + body["max_tokens"] * self.token_seconds
        self.now += seconds
        if seconds > request.timeout_seconds:
            return Exchange(request=request, error="no whole reply", error_kind="timeout")
        return replace(answer(request), seconds=seconds)

    def _metrics(self, request: Request) -> Exchange:
        if not self.has_gauge:
            return reply(request, {"detail": "Not Found"}, 404)
        running = len(self.ends) + self.others
        return raw(request, f'vllm:num_requests_running{{engine="0"}} {running}.0\n', 200)


def subject(**fields: Any) -> Subject:
    return subject_of("vllm", **{"parallel_requests": 4, "context_tokens": 2048, **fields})


@pytest.mark.parametrize("token_seconds", [0.0, 0.0005, 0.002, 0.02, 0.2])
@pytest.mark.parametrize("frees_after", [0.0, 2.0])
@pytest.mark.parametrize("has_gauge", [True, False])
@pytest.mark.parametrize("slots", [1, 4])
def test_a_server_that_gives_up_raises_no_alarm(
    token_seconds: float, frees_after: float, has_gauge: bool, slots: int
) -> None:
    """SGLang looks two seconds later, which no small answer outlasts."""
    life_seconds = token_seconds * 1848
    if frees_after and 0 < life_seconds < 2 * frees_after:
        pytest.skip("the answers end by themselves before they could be given up")
    engine = Engine(
        token_seconds=token_seconds, frees_after=frees_after, has_gauge=has_gauge, slots=slots
    )
    judgement = try_check(CHECK, engine, subject(parallel_requests=slots))
    assert judgement.verdict is Verdict.PASSED, judgement


@pytest.mark.parametrize("token_seconds", [0.001, 0.005, 0.02, 0.2])
@pytest.mark.parametrize("has_gauge", [True, False])
@pytest.mark.parametrize("slots", [1, 4])
def test_a_server_that_computes_on_is_noticed(
    token_seconds: float, has_gauge: bool, slots: int
) -> None:
    engine = Engine(token_seconds=token_seconds, frees_after=None, has_gauge=has_gauge, slots=slots)
    judgement = try_check(CHECK, engine, subject(parallel_requests=slots))
    assert judgement.verdict is Verdict.FAILED, judgement


def test_with_others_on_the_server_nothing_is_claimed() -> None:
    busy = Engine(frees_after=None, others=3)
    assert try_check(CHECK, busy, subject()).verdict is Verdict.SKIPPED
    busy = Engine(frees_after=0.0, others=3)
    assert try_check(CHECK, busy, subject()).verdict is Verdict.PASSED


def test_without_gauge_and_places_nothing_can_be_told() -> None:
    engine = Engine(has_gauge=False, slots=64)
    judgement = try_check(CHECK, engine, subject(parallel_requests=None))
    assert judgement.verdict is Verdict.SKIPPED
    judgement = try_check(CHECK, engine, subject(parallel_requests=64))
    assert judgement.verdict is Verdict.SKIPPED


def test_a_server_that_refuses_long_answers_is_skipped() -> None:
    def serve(request: Request) -> Exchange:
        if request.path == "/v1/models":
            return listing(request)
        return reply(request, REFUSALS[0], 400)

    assert try_check(CHECK, serve, subject()).verdict is Verdict.SKIPPED


def test_answers_that_end_at_once_are_skipped() -> None:
    engine = Engine()

    def serve(request: Request) -> Exchange:
        return answer(request) if request.stream else engine(request)

    assert try_check(CHECK, serve, subject()).verdict is Verdict.SKIPPED


def test_a_wait_is_held_against_what_a_question_takes() -> None:
    assert is_suspect(4.0, alone_seconds=0.5)
    assert not is_suspect(1.9, alone_seconds=0.5)
    assert not is_suspect(0.2, alone_seconds=0.0)
    assert is_too_late(7.0, alone_seconds=0.05)
    assert not is_too_late(7.0, alone_seconds=5.0)


def test_only_a_wait_that_is_as_long_as_the_answers_is_one_for_them() -> None:
    assert follows_length(long_seconds=(4.0, 4.1), short_seconds=0.9)
    assert not follows_length(long_seconds=(2.0, 2.1), short_seconds=2.0)
    assert not follows_length(long_seconds=(4.0, 1.0), short_seconds=0.9)


def test_a_context_that_is_too_short_to_tell_is_skipped() -> None:
    judgement = try_check(CHECK, Engine(), subject(context_tokens=512))
    assert judgement.verdict is Verdict.SKIPPED
