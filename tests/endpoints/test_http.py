"""The endpoint keeps its contract, whatever the server does."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.endpoints.http import REDACTED, HttpEndpoint
from stoker.endpoints.wire import LIMIT_BYTES
from stoker.errors import UsageError
from stoker.fake_engine.script import Script as EngineScript
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import Exchange, Request
from tests.endpoints.raw_server import Script, drip, read_request, reply_with, serving

pytestmark = pytest.mark.timeout(20)

LISTING = Request(method="GET", path="/v1/models", timeout_seconds=10.0)
QUESTION = Request(
    method="POST",
    path="/v1/chat/completions",
    body={
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Gr\u00fc\u00dfe \U0001f600"}],
    },
    timeout_seconds=10.0,
)
STREAM = Request(
    method="POST",
    path="/v1/chat/completions",
    body={"model": "smollm2", "stream": True, "messages": []},
    stream=True,
    timeout_seconds=10.0,
)
OK_HEAD = b"HTTP/1.1 200 OK\r\n"
JSON_HEAD = OK_HEAD + b"Content-Type: application/json\r\n"
STREAM_HEAD = OK_HEAD + b"Content-Type: text/event-stream\r\n"


def ask(
    port: int, *, seconds: float = 10.0, stream: bool = False, host: str = "127.0.0.1"
) -> Exchange:
    request = Request(method="GET", path="/v1/models", stream=stream, timeout_seconds=seconds)
    return HttpEndpoint(host, port).exchange(request)


def ask_script(script: Script, *, seconds: float = 10.0, stream: bool = False) -> Exchange:
    with serving(script) as port:
        return ask(port, seconds=seconds, stream=stream)


# --- the address ---


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:30000"),
        ("0.0.0.0", "http://127.0.0.1:30000"),
        ("192.0.2.7", "http://192.0.2.7:30000"),
        ("::", "http://[::1]:30000"),
        ("::1", "http://[::1]:30000"),
        ("2001:db8::7", "http://[2001:db8::7]:30000"),
    ],
)
def test_the_address_is_where_the_server_is_reached(host: str, url: str) -> None:
    assert HttpEndpoint(host, 30000).url == url


@pytest.mark.parametrize(
    ("host", "port"), [("localhost", 80), ("", 80), ("127.0.0.1", 0), ("127.0.0.1", 65536)]
)
def test_an_address_that_is_none_is_refused(host: str, port: int) -> None:
    with pytest.raises(UsageError):
        HttpEndpoint(host, port)


@pytest.mark.parametrize("host", ["::1", "::"])
def test_a_server_on_ipv6_is_reached(host: str) -> None:
    seen: list[bytes] = []

    def script(connection: socket.socket, ended: threading.Event) -> None:
        seen.append(read_request(connection))
        connection.sendall(OK_HEAD + b"Content-Length: 2\r\n\r\n{}")

    try:
        with serving(script, family=socket.AF_INET6, host="::1") as port:
            exchange = ask(port, host=host)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    assert (exchange.status, exchange.body, exchange.error) == (200, "{}", "")
    assert f"Host: [::1]:{port}\r\n".encode() in seen[0]


# --- a server that behaves ---


def test_a_plain_reply_is_its_text() -> None:
    with EngineServer() as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(QUESTION)
    assert exchange.request is QUESTION
    assert (exchange.status, exchange.error, exchange.error_kind) == (200, "", "")
    assert json.loads(exchange.body)["object"] == "chat.completion"
    assert exchange.events == ()
    assert exchange.is_utf8
    assert exchange.seconds > 0


def test_a_streamed_reply_is_its_events_in_order() -> None:
    with EngineServer(EngineScript().saying("one two three")) as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(STREAM)
    chunks = [json.loads(event) for event in exchange.events[:-1]]
    words = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert words == [None, "one ", "two ", "three", None]
    assert exchange.events[-1] == "[DONE]"
    assert exchange.body == ""


def test_an_error_instead_of_a_stream_is_its_text() -> None:
    with EngineServer(fault="server_error") as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(STREAM)
    assert (exchange.status, exchange.events, exchange.error) == (500, (), "")
    assert "Compute error." in exchange.body


def test_the_request_goes_out_as_it_is() -> None:
    with EngineServer(EngineScript(api_key="sk-secret")) as server:
        HttpEndpoint(server.host, server.port, api_key="sk-secret").exchange(QUESTION)
        HttpEndpoint(server.host, server.port).exchange(LISTING)
    question, listing = server.asked
    assert (question.method, question.path) == ("POST", "/v1/chat/completions")
    assert json.loads(question.body) == QUESTION.body
    assert question.headers["authorization"] == "Bearer sk-secret"
    assert question.headers["content-type"] == "application/json"
    assert question.headers["accept-encoding"] == "identity"
    assert question.headers["host"] == f"127.0.0.1:{server.port}"
    assert (listing.method, listing.path, listing.body) == ("GET", "/v1/models", b"")
    assert "authorization" not in listing.headers


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with EngineServer() as server:
        assert HttpEndpoint(server.host, server.port).exchange(LISTING).status == 200


def test_a_redirect_is_not_followed() -> None:
    with EngineServer(fault="redirect") as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(LISTING)
    assert exchange.status == 307
    assert len(server.asked) == 1


def test_the_command_line_does_not_wait_for_the_library() -> None:
    program = "import sys, stoker.endpoints.http; print({'httpx2', 'httpcore2'} & {*sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert run.stdout.strip() == "set()"


# --- no reply ---


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    exchange = ask(port)
    assert (exchange.status, exchange.error_kind) == (0, "refused")
    assert f"port {port} of 127.0.0.1" in exchange.error


def _reset(connection: socket.socket, ended: threading.Event) -> None:
    read_request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _close(connection: socket.socket, ended: threading.Event) -> None:
    """Nothing is read and nothing is sent."""


BROKEN: dict[str, Script] = {
    "closed at once": _close,
    "reset": _reset,
    "closed after the request": reply_with(b""),
    "TLS": reply_with(b"\x15\x03\x01\x00\x02\x02\x50"),
    "SSH": reply_with(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    "HTTP/2": reply_with(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80"),
    "another protocol": reply_with(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\nrest"),
    "half a head": reply_with(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "a header without a name": reply_with(OK_HEAD + b": text\r\n\r\n"),
    "a head without end": reply_with(OK_HEAD + b"X: " + b"a" * 200_000),
    "a status below all": reply_with(b"HTTP/1.1 000 Nothing\r\n\r\n"),
    "half a body": reply_with(JSON_HEAD + b"Content-Length: 100\r\n\r\n{}"),
    "a length that is none": reply_with(JSON_HEAD + b"Content-Length: many\r\n\r\n{}"),
    "a length below zero": reply_with(JSON_HEAD + b"Content-Length: -1\r\n\r\n{}"),
    "two lengths": reply_with(JSON_HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
    "a chunk without a size": reply_with(
        JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n"
    ),
    "a chunk below zero": reply_with(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n"),
    "half a chunk": reply_with(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}"),
    "no last chunk": reply_with(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
    "an unknown transfer": reply_with(JSON_HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_reply_that_breaks_http_is_an_answer(case: str) -> None:
    exchange = ask_script(BROKEN[case])
    assert exchange.error_kind == "protocol"
    assert 0 < len(exchange.error) <= 300


@pytest.mark.parametrize(
    ("reply", "status", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end"),
        (b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nhm", 999, "hm"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK_HEAD + b"Content-Length: 0\r\n\r\n", 200, ""),
        (
            OK_HEAD + b"Content-Type: text/\xff; charset=none\r\nContent-Length: 1\r\n\r\na",
            200,
            "a",
        ),
    ],
)
def test_odd_but_valid_replies_are_read(reply: bytes, status: int, body: str) -> None:
    exchange = ask_script(reply_with(reply))
    assert (exchange.status, exchange.body, exchange.error) == (status, body, "")


@given(
    opening=st.sampled_from([b"", OK_HEAD, JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"]),
    noise=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [b"\r\n", b"\r\n\r\n", b"HTTP/1.1 ", b"200 OK", b"Content-Length: ", b"5", b"0"]
            ),
        ),
        max_size=12,
    ),
)
@settings(max_examples=100, deadline=None)
def test_no_bytes_raise(opening: bytes, noise: list[bytes]) -> None:
    exchange = ask_script(reply_with(opening + b"".join(noise)), stream=bool(noise))
    assert exchange.error_kind in ("", "protocol")


# --- the deadline ---


def _silent(connection: socket.socket, ended: threading.Event) -> None:
    ended.wait()


NEVER_ENDING: dict[str, Script] = {
    "nothing is sent": _silent,
    "the head comes in drops": drip(OK_HEAD, b"X: a\r\n"),
    "one header comes in drops": drip(OK_HEAD + b"X: ", b"a"),
    "one interim reply after the other": drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "the body comes in drops": drip(JSON_HEAD + b"Content-Length: 9999\r\n\r\n", b"a"),
    "the body has no end": drip(JSON_HEAD + b"\r\n", b"a"),
    "chunks come in drops": drip(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "events come in drops": drip(STREAM_HEAD + b"\r\n", b"data: {}\n\n"),
}


@pytest.mark.parametrize("case", NEVER_ENDING)
def test_the_deadline_covers_everything(case: str) -> None:
    exchange = ask_script(NEVER_ENDING[case], seconds=0.2, stream="events" in case)
    assert exchange.error_kind == "timeout"
    assert "0.2 s" in exchange.error


def test_the_deadline_covers_the_sending() -> None:
    body = {"text": "a" * (16 << 20)}
    request = Request(method="POST", path="/", body=body, timeout_seconds=0.3)
    with serving(_silent) as port:
        exchange = HttpEndpoint("127.0.0.1", port).exchange(request)
    assert exchange.error_kind == "timeout"


def test_the_deadline_covers_the_connecting() -> None:
    """A queue of connections that is full answers nothing at all."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        exchange = ask(listener.getsockname()[1], seconds=0.2)
    assert (exchange.status, exchange.error_kind) == (0, "timeout")


