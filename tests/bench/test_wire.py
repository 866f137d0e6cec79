"""One connection under load: every framing of HTTP, and every way in which a server breaks it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from stoker.bench import wire
from stoker.bench.wire import Wire
from tests.bench.servers import (
    OK,
    Script,
    answering,
    body,
    chunked,
    identity,
    read_request,
    serving,
    status,
)

pytestmark = pytest.mark.timeout(30)
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
OLD = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n"


@dataclass
class Told:
    """What a wire says once an answer has ended."""

    status: int
    error: str
    content: bytes
    can_go_on: bool
    was_dropped: bool
    headers: dict[bytes, bytes]
    moments: Sequence[float]


def ask(script: Script, *, times: int = 1, give_up: bool = False) -> list[Told]:
    with serving(script) as port:
        return asyncio.run(_ask(port, times=times, give_up=give_up))


async def _ask(port: int, *, times: int, give_up: bool) -> list[Told]:
    loop = asyncio.get_running_loop()
    _, own = await loop.create_connection(Wire, "127.0.0.1", port)
    told = []
    for _ in range(times):
        ended: asyncio.Future[None] = loop.create_future()
        own.ask(REQUEST, lambda wire, ended=ended: ended.set_result(None))  # type: ignore[misc]
        assert not ended.done()
        if give_up:
            loop.call_later(0.1, own.give_up, "it took too long")
        await asyncio.wait_for(ended, 10)
        await asyncio.sleep(0.02)
        told.append(
            Told(
                status=own.status,
                error=own.error,
                content=b"".join(piece for _, piece in own.pieces),
                can_go_on=own.can_go_on,
                was_dropped=own.was_dropped,
                headers=own.headers,
                moments=[moment for moment, _ in own.pieces],
            )
        )
    own.close()
    await asyncio.sleep(0)
    return told


@pytest.mark.parametrize(
    ("reply", "can_go_on"),
    [
        (identity(body()), True),
        (chunked(body()), True),
        (chunked(body(), size=1), True),
        (identity(body(), OLD), False),
        (identity(body(), OLD + b"Connection: keep-alive\r\n"), True),
        (identity(body(), OK + b"Connection: close\r\n"), False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + identity(body()), True),
        (b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + chunked(body()), True),
        (identity(body()) + b"what nobody asked for", False),
        (identity(body()) + identity(b"another answer"), False),
    ],
)
def test_framings(reply: bytes, can_go_on: bool) -> None:
    (told,) = ask(answering(reply))
    assert (told.status, told.error) == (200, "")
    assert told.content == body()
    assert told.can_go_on is can_go_on


@pytest.mark.parametrize("head", [OLD, OK, OK + b"Connection: close\r\n"])
def test_an_answer_without_a_length_ends_with_the_connection(head: bytes) -> None:
    (told,) = ask(answering(head + b"\r\n" + body(), closes=True))
    assert (told.status, told.error, told.content) == (200, "", body())
    assert not told.can_go_on


def test_a_connection_serves_several_requests() -> None:
    told = ask(answering(identity(b"one"), chunked(b"two"), status("429 Slow")), times=3)
    assert [each.content for each in told] == [b"one", b"two", b""]
    assert [each.status for each in told] == [200, 200, 429]
    assert all(each.can_go_on for each in told)


def test_what_is_kept_of_a_head() -> None:
    told = ask(
        answering(status("429 Slow", b"", "Retry-After: 7", "X-Other: 1"), identity(b"")), times=2
    )
    assert told[0].headers == {b"retry-after": b"7"}
    assert told[1].headers == {b"content-type": b"text/event-stream"}


def test_a_connection_that_is_closed_between_requests_was_dropped() -> None:
    told = ask(answering(identity(b"one"), closes=True), times=2)
    assert told[0].error == ""
    assert told[1].status == 0
    assert told[1].was_dropped
    assert not told[1].can_go_on


def _reset(connection: socket.socket) -> None:
    read_request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (answering(chunked(body())[:-7], closes=True), "in the middle"),
        (answering(identity(body())[:-1], closes=True), "in the middle"),
        (answering(OK[:20], closes=True), "in the middle"),
        (answering(b"", closes=True), "in the middle"),
        (answering(b"\x16\x03\x01\x02garbage\r\n\r\n"), "broke HTTP"),
        (answering(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "broke HTTP"),
        (answering(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "HTTP"),
        (_reset, "connection"),
    ],
)
def test_broken_answers_say_how(script: Script, words: str) -> None:
    (told,) = ask(script)
    assert words in told.error
    assert not told.can_go_on
    assert not told.was_dropped  # it had not served before


def test_the_first_dropped_connection_is_no_idle_one() -> None:
    (told,) = ask(lambda connection: None)
    assert told.error
    assert not told.was_dropped


def test_a_huge_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LIMIT_BYTES", 1 << 20)

    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(OK + b"Content-Length: 1073741824\r\n\r\n")
        while True:
            connection.sendall(b"x" * (1 << 16))

    (told,) = ask(script)
    assert "larger than 1 MiB" in told.error
    assert len(told.content) < 3 << 20


def test_an_answer_can_be_given_up() -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        connection.recv(1)

    (told,) = ask(script, give_up=True)
    assert told.error == "it took too long"
    assert told.content == b"abc"


def test_bytes_that_nobody_asked_for_close_the_connection() -> None:
    def script(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        connection.recv(1)

    async def look(port: int) -> bool:
        _, own = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not own.is_open:
                break
        return own.can_go_on

    with serving(script) as port:
        assert not asyncio.run(look(port))


def test_moments_are_those_of_the_pieces() -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        for _ in range(3):
            connection.sendall(b"1\r\nb\r\n")
        connection.sendall(b"0\r\n\r\n")
        connection.recv(1)

    (told,) = ask(script)
    assert told.content == b"abbb"
    assert list(told.moments) == sorted(told.moments)
