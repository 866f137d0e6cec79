"""`stoker verify URL` on whatever may listen there: one clear sentence, within bounds."""

from __future__ import annotations

import re
import socket
import struct
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.commands import discovery
from stoker.commands.verify import Wish, verify_target
from stoker.errors import EndpointError, StokerError, UsageError
from stoker.fake_engine.script import Script as EngineScript
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import Verdict
from tests.endpoints.certificates import make_certificate, needs_openssl, serving_tls
from tests.endpoints.raw_server import Script, drip, read_request, reply_with, serving
from tests.laws.worlds import ListReporter, Machine

pytestmark = pytest.mark.timeout(60)

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"Content-Type: application/json\r\n"
PAGE = b"<!DOCTYPE html><html><title>Hello</title></html>"
ONLY = ("chat_answer",)


def refuse(url: str, *, ca_file: str = "") -> StokerError:
    with pytest.raises(StokerError) as caught:
        verify_target(Machine().world(), Wish(target=url, only=ONLY, ca_file=ca_file))
    error = caught.value
    assert error.hint
    assert "\n" not in error.summary
    assert len(error.summary) < 500
    return error


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = replace(discovery._LISTING, timeout_seconds=1.0)
    monkeypatch.setattr(discovery, "_LISTING", hurried)


def plain(content: bytes, head: bytes = JSON) -> Script:
    return reply_with(head + b"Content-Length: %d\r\n\r\n" % len(content) + content)


def status(line: str, *headers: str, content: bytes = b"") -> Script:
    head = "".join(f"{each}\r\n" for each in (line, *headers, f"Content-Length: {len(content)}"))
    return reply_with(head.encode() + b"\r\n" + content)


def silent(connection: socket.socket, ended: threading.Event) -> None:
    read_request(connection)
    ended.wait(30)


def reset(connection: socket.socket, ended: threading.Event) -> None:
    read_request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def huge(connection: socket.socket, ended: threading.Event) -> None:
    read_request(connection)
    connection.sendall(JSON + b"Content-Length: 104857600\r\n\r\n")
    for _ in range(100):
        connection.sendall(b" " * (1 << 20))


#: What listens there, which sort of error it is, and words of the sentence.
THERE: dict[str, tuple[Script, type[StokerError], str]] = {
    "a web page": (plain(PAGE, OK + b"Content-Type: text/html\r\n"), UsageError, "web page"),
    "a page without a type": (plain(PAGE, OK), UsageError, "web page"),
    "a 404 page": (status("HTTP/1.1 404 Not Found", content=PAGE), UsageError, "web page"),
    "other JSON": (plain(b'{"status": "ok"}'), UsageError, "no list of models"),
    "a list of nothing": (plain(b'{"data": []}'), UsageError, "no list of models"),
    "models that are none": (plain(b'{"data": [1, {"id": 7}]}'), UsageError, "no list of models"),
    "nothing": (plain(b""), UsageError, "no list of models"),
    "JSON without end": (plain(b"[" * 100_000), UsageError, "no list of models"),
    "no such path": (status("HTTP/1.1 404 Not Found"), UsageError, "has no /v1/models"),
    "a key is wanted": (status("HTTP/1.1 401 Unauthorized"), UsageError, "wants an API key"),
    "a redirect to itself": (
        status("HTTP/1.1 307 Temporary Redirect", "Location: /v1/models"),
        UsageError,
        "redirect",
    ),
    "still loading": (
        status("HTTP/1.1 503 Service Unavailable", content=b'{"error": {"message": "Loading"}}'),
        EndpointError,
        "503",
    ),
    "an error": (status("HTTP/1.1 500 Oops"), EndpointError, "500"),
    "silence": (silent, EndpointError, "gave no reply"),
    "drops without end": (drip(JSON + b"\r\n", b"a"), EndpointError, "did not end it"),
    "an endless stream": (
        drip(OK + b"Content-Type: text/event-stream\r\n\r\n", b"data: {}\n\n" * 1000),
        EndpointError,
        "",
    ),
    "100 MB": (huge, EndpointError, "larger than 8 MiB"),
    "packed": (plain(b"\x1f\x8b", JSON + b"Content-Encoding: gzip\r\n"), EndpointError, "packed"),
    "a reset": (reset, EndpointError, "reset the connection"),
    "closed at once": (reply_with(b""), EndpointError, "broke off"),
    "another protocol": (reply_with(b"SSH-2.0-OpenSSH_9.2p1\r\n"), EndpointError, "not HTTP"),
}