def test_many_small_chunks_in_one_read_do_not_outlast_the_deadline() -> None:
    head = JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    exchange = ask_script(drip(head, b"1\r\na\r\n" * 10_000), seconds=0.3)
    assert exchange.error_kind == "timeout"
    assert set(exchange.body) == {"a"}


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_is_too_little_time(seconds: float) -> None:
    with EngineServer() as server:
        assert ask(server.port, seconds=seconds).error_kind == "timeout"


def test_what_came_before_the_deadline_is_kept() -> None:
    body = '{"text": "gr\u00fc'.encode()
    exchange = ask_script(
        drip(JSON_HEAD + b"Content-Length: 99\r\n\r\n" + body[:-1], b""), seconds=0.2
    )
    assert (exchange.status, exchange.error_kind) == (200, "timeout")
    assert exchange.body == '{"text": "gr\ufffd'
    assert exchange.is_utf8, "the deadline cut the character, not the server"


def test_the_events_before_the_deadline_are_kept() -> None:
    exchange = ask_script(
        drip(STREAM_HEAD + b"\r\ndata: 1\n\ndata: 2\n\ndata: 3", b""), seconds=0.2, stream=True
    )
    assert exchange.events == ("1", "2")
    assert exchange.error_kind == "timeout"


# --- the size ---


