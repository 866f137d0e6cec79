"""Requests out of bytes: whole ones, pieces, and what is no request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.exact_requests import (
    MOST_HEAD_BYTES,
    BadRequest,
    Head,
    read_wanted,
    render_end,
    render_event,
    take_body,
    take_head,
)

CHAT = "/v1/chat/completions"
MESSAGES: dict[str, Any] = {"messages": [{"role": "user", "content": "one two"}]}


def head_of(text: str) -> Head:
    head = take_head(bytearray(f"{text}\r\n\r\n".encode()))
    assert head is not None
    return head


def wanted_of(path: str, **body: object) -> Any:
    return read_wanted(path, json.dumps(body).encode(), "exact-1")


def test_a_request_comes_in_pieces() -> None:
    whole = b"POST /v1/completions?x=1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET"
    received = bytearray()
    head = body = None
    for byte in whole:
        received.append(byte)
        head = head or take_head(received)
        if head and body is None:
            body = take_body(head, received)
    assert head is not None
    assert (head.method, head.path, head.keeps_alive) == ("POST", "/v1/completions", True)
    assert (body, bytes(received)) == (b"hello", b"GET")


@pytest.mark.parametrize(
    ("chunks", "body", "left"),
    [
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc", b""),
        (b"3;note=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET", b"abcde", b"GET"),
        (b"1\r\na\r\n0\r\nTrailer: 1\r\n\r\nGET", b"a", b"GET"),
        (b"3\r\nabc\r\n0\r\n", None, b"3\r\nabc\r\n0\r\n"),
        (b"3\r\nab", None, b"3\r\nab"),
    ],
)
def test_a_body_in_chunks(chunks: bytes, body: bytes | None, left: bytes) -> None:
    received = bytearray(chunks)
    head = head_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked")
    assert (take_body(head, received), bytes(received)) == (body, left)


@pytest.mark.parametrize(
    ("lines", "keeps"),
    [
        ("GET / HTTP/1.1", True),
        ("GET / HTTP/1.1\r\nConnection: Close", False),
        ("GET / HTTP/1.0", False),
        ("GET / HTTP/1.0\r\nconnection: keep-alive", True),
    ],
)
def test_the_connection_is_kept_as_http_says(lines: str, keeps: bool) -> None:
    assert head_of(lines).keeps_alive is keeps


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("GET /", 400),
        ("GET / HTTP/2", 400),
        ("POST / HTTP/1.1\r\nContent-Length: -1", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 99999999999", 413),
        ("GET / HTTP/1.1\r\nX: " + "x" * MOST_HEAD_BYTES, 431),
    ],
)
def test_what_is_no_request(text: str, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        head_of(text)
    assert caught.value.status == status


@pytest.mark.parametrize("chunks", [b"zz\r\n", b"-1\r\n", b"ffffffffff\r\n"])
def test_what_is_no_chunk(chunks: bytes) -> None:
    with pytest.raises(BadRequest):
        take_body(head_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked"), bytearray(chunks))


def test_what_is_wanted() -> None:
    wanted = wanted_of(
        CHAT, **MESSAGES, stream=True, stream_options={"include_usage": True}, max_tokens=7
    )
    assert (wanted.is_chat, wanted.is_streamed, wanted.includes_usage) == (True, True, True)
    assert wanted.tokens == 7
    assert wanted_of(CHAT, **MESSAGES, max_completion_tokens=3, max_tokens=7).tokens == 3
    assert wanted_of("/v1/completions", prompt=[1, 2, 3]).prompt_tokens == 3
    assert wanted_of("/v1/completions", prompt="a b").prompt_tokens == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {}),
        (CHAT, {"messages": []}),
        (CHAT, {**MESSAGES, "max_tokens": 0}),
        (CHAT, {**MESSAGES, "max_tokens": "many"}),
        ("/v1/completions", {"prompt": None}),
    ],
)
def test_what_cannot_be_answered(path: str, body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        wanted_of(path, **body)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_object(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_wanted(CHAT, body, "exact-1")


@pytest.mark.parametrize("asks_usage", [True, False])
def test_the_end_tells_the_usage_if_it_was_asked_for(asks_usage: bool) -> None:
    wanted = wanted_of(CHAT, **MESSAGES, stream=True, stream_options={"include_usage": asks_usage})
    assert (b'"completion_tokens":5' in render_end(wanted, "exact", 5)) is asks_usage


def test_an_event_is_a_chunk_of_the_length_that_it_says() -> None:
    event = render_event(wanted_of(CHAT, **MESSAGES, stream=True), "exact", 2)
    size, _, rest = event.partition(b"\r\n")
    assert int(size, 16) == len(rest) - 2
    assert json.loads(rest.removeprefix(b"data: "))["choices"][0]["delta"] == {
        "content": " the the"
    }
