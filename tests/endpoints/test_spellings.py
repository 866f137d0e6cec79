"""The own key in other spellings, events that come in pieces, and lines that are none."""

from __future__ import annotations

import base64
import socket
import threading
from urllib.parse import quote

import pytest

from stoker.endpoints.http import REDACTED, HttpEndpoint
from stoker.model.contract import Exchange, Request
from tests.endpoints.raw_server import Script, read_request, reply_with, serving

pytestmark = pytest.mark.timeout(30)
KEY = "sk-secret/abc+def-123456~?"


def get(script: Script, **fields: object) -> Exchange:
    with serving(script) as port:
        endpoint = HttpEndpoint("127.0.0.1", port, api_key=KEY)
        return endpoint.exchange(Request(method="GET", path="/", **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("encode", [base64.standard_b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "a", "ab", "Bearer "])
@pytest.mark.parametrize("behind", ["", "x", "xy"])
def test_the_key_in_base64_is_taken_out(encode: object, before: str, behind: str) -> None:
    assert callable(encode)
    echoed = encode(f"{before}{KEY}{behind}".encode())
    body = get(reply_with(b"HTTP/1.1 200 OK\r\n\r\nyou sent <%s>" % echoed)).body
    assert REDACTED in body
    shown = body.partition("<")[2].partition(">")[0].replace(REDACTED, "")
    assert len(shown) <= len(before) * 2 + 8
    assert body.startswith("you sent <")


@pytest.mark.parametrize("spelling", [quote(KEY), quote(KEY, safe="")])
def test_the_key_in_a_url_is_taken_out(spelling: str) -> None:
    body = get(reply_with(b"HTTP/1.1 200 OK\r\n\r\n" + spelling.encode())).body
    assert body == REDACTED


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"HTTP/1.1 99999 \x1b[31mOK\r\n\r\n", "a status line that is none: HTTP/1.1 99999 "),
        (b"HTTP/1.1 200 OK\r\n'no\" head\r\n\r\n", "a header line that is none: 'no\" head"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
            "a chunk header that is none: -5",
        ),
    ],
)
def test_a_line_that_is_none_is_shown_without_types(reply: bytes, words: str) -> None:
    error = get(reply_with(reply)).error
    assert words in error
    assert "bytearray" not in error
    assert error.isprintable()


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_events_are_counted_however_they_are_cut(size: int, end: bytes) -> None:
    content = b"".join(b"data: %d%s" % (number, end) for number in range(5))
    pieces = [content[place : place + size] for place in range(0, len(content), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces)

    def script(connection: socket.socket, ended: threading.Event) -> None:
        read_request(connection)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        ended.wait(20)

    exchange = get(script, stream=True, stop_after_events=3, timeout_seconds=10.0)
    assert not exchange.error
    assert exchange.events[:3] == ("0", "1", "2")
    assert size == 1000 or len(exchange.events) == 3
