"""An endpoint over TLS: whom it trusts, and what it says of whom it does not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.endpoints.http import HttpEndpoint
from stoker.endpoints.wire import NO_TLS, check_ca_file
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import Exchange, Request
from tests.endpoints.certificates import make_certificate, needs_openssl, serving_tls
from tests.endpoints.raw_server import serving

pytestmark = [needs_openssl, pytest.mark.timeout(30)]

LISTING = Request(method="GET", path="/v1/models", timeout_seconds=10.0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    return make_certificate(folder, "DNS:localhost,IP:127.0.0.1")


@pytest.fixture
def server(certificate: tuple[Path, Path]) -> Iterator[EngineServer]:
    with serving_tls(EngineServer(), *certificate) as running:
        yield running


def ask(port: int, *, ca_file: Path | str = "", name: str = "", scheme: str = "https") -> Exchange:
    endpoint = HttpEndpoint("127.0.0.1", port, scheme=scheme, name=name, ca_file=str(ca_file))
    return endpoint.exchange(LISTING)


def test_an_authority_of_ones_own_is_trusted(
    server: EngineServer, certificate: tuple[Path, Path]
) -> None:
    exchange = ask(server.port, ca_file=certificate[0], name="localhost")
    assert (exchange.status, exchange.error) == (200, "")
    assert server.asked[0].headers["host"] == f"localhost:{server.port}"


def test_an_address_counts_as_a_name_of_the_certificate(
    server: EngineServer, certificate: tuple[Path, Path]
) -> None:
    assert ask(server.port, ca_file=certificate[0]).status == 200


def test_a_certificate_that_signs_itself_is_not_trusted(server: EngineServer) -> None:
    exchange = ask(server.port, name="localhost")
    assert exchange.error_kind == "tls"
    assert "not trusted" in exchange.error
    assert "self-signed" in exchange.error
    assert server.asked == []


def test_a_certificate_for_another_name_is_not_trusted(
    server: EngineServer, certificate: tuple[Path, Path]
) -> None:
    exchange = ask(server.port, ca_file=certificate[0], name="other.example")
    assert exchange.error_kind == "tls"
    assert "other.example" in exchange.error


def test_a_server_without_tls_is_told_apart() -> None:
    with EngineServer() as server:
        exchange = ask(server.port)
    assert exchange.error_kind == "tls"
    assert NO_TLS in exchange.error


@pytest.mark.parametrize(
    "reply", [b"", b"SSH-2.0-OpenSSH_9.2p1\r\n", b"\x15\x03\x01\x00\x02\x02\x50"]
)
def test_a_handshake_that_fails_is_an_answer(reply: bytes) -> None:
    def script(connection: socket.socket, ended: threading.Event) -> None:
        connection.recv(1 << 16)
        connection.sendall(reply)

    with serving(script) as port:
        exchange = ask(port)
    assert exchange.error_kind in ("tls", "refused", "protocol")
    assert exchange.error


def test_plain_http_to_a_server_with_tls_is_an_answer(server: EngineServer) -> None:
    exchange = ask(server.port, scheme="http")
    assert exchange.error_kind == "protocol" or exchange.status == 400


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.pem"
    path.write_text("nothing")
    for each in (path, tmp_path / "gone.pem"):
        with pytest.raises(OSError, match=r"."):
            check_ca_file(str(each))