def test_a_reply_at_the_limit_is_whole() -> None:
    head = JSON_HEAD + b"Content-Length: %d\r\n\r\n" % LIMIT_BYTES
    exchange = ask_script(reply_with(head + b"a" * LIMIT_BYTES))
    assert (len(exchange.body), exchange.error) == (LIMIT_BYTES, "")


@pytest.mark.parametrize("fault", ["too_large", "endless"])
def test_a_reply_above_the_limit_is_cut(fault: str) -> None:
    with EngineServer(fault=fault) as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(LISTING)
    assert (len(exchange.body), exchange.status) == (LIMIT_BYTES, 200)
    assert exchange.error_kind == "protocol"
    assert "8 MiB" in exchange.error


def test_a_packed_reply_is_not_unpacked() -> None:
    with EngineServer(fault="packed") as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(LISTING)
    assert (exchange.body, exchange.error_kind) == ("", "protocol")
    assert "gzip" in exchange.error


# --- characters ---


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_that_are_not_utf8_are_replaced_and_told(stream: bool) -> None:
    head = STREAM_HEAD if stream else JSON_HEAD
    exchange = ask_script(reply_with(head + b"\r\ndata: m\xe4th\n\n"), stream=stream)
    text = exchange.events[0] if stream else exchange.body
    assert "m\ufffdth" in text
    assert not exchange.is_utf8
    assert exchange.error == ""


def test_a_whole_reply_that_ends_within_a_character_is_not_utf8() -> None:
    assert not ask_script(reply_with(JSON_HEAD + b"\r\ngr\xc3")).is_utf8


# --- the key ---


@pytest.mark.parametrize(
    "request_", [LISTING, QUESTION, STREAM], ids=lambda r: f"{r.path} {r.stream}"
)
def test_a_key_that_the_server_echoes_is_taken_out(request_: Request) -> None:
    with EngineServer(EngineScript(api_key="sk-secret"), echo="data: sk-secret!\n\n") as server:
        endpoint = HttpEndpoint(server.host, server.port, api_key="sk-secret")
        exchange = endpoint.exchange(request_)
    assert exchange.status == 200
    assert "sk-secret" not in repr(exchange)
    assert REDACTED in exchange.body + "".join(exchange.events)


@pytest.mark.parametrize("key", ['a"b\\c', "a/b"])
@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_a_key_that_is_echoed_in_json_is_taken_out(key: str, slash: str) -> None:
    echo = json.dumps(key).replace("/", slash)
    with EngineServer(echo=echo) as server:
        exchange = HttpEndpoint(server.host, server.port, api_key=key).exchange(LISTING)
    assert exchange.body.endswith(f'"{REDACTED}"')


def test_a_key_in_an_error_is_taken_out() -> None:
    with serving(reply_with(b"Bearer sk-secret\r\n\r\n")) as port:
        exchange = HttpEndpoint("127.0.0.1", port, api_key="sk-secret").exchange(LISTING)
    assert exchange.error_kind == "protocol"
    assert "sk-secret" not in repr(exchange)


def test_an_empty_key_is_none() -> None:
    with EngineServer() as server:
        exchange = HttpEndpoint(server.host, server.port, api_key="").exchange(LISTING)
    assert exchange.status == 200
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize("key", ["two words", "line\n", "\u00fcmlaut", "\x00"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        HttpEndpoint("127.0.0.1", 80, api_key=key)
    assert key not in f"{caught.value} {caught.value.hint}"