@pytest.mark.parametrize("case", THERE)
def test_what_listens_there_gets_one_sentence(case: str) -> None:
    script, kind, words = THERE[case]
    with serving(script) as port:
        error = refuse(f"http://127.0.0.1:{port}")
    assert type(error) is kind
    assert words in error.summary
    assert f"127.0.0.1:{port}" in error.summary


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = refuse(f"http://localhost:{port}")
    assert isinstance(error, UsageError)
    assert "Connection refused" in error.summary


def test_a_name_leads_to_the_address_that_takes_a_connection() -> None:
    """localhost is on two families of addresses, and a server often on one alone."""
    with EngineServer() as server:
        tried = verify_target(
            Machine().world(), Wish(target=f"http://localhost:{server.port}/v1", only=ONLY)
        )
    assert tried.verification.has_passed
    assert tried.verification.url == f"http://localhost:{server.port}"
    assert server.asked[0].headers["host"] == f"localhost:{server.port}"


def test_a_base_path_is_kept() -> None:
    with EngineServer() as server:
        url = f"http://127.0.0.1:{server.port}/moved/v1"
        tried = verify_target(Machine().world(), Wish(target=url, only=ONLY))
    assert all(asked.path.startswith("/moved/") for asked in server.asked)
    assert tried.verification.url == f"http://127.0.0.1:{server.port}/moved"


def pass_on(connection: socket.socket, head: bytes, server: EngineServer) -> None:
    """Send a request whose head was read to an engine, and its reply back."""
    length = int((re.search(rb"(?i)content-length: (\d+)", head) or [b"", b"0"])[1])
    request = head
    while len(request.partition(b"\r\n\r\n")[2]) < length:
        request += connection.recv(1 << 16)
    with socket.create_connection((server.host, server.port)) as engine:
        engine.sendall(request)
        while received := engine.recv(1 << 16):
            connection.sendall(received)


# --- limits of requests ---


class Limiting:
    """Answers 429 so many times, then passes on to an engine."""

    def __init__(self, server: EngineServer, refusals: int) -> None:
        self.server, self.left = server, refusals

    def __call__(self, connection: socket.socket, ended: threading.Event) -> None:
        request = read_request(connection)
        if self.left:
            self.left -= 1
            connection.sendall(
                b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"
            )
            return
        pass_on(connection, request, self.server)


def test_a_server_that_limits_requests_is_asked_again_and_that_is_told() -> None:
    world = Machine().world()
    with EngineServer() as server, serving(Limiting(server, 2)) as port:
        wish = Wish(target=f"http://127.0.0.1:{port}", only=("published_name",))
        tried = verify_target(world, wish)
    assert {result.verdict for result in tried.verification.results} == {Verdict.PASSED}
    assert any("429" in note for note in tried.verification.notes)
    reporter = world.reporter
    assert isinstance(reporter, ListReporter)
    assert any("waiting 3 s" in event.text for event in reporter.events)


def test_a_server_that_refuses_all_of_them_gets_a_sentence() -> None:
    with serving(status("HTTP/1.1 429 Too Many Requests", "Retry-After: 1")) as port:
        error = refuse(f"http://127.0.0.1:{port}")
    assert isinstance(error, EndpointError)
    assert "429" in error.summary
    assert "4 times" in error.summary


# --- keys ---


