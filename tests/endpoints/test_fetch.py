"""Texts from public addresses: what is asked, what is refused, and when it ends."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from stoker.endpoints.fetch import DEFAULT_GATE, LIMIT_BYTES, Gate, fetch_text, is_public
from stoker.errors import EndpointError, UsageError
from tests.endpoints.raw_server import Script, drip, read_request, reply_with, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
Answer = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key for the name `notes.test`, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl makes a certificate here")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=notes.test", "-addext", "subjectAltName=DNS:notes.test"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return both


class Server:
    """A TLS server with a script, and a gate that leads to it and trusts it."""

    def __init__(self, certificate: Path, port: int) -> None:
        self.port = port
        self.gate = Gate(
            resolve=lambda name, port: ["127.0.0.1"],
            may_reach=lambda address: True,
            ssl_context=ssl.create_default_context(cafile=str(certificate)),
        )

    @property
    def url(self) -> str:
        return f"https://notes.test:{self.port}"

    def fetch(self, path: str = "/note.md", *, seconds: float = 5.0) -> str:
        return fetch_text(f"{self.url}{path}", timeout_seconds=seconds, gate=self.gate).text


@pytest.fixture
def start(certificate: Path) -> Iterator[Callable[[Script], Server]]:
    """Starts a server that speaks TLS and then follows a script."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    opened = []

    def begin(script: Script) -> Server:
        def wrapped(connection: socket.socket, ended: threading.Event) -> None:
            with context.wrap_socket(connection, server_side=True) as secure:
                script(secure, ended)

        served = serving(wrapped)
        opened.append(served)
        return Server(certificate, served.__enter__())

    yield begin
    for served in opened:
        served.__exit__(None, None, None)


def answer_by_path(answers: dict[str, bytes], seen: list[bytes] | None = None) -> Script:
    def script(connection: socket.socket, ended: threading.Event) -> None:
        head = read_request(connection)
        if seen is not None:
            seen.append(head)
        connection.sendall(answers[head.split()[1].decode()])

    return script


def redirect(where: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()


def test_a_text(start: Callable[[Script], Server]) -> None:
    seen: list[bytes] = []
    server = start(answer_by_path({"/note.md?x=1": OK + b"\r\nh\xc3\xa9llo"}, seen))
    fetched = fetch_text(f"{server.url}/note.md?x=1", gate=server.gate)
    assert (fetched.text, fetched.media_type) == ("héllo", "text/plain")
    assert fetched.url == "https://notes.test/note.md"
    head = seen[0].lower()
    assert f"host: notes.test:{server.port}".encode() in head
    assert b"cookie" not in head
    assert b"authorization" not in head


def test_redirects_are_followed_a_few_times(start: Callable[[Script], Server]) -> None:
    answers = {
        "/a": redirect("/b"),
        "/b": redirect("c"),
        "/c": OK + b"\r\nthere",
        "/loop": redirect("/loop"),
        "/http": redirect("http://notes.test/x"),
        "/in": redirect("https://user:word@notes.test/x"),
    }
    server = start(answer_by_path(answers))
    assert server.fetch("/a") == "there"
    with pytest.raises(EndpointError, match="leads on more than 5 times"):
        server.fetch("/loop")
    with pytest.raises(UsageError, match="only https"):
        server.fetch("/http")
    with pytest.raises(UsageError, match="user or a password"):
        server.fetch("/in")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "status 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>", "web page"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n\r\nPK", "not a text"),
        (OK + b"Content-Encoding: gzip\r\n\r\nx", "packed"),
        (OK + b"\r\na\0b", "no text"),
        (OK + b"\r\n" + b"x" * (LIMIT_BYTES + 1), "larger than 1 MiB"),
        (b"hello\r\n\r\n", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_what_is_no_text_is_refused(
    start: Callable[[Script], Server], reply: bytes, says: str
) -> None:
    with pytest.raises(EndpointError, match=says):
        start(reply_with(reply)).fetch()


def test_a_server_that_drips_ends_at_the_deadline(start: Callable[[Script], Server]) -> None:
    server = start(drip(OK + b"\r\n", b"x"))
    with pytest.raises(EndpointError, match=r"no whole text within 1 s"):
        server.fetch(seconds=1.0)


def test_a_name_that_is_never_looked_up_ends_at_the_deadline() -> None:
    def resolve(name: str, port: int) -> Sequence[str]:
        time.sleep(3)
        return []

    gate = Gate(resolve=resolve, may_reach=is_public)
    with pytest.raises(EndpointError, match="no whole text within"):
        fetch_text("https://notes.test/x", timeout_seconds=0.5, gate=gate)


def test_a_stranger_s_certificate_is_refused(start: Callable[[Script], Server]) -> None:
    server = start(reply_with(OK + b"\r\nx"))
    gate = Gate(resolve=server.gate.resolve, may_reach=server.gate.may_reach)
    with pytest.raises(EndpointError, match="cannot be read"):
        fetch_text(f"{server.url}/x", gate=gate)


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"], ["169.254.169.254"]]
)
def test_no_name_leads_into_the_own_network(addresses: list[str]) -> None:
    gate = Gate(resolve=lambda name, port: addresses, may_reach=is_public)
    with pytest.raises(UsageError, match="no public address"):
        fetch_text("https://notes.test/x", gate=gate)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1"),
        *("2002:0a00:0001::1", "ff02::1"),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_addresses_that_are_public() -> None:
    assert is_public("8.8.8.8")
    assert is_public("2606:4700::1111")


@pytest.mark.parametrize(
    "url",
    [
        *("http://notes.test/x", "file:///etc/passwd", "ftp://notes.test/x", "https://"),
        *("https://a:b@notes.test/x", "https://notes.test/\nx", "https://notes.test:99999/x"),
        *("https://nötes.test/", "https://[::1/", "data:text/plain,x"),
    ],
)
def test_addresses_that_are_not_asked(url: str) -> None:
    with pytest.raises(UsageError):
        fetch_text(url, gate=DEFAULT_GATE)
