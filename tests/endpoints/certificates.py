"""Certificates that a test makes for itself, and a server that shows them."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.fake_engine.server import EngineServer

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="there is no openssl command here")


def make_certificate(folder: Path, names: str, *, days: int = 3) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key. ``names`` as in subjectAltName."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run(
        [
            *(str(OPENSSL), *request, "-nodes", "-days", str(days), "-subj", "/CN=test"),
            *("-addext", f"subjectAltName={names}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@contextlib.contextmanager
def serving_tls(server: EngineServer, certificate: Path, key: Path) -> Iterator[EngineServer]:
    """The server behind TLS with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    inner = server._server
    inner.socket = context.wrap_socket(
        inner.socket, server_side=True, do_handshake_on_connect=False
    )
    with server:
        yield server
