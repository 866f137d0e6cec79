"""Streams and plain replies: what differs by chance is no alarm, what is lost is one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stoker.contract.judgement import Judgement
from stoker.model.contract import Exchange, Request, Verdict
from tests.contract.chat_replies import Said, reply, try_check

#: What is done to the events of a stream.
Change = Callable[[list[str]], list[str]]

TEXT = "The sea is wide and blue. Fishers go out early. Their boats are old."
SAID = Said(content=TEXT, tokens=15)


def equals(*rounds: tuple[Said, Said]) -> Judgement:
    """The judgement of rounds of a plain and a streamed answer; the last one stands for more."""

    def answer(request: Request, number: int) -> Exchange:
        plain, streamed = rounds[min(number // 2, len(rounds) - 1)]
        return reply(request, streamed if request.stream else plain)

    return try_check("stream_equals_plain", answer)


def other(text: str, **more: Any) -> Said:
    return replace(SAID, content=text, **more)


def test_the_same_text_in_pieces_is_the_same() -> None:
    pieces = replace(SAID, pieces=(TEXT[:9], TEXT[9:10], TEXT[10:]))
    assert equals((SAID, pieces)).verdict is Verdict.PASSED


def test_a_trimmed_end_is_no_difference() -> None:
    assert equals((SAID, other(f"\n\n{TEXT} "))).verdict is Verdict.PASSED


def test_answers_that_part_once_are_no_alarm() -> None:
    first = (SAID, other("The sea is deep and cold.", tokens=7))
    assert equals(first, (SAID, SAID)).verdict is Verdict.PASSED


def test_answers_that_part_each_time_are_not_judged() -> None:
    rounds = [
        (other(f"One sea has {number} waves, and more.", tokens=number), other(f"A lake: {number}"))
        for number in (9, 11, 13)
    ]
    assert equals(*rounds).verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("streamed", "kind"),
    [
        (other(TEXT.replace("Fishers ", "")), "lost"),
        (other(TEXT.replace("early", "early early")), "added"),
        (other(TEXT.replace(" are old.", "")), "lost"),
        (other(TEXT.replace("go out", "out go")), "changed"),
        (other(TEXT.replace("wide and", "wideand")), "changed"),
        (other(TEXT.replace("wide and", "wide  and")), "spaces"),
        (replace(SAID, finish_reason="length"), "finish_reason"),
        (replace(SAID, tokens=14), "tokens"),
        (replace(SAID, content=TEXT[26:], reasoning=TEXT[:25]), "place"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_stream_that_differs_each_time_is_noticed(streamed: Said, kind: str) -> None:
    judgement = equals((SAID, streamed))
    assert judgement.symptom == "stream_differs"
    assert judgement.details["kind"] == kind


def test_a_lost_piece_is_noticed_the_first_time() -> None:
    lost = other(TEXT.replace("Fishers ", ""))
    assert equals((SAID, lost), (SAID, SAID)).verdict is Verdict.FAILED


# --- token counts of streams ---


def usage(change: Change, *, rounds: int = 9) -> Judgement:
    def answer(request: Request, number: int) -> Exchange:
        exchange = reply(request, SAID)
        if not request.stream or number >= 2 * rounds:
            return exchange
        return replace(exchange, events=tuple(change(list(exchange.events))))

    return try_check("stream_usage", answer)


def _counts(text: str) -> bool:
    return "usage" in json.loads(text) if text != "[DONE]" else False


def _grow(events: list[str]) -> list[str]:
    growing = [
        json.dumps({**json.loads(event), "usage": {**SAID.usage, "completion_tokens": number}})
        for number, event in enumerate(events[:-2])
    ]
    return [*growing, *events[-2:]]


def _put_on_last_choice(events: list[str]) -> list[str]:
    ending = {**json.loads(events[-3]), "usage": SAID.usage}
    return [*events[:-3], json.dumps(ending), "[DONE]"]


@pytest.mark.parametrize("change", [list, _grow, _put_on_last_choice])
def test_counts_at_the_end_are_right(change: Change) -> None:
    assert usage(change).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("change", "symptom"),
    [
        (lambda events: [each for each in events if not _counts(each)], "no_stream_usage"),
        (lambda events: [*events[:-1], events[-2], events[-1]], "stream_usage_twice"),
        (lambda events: [events[-2], *events[:-2], events[-1]], "stream_usage_not_last"),
        (
            lambda events: [
                each.replace('"completion_tokens": 15', '"completion_tokens": 16')
                for each in events
            ],
            "stream_usage_differs",
        ),
        (
            lambda events: [
                each.replace('"prompt_tokens": 20', '"prompt_tokens": 0') for each in events
            ],
            "stream_usage_differs",
        ),
    ],
)
def test_wrong_counts_are_noticed(change: Change, symptom: str) -> None:
    assert usage(change).symptom == symptom


def test_counts_that_differ_once_are_no_alarm() -> None:
    def change(events: list[str]) -> list[str]:
        return [
            each.replace('"completion_tokens": 15', '"completion_tokens": 16') for each in events
        ]

    assert usage(change, rounds=1).verdict is Verdict.PASSED


def test_an_error_in_a_stream_is_told() -> None:
    error = json.dumps({"error": {"message": "out of memory"}})
    assert usage(lambda events: [error]).symptom == "error_in_reply"
