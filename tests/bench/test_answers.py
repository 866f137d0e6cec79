"""Streamed answers as engines send them, cut anywhere, and as they should not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.bench.answers import AnswerReader, Reading, describe_error
from stoker.model.benchmark import TokenCount
from tests.bench.servers import body, event

QUICK = settings(max_examples=30, deadline=None)


def read(content: bytes, cuts: Sequence[int] = (), **options: Any) -> Reading:
    """Read it, cut at these places; the piece number is its moment."""
    reader = AnswerReader(**options)
    edges = pairwise([0, *sorted(set(cuts)), len(content)])
    for moment, (start, end) in enumerate(edges):
        reader.feed(float(moment), content[start:end])
    return reader.reading


def data(value: object, ending: str = "\n") -> bytes:
    return f"data: {json.dumps(value)}{ending}{ending}".encode()


def test_a_whole_answer() -> None:
    reading = read(body(3), keeps_text=True)
    assert len(reading.moments) == 3
    assert reading.texts == ["t0", "t1", "t2"]
    assert reading.tokens == TokenCount(prompt=7, output=3)
    assert (reading.is_whole, reading.finish_reason, reading.error) == (True, "stop", "")
    assert reading.events == 7


@QUICK
@given(st.lists(st.integers(0, len(body(3))), max_size=12))
def test_it_is_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    whole, cut = read(body(3), keeps_text=True), read(body(3), cuts, keeps_text=True)
    assert len(cut.moments) == len(whole.moments)
    assert (cut.texts, cut.tokens, cut.is_whole) == (whole.texts, whole.tokens, True)
    assert cut.moments == sorted(cut.moments)


@QUICK
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_no_bytes_break_it(content: bytes, cuts: list[int]) -> None:
    assert read(content, [min(cut, len(content)) for cut in cuts]).error in (
        "",
        "an event of the stream is no JSON",
        "an event of the stream is no object",
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("choices", "delta", "usage", "error", "content", "tool_calls", "text"),
                    *("function", "prompt_tokens", "completion_tokens", "finish_reason", "index"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@QUICK
@given(_JSON)
def test_no_json_breaks_it(value: object) -> None:
    read(data(value), keeps_text=True)


def test_an_event_belongs_to_the_piece_that_ends_it() -> None:
    content = body(1)
    end = content.index(b"t0") + 1
    assert read(content, [end]).moments == [1.0]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_ends(ending: str) -> None:
    content = body(2).replace(b"\n", ending.encode())
    for cut in range(len(content)):
        reading = read(content, [cut])
        assert (len(reading.moments), reading.tokens.output, reading.is_whole) == (2, 2, True)


def test_an_event_of_several_data_lines_with_other_fields_and_comments() -> None:
    parts = json.dumps({"choices": [{"delta": {"content": "a"}}]}, indent=1).splitlines()
    lines = [": keep-alive", "event: message", "id: 3", *(f"data:{part}" for part in parts)]
    reading = read(("\n".join(lines) + "\n\n: ping\n\n").encode(), keeps_text=True)
    assert (reading.texts, reading.events, reading.error) == (["a"], 1, "")


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a"},
        {"reasoning_content": "a"},
        {"reasoning": "a"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    ],
)
def test_what_carries_tokens(delta: Mapping[str, Any]) -> None:
    assert len(read(event(delta)).moments) == 1


@pytest.mark.parametrize(
    "delta", [{}, {"content": ""}, {"content": None}, {"role": "assistant"}, {"tool_calls": []}]
)
def test_what_carries_none(delta: Mapping[str, Any]) -> None:
    assert read(event(delta)).moments == []


def test_several_tokens_in_one_event_are_one_moment() -> None:
    choices = [{"index": number, "delta": {"content": "a b c"}} for number in range(2)]
    assert len(read(data({"choices": choices})).moments) == 1


def test_older_completions() -> None:
    reading = read(data({"choices": [{"text": "a", "finish_reason": None}]}), keeps_text=True)
    assert (reading.texts, len(reading.moments)) == (["a"], 1)


def test_thoughts_are_no_text_of_the_conversation() -> None:
    reading = read(event({"reasoning_content": "hm"}) + event({"content": "a"}), keeps_text=True)
    assert reading.texts == ["a"]


def test_calls_come_in_pieces() -> None:
    pieces = [
        {"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":'}},
        {"index": 1, "id": "c2", "function": {"name": "see", "arguments": "{}"}},
        {"index": 0, "function": {"arguments": "1}"}},
    ]
    content = b"".join(event({"tool_calls": [piece]}) for piece in pieces)
    reading = read(content, keeps_text=True)
    assert reading.tool_calls == {
        0: {"id": "c1", "name": "look", "arguments": '{"a":1}'},
        1: {"id": "c2", "name": "see", "arguments": "{}"},
    }
    assert len(reading.moments) == 4


def test_usage() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    found = read(data({"choices": [], "usage": usage})).tokens
    assert found == TokenCount(prompt=9, output=4, cached=8, reasoning=2)


@pytest.mark.parametrize("value", [-1, 1.5, "3", True, None, 10**400, [], {}])
def test_usage_that_is_no_count_is_unknown(value: object) -> None:
    usage = {"prompt_tokens": value, "completion_tokens": value, "prompt_tokens_details": value}
    assert read(data({"usage": usage})).tokens == TokenCount()


def test_an_error_in_the_stream() -> None:
    reading = read(event({"content": "a"}) + data({"error": {"message": "out of\nmemory"}}))
    assert reading.error == "out of memory"
    assert len(reading.moments) == 1


@pytest.mark.parametrize(
    "content",
    [b"data: {nonsense\n\n", b"data: [1]\n\n", b"data: " + b"[" * 100_000 + b"\n\n"],
)
def test_events_that_are_none(content: bytes) -> None:
    assert "an event of the stream is no" in read(content).error


def test_a_large_body_without_lines_costs_its_length() -> None:
    reader = AnswerReader()
    for _ in range(20_000):
        reader.feed(0.0, b"x" * 1000)
    reader.feed(0.0, b"\n")
    assert reader.reading.events == 0


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "a"}, "a"),
        ({"message": "a"}, "a"),
        ({"detail": "a"}, "a"),
        ({"object": "error", "message": "a", "code": 3}, "a"),
        ({"other": 1}, "{'other': 1}"),
        ({}, "{}"),
        ("", "the server said nothing"),
        ("a\x1b[2J\ud800", "a\\x1b[2J\\ud800"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_what_an_error_says(said: object, found: str) -> None:
    assert describe_error(said) == found


def test_a_key_is_never_repeated() -> None:
    long = "x" * 295 + "secret-key"
    assert "secr" not in describe_error({"error": long}, hidden="secret-key")
    reading = read(data({"error": {"message": "no secret-key"}}), hidden="secret-key")
    assert reading.error == "no [hidden]"
