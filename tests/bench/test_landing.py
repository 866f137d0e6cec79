"""Answers that have ended and wait to be read: slices, samples and why one is no answer."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.bench.landing import Landed, Landing
from stoker.bench.requests import CHAT_PATH, Planned
from stoker.model.benchmark import Sample, TokenCount
from tests.bench.servers import body, event

PLANNED = Planned(path=CHAT_PATH, body=b"{}", session=4, asked_tokens=3)


def landed(content: bytes = body(3), *, number: int = 0, **fields: Any) -> Landed:
    """An answer that came a byte line at a time, the first at second 11."""
    lines = content.split(b"\n\n")
    pieces = [(11.0 + at, line + b"\n\n") for at, line in enumerate(lines) if line]
    known: dict[str, Any] = {"due": 10.0, "sent": 10.5, "ended": 20.0, "status": 200}
    return Landed(number=number, planned=PLANNED, pieces=pieces, **{**known, **fields})


def keep(answer: Landed, *, hidden: str = "") -> Sample:
    landing = Landing(hidden=hidden)
    landing.started = 10.0
    landing.add(answer)
    assert not landing.read_some(1000)
    return landing.samples[0]


def test_a_sample() -> None:
    sample = keep(landed(number=7))
    assert (sample.number, sample.session, sample.error, sample.status) == (7, 4, "", 200)
    assert (sample.due_seconds, sample.sent_seconds, sample.ended_seconds) == (0.0, 0.5, 10.0)
    # The first event has the role alone.
    assert (sample.first_seconds, sample.last_seconds) == (2.0, 4.0)
    assert sample.gaps_us == (1_000_000, 1_000_000)
    assert sample.tokens == TokenCount(prompt=7, output=3, asked=3)


def test_without_usage_tokens_are_unknown() -> None:
    sample = keep(landed(body(3, has_usage=False)))
    assert (sample.error, sample.tokens) == ("", TokenCount(asked=3))
    assert len(sample.gaps_us) == 2


def test_slices() -> None:
    told: list[Sample] = []
    landing = Landing(told.append)
    for number in range(3):
        landing.add(landed(number=number))
    turns = 1
    while landing.read_some(2):
        turns += 1
    assert turns > 10
    assert [sample.number for sample in told] == [0, 1, 2]
    assert all(len(sample.gaps_us) == 2 for sample in told)


def test_one_answer_can_be_read_while_others_wait() -> None:
    landing = Landing()
    landing.add(landed(number=0))
    assert landing.read_some(2)
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}
    content = event({"content": "a"}) + event({"tool_calls": [call]}) + event({}, "tool_calls")
    answer = landing.read_at_once(landed(content, number=1))
    assert answer is not None
    assert (answer.text, answer.finish_reason) == ("a", "tool_calls")
    function = {"name": "look", "arguments": "{}"}
    assert answer.tool_calls == ({"id": "c", "type": "function", "function": function},)
    while landing.read_some(2):
        pass
    assert [sample.number for sample in landing.samples] == [1, 0]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (landed(error="the connection broke"), "the connection broke"),
        (landed(b'{"error": "too long"}', status=400), "HTTP status 400: too long"),
        (landed(b"Bad Gateway", status=502), "HTTP status 502: Bad Gateway"),
        (landed(b"", status=503), "HTTP status 503: the server said nothing"),
        (landed(b"[" * 50_000, status=500), "HTTP status 500: " + "[" * 300),
        (landed(b"<!DOCTYPE html><p>no", status=502), "HTTP status 502: a web page"),
        (landed(b"sorry", status=429, error="it broke"), "HTTP status 429: sorry"),
        (landed(b"<html>"), "the answer is no stream of events but a web page"),
        (landed(b"no", media_type="text/html"), "the answer is no stream of events but a web page"),
        (landed(b""), "the answer is no stream of events but empty"),
        (
            landed(b'{"choices": []}', media_type="application/json"),
            'is no stream of events but application/json that begins with {"choices": []}',
        ),
        (landed(b"\xff\x00\x1b"), "but bytes that begins with \ufffd\\x00\\x1b"),
        (landed(event({"content": "a"})), "the stream ended before the answer did"),
        (landed(b'data: {"error": {"message": "no"}}'), "no"),
    ],
)
def test_why_it_is_no_answer(answer: Landed, error: str) -> None:
    sample = keep(answer)
    assert error in sample.error
    assert not sample.is_good


def test_a_finish_reason_is_an_end_too() -> None:
    assert keep(landed(event({"content": "a"}, "length"))).error == ""


def test_what_was_cut_off_keeps_its_moments() -> None:
    sample = keep(landed(event({"content": "a"}) * 3, error="it had not ended"))
    assert (sample.error, sample.first_seconds, len(sample.gaps_us)) == ("it had not ended", 1.0, 2)


@pytest.mark.parametrize("status", [200, 401])
def test_a_key_is_never_repeated(status: int) -> None:
    answer = landed(b"you gave sk-1234", status=status)
    assert "sk-1234" not in keep(answer, hidden="sk-1234").error
