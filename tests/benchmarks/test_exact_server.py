"""The exact server in front of two real clients: Stoker's own endpoint and the standard library."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from stoker.endpoints.http import HttpEndpoint
from stoker.model.contract import Exchange, Request
from tests.benchmarks.exact_process import exact_server, read_log

CHAT = "/v1/chat/completions"
QUICK = ("--ttft-ms", "2", "--itl-ms", "1")


def ask_body(tokens: int, **more: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": "one two three"}]
    return {"model": "exact", "messages": messages, "max_tokens": tokens, **more}


def ask(port: int, path: str, body: dict[str, Any]) -> Exchange:
    is_streamed = bool(body.get("stream"))
    request = Request(method="POST", path=path, body=body, stream=is_streamed)
    return HttpEndpoint("127.0.0.1", port).exchange(request)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10)


def texts_of(exchange: Exchange) -> list[str]:
    """The text of each event that has some; the last one must be the end mark."""
    assert exchange.events[-1] == "[DONE]"
    choices = [each for event in exchange.events[:-1] for each in json.loads(event)["choices"]]
    found = (choice.get("text") or choice.get("delta", {}).get("content") for choice in choices)
    return [text for text in found if text]


@pytest.mark.parametrize(
    ("path", "asked"),
    [(CHAT, ask_body(5)), ("/v1/completions", {"prompt": "one two", "max_tokens": 5})],
)
def test_a_stream_has_the_tokens_that_were_asked_for(
    tmp_path: Path, path: str, asked: dict[str, Any]
) -> None:
    body = {**asked, "stream": True, "stream_options": {"include_usage": True}}
    with exact_server(tmp_path / "log", *QUICK) as port:
        exchange = ask(port, path, body)
    assert (exchange.status, exchange.error) == (200, "")
    assert texts_of(exchange) == [" the"] * 5
    usage = json.loads(exchange.events[-2])["usage"]
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5


def test_no_usage_unless_it_is_asked_for(tmp_path: Path) -> None:
    with exact_server(tmp_path / "log", *QUICK) as port:
        exchange = ask(port, CHAT, ask_body(2, stream=True))
    assert not any("usage" in event for event in exchange.events)


def test_tokens_in_one_event_and_a_length_of_its_own(tmp_path: Path) -> None:
    with exact_server(tmp_path / "log", *QUICK, "--tokens", "7", "--coalesce", "3") as port:
        exchange = ask(port, CHAT, ask_body(5, stream=True))
    assert texts_of(exchange) == [" the the the", " the the the", " the"]
    (told,) = read_log(tmp_path / "log")
    assert (told["tokens"], told["is_whole"]) == (7, True)


def test_a_plain_answer(tmp_path: Path) -> None:
    with exact_server(tmp_path / "log", *QUICK) as port:
        exchange = ask(port, CHAT, ask_body(3))
    told = json.loads(exchange.body)
    assert told["choices"][0]["message"]["content"] == " the the the"
    assert told["usage"]["completion_tokens"] == 3
    assert read_log(tmp_path / "log")[0]["is_streamed"] is False


def test_one_connection_carries_many_requests(tmp_path: Path) -> None:
    with exact_server(tmp_path / "log", *QUICK) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        for path in ("/health", "/v1/models", "/nowhere"):
            connection.request("GET", path)
            with connection.getresponse() as reply:
                assert json.loads(reply.read())
                assert reply.status == (404 if path == "/nowhere" else 200)
        for _ in range(3):
            connection.request("POST", CHAT, json.dumps(ask_body(2, stream=True)))
            with connection.getresponse() as reply:
                assert reply.read().endswith(b"data: [DONE]\n\n")
        connection.request("POST", CHAT, iter([b'{"messages":', b'["x"]}']), encode_chunked=True)
        with connection.getresponse() as reply:
            assert reply.status == 200
            assert reply.read()
        connection.request("POST", CHAT, b"no JSON", {"Connection": "close"})
        with connection.getresponse() as reply:
            assert reply.status == 400
        connection.close()
    assert len(read_log(tmp_path / "log")) == 4


def test_requests_that_come_together_are_answered_in_turn(tmp_path: Path) -> None:
    body = json.dumps(ask_body(1, stream=True)).encode()
    request = b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n" % (CHAT.encode(), len(body))
    with exact_server(tmp_path / "log", *QUICK) as port, connect(port) as client:
        last = request + b"Connection: close\r\n\r\n" + body
        client.sendall((request + b"\r\n" + body) * 2 + last)
        received = b""
        while content := client.recv(1 << 16):
            received += content
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert received.count(b"[DONE]") == 3


def test_a_client_that_waits_for_leave_to_send_its_body(tmp_path: Path) -> None:
    body = json.dumps(ask_body(1)).encode()
    head = b"POST %s HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with exact_server(tmp_path / "log", *QUICK) as port, connect(port) as client:
        client.sendall(head % (CHAT.encode(), len(body)))
        assert client.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")


def test_a_client_that_breaks_off_is_told_as_such(tmp_path: Path) -> None:
    request = Request(
        method="POST", path=CHAT, body=ask_body(500, stream=True), stream=True, stop_after_events=2
    )
    with exact_server(tmp_path / "log", "--ttft-ms", "1", "--itl-ms", "20") as port:
        HttpEndpoint("127.0.0.1", port).exchange(request)
        assert ask(port, CHAT, ask_body(1)).status == 200
    assert sorted(told["is_whole"] for told in read_log(tmp_path / "log")) == [False, True]


def test_without_pauses_a_slow_reader_gets_all_of_it(tmp_path: Path) -> None:
    """More than the kernel holds for a connection, so the server must wait for room."""
    options = ("--ttft-ms", "0", "--itl-ms", "0", "--events-per-write", "16")
    tokens = 40_000
    body = json.dumps(ask_body(tokens, stream=True)).encode()
    head = b"POST %s HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with exact_server(tmp_path / "log", *options) as port, connect(port) as slow:
        slow.sendall(head % (CHAT.encode(), len(body)) + body)
        # It is answered while the other one does not read.
        assert len(texts_of(ask(port, CHAT, ask_body(100, stream=True)))) == 100
        received = bytearray()
        while content := slow.recv(1 << 20):
            received += content
    assert received.count(b'" the"') == tokens
    assert received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert [told["tokens"] for told in read_log(tmp_path / "log")] == [100, tokens]


def test_the_truth_of_a_request(tmp_path: Path) -> None:
    """It cannot be earlier than it should; how late it was depends on the machine."""
    with exact_server(tmp_path / "log", "--ttft-ms", "20", "--itl-ms", "2") as port:
        ask(port, CHAT, ask_body(11, stream=True))
    (told,) = read_log(tmp_path / "log")
    assert (told["tokens"], told["is_whole"], told["is_streamed"]) == (11, True, True)
    assert told["ttft_ms"] >= 20
    assert told["e2e_ms"] >= 40
    assert told["gap_mean_ms"] == pytest.approx((told["e2e_ms"] - told["ttft_ms"]) / 10)
    assert told["gap_p50_ms"] <= told["gap_p99_ms"]
    assert told["max_late_ms"] >= 0
    assert told["tokens_per_second"] == pytest.approx(11e3 / told["e2e_ms"])