def test_the_key_is_sent_and_never_shown(tmp_path: Path) -> None:
    machine = Machine()
    machine.host.put("/root/client-key", "sk-very-secret-key\n")
    with EngineServer(
        EngineScript(api_key="sk-very-secret-key"), echo="sk-very-secret-key"
    ) as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", key_file="/root/client-key")
        with pytest.raises(StokerError) as caught:
            verify_target(machine.world(), wish)
    assert server.asked[0].headers["authorization"] == "Bearer sk-very-secret-key"
    assert "very-secret" not in f"{caught.value.summary} {caught.value.hint}"


def test_a_wrong_key_is_told() -> None:
    machine = Machine()
    machine.host.put("/root/client-key", "sk-other\n")
    with EngineServer(EngineScript(api_key="sk-right")) as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", key_file="/root/client-key")
        with pytest.raises(UsageError, match="wants an API key") as caught:
            verify_target(machine.world(), wish)
    assert "right one" in caught.value.hint
    assert "sk-other" not in str(caught.value)


@pytest.mark.parametrize("content", ["", " \n"])
def test_a_key_file_without_a_key(content: str) -> None:
    machine = Machine()
    machine.host.put("/root/empty", content)
    with pytest.raises(UsageError, match="is empty"):
        verify_target(machine.world(), Wish(target="http://127.0.0.1:9", key_file="/root/empty"))


# --- TLS ---


@needs_openssl
def test_over_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "DNS:localhost")
    with serving_tls(EngineServer(), certificate, key) as server:
        url = f"https://localhost:{server.port}"
        untrusted = refuse(url)
        tried = verify_target(
            Machine().world(), Wish(target=url, only=ONLY, ca_file=str(certificate))
        )
        plain_instead = refuse(f"http://localhost:{server.port}")
    assert "self-signed" in untrusted.summary
    assert "--ca-file" in untrusted.hint
    assert tried.verification.has_passed
    assert "TLS" in plain_instead.summary
    assert f"https://localhost:{server.port}" in plain_instead.hint


def test_plain_http_behind_https() -> None:
    with EngineServer() as server:
        error = refuse(f"https://127.0.0.1:{server.port}")
    assert "does not speak TLS" in error.summary
    assert f"http://127.0.0.1:{server.port}" in error.hint


def test_a_file_that_holds_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "none.pem"
    path.write_text("nothing")
    assert "no certificates" in refuse("https://127.0.0.1:9", ca_file=str(path)).summary


# --- names ---


@pytest.mark.parametrize(
    "instead",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        JSON + b'Content-Length: 12\r\n\r\n{"data": []}',
    ],
)
def test_a_server_without_a_list_is_tried_under_the_name_that_is_given(instead: bytes) -> None:
    with EngineServer() as server:

        def script(connection: socket.socket, ended: threading.Event) -> None:
            request = read_request(connection)
            if b"/v1/models" in request:
                connection.sendall(instead)
                return
            pass_on(connection, request, server)

        with serving(script) as port:
            wish = Wish(target=f"http://127.0.0.1:{port}", only=ONLY, published_name="smollm2")
            tried = verify_target(Machine().world(), wish)
    assert tried.subject.published_name == "smollm2"
    assert tried.verification.has_passed


def test_a_server_that_breaks_in_the_middle_is_told_by_its_checks() -> None:
    with EngineServer(fault="no_done") as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", only=("stream_ends_done",))
        tried = verify_target(Machine().world(), wish)
    assert not tried.verification.has_passed


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        (Wish(target="127.0.0.1:8000"), "http://127.0.0.1:8000"),
        (Wish(target="law", key_file="/k"), "own key"),
        (Wish(target="law", published_name="x"), "its own name"),
        (Wish(level="deep"), "quick"),
        (Wish(only=("chat_anwser",)), "did you mean chat_answer"),
    ],
)
def test_wishes_that_cannot_be(wish: Wish, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        verify_target(Machine().world(), wish)
    assert word in caught.value.hint
