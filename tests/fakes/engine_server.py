"""An HTTP server that behaves like llama.cpp's OpenAI interface, and breaks what it is told to.

For tests of everything that talks to an engine::

    with EngineServer(fault=Fault.NO_DONE) as server:
        endpoint = HttpEndpoint("127.0.0.1", server.port)

It is a real server on a free port of the loopback address, or on the one that it is given, with a
thread for each connection.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.fakes.engine_replies import (
    CHUNK_FAULTS,
    COMPLETION_FAULTS,
    ENGINE_FAULTS,
    EVENT_FAULTS,
    LISTING_FAULTS,
    Data,
    Engine,
    Fault,
    complete,
    complete_in_chunks,
    list_models,
    write_events,
)

MOVED = "/moved"
LIMIT_BYTES = 8 << 20
COUNTER = "fake:generation_tokens_total"
_JSON = "application/json; charset=utf-8"
_DRIP_SECONDS = 0.02

#: A stream is sent in these parts, each as an HTTP chunk and a write of its own.
Cut = Callable[[bytes], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it came in. ``headers`` have lower-case names."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def _by_event(stream: bytes) -> Iterable[bytes]:
    return [part + b"\n\n" for part in stream.split(b"\n\n")[:-1]]


class EngineServer:
    """The server while its ``with`` block runs. ``asked`` lists what was asked, in order."""

    host = "127.0.0.1"

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        fault: Fault | None = None,
        api_key: str = "",
        echo: str = "",
        cut: Cut = _by_event,
        port: int = 0,
    ) -> None:
        engine = engine or Engine()
        self.engine = ENGINE_FAULTS[fault](engine) if fault in ENGINE_FAULTS else engine
        self.fault = fault
        self.api_key = api_key
        self.echo = echo
        self.cut = cut
        self.asked: list[Asked] = []
        self.is_stopping = threading.Event()
        #: The value behind /metrics, for a server that has counters.
        self.count: Callable[[], float] | None = None
        #: A dead scheduler behind live HTTP: questions are taken, and nothing comes of them.
        self.is_mute = False
        self.health_status = 200
        self._server = _Server(self, port)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_stopping.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: EngineServer, port: int) -> None:
        self.owner = owner
        super().__init__((owner.host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Nothing is logged."""

    @property
    def owner(self) -> EngineServer:
        return self.server.owner

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.asked.append(
            Asked(method=self.command, path=self.path, headers=headers, body=body)
        )
        misbehave = _WIRE_FAULTS.get(self.owner.fault) if self.owner.fault else None
        if misbehave and not self.path.startswith(MOVED):
            self.close_connection = True
            misbehave(self)
        elif self.owner.api_key and headers.get("authorization") != f"Bearer {self.owner.api_key}":
            error = {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}
            self.reply({"error": error}, status=401)
        else:
            self._route(self.path.removeprefix(MOVED), body)

    def _route(self, path: str, body: bytes) -> None:
        fault = self.owner.fault
        if path == "/health":
            self.reply({"status": "ok"}, status=self.owner.health_status)
        elif path == "/metrics" and self.owner.count:
            text = f"# TYPE {COUNTER} counter\n{COUNTER} {self.owner.count()}\n".encode()
            self.send_head(200, {"Content-Type": "text/plain", "Content-Length": str(len(text))})
            self.wfile.write(text)
        elif path == "/v1/chat/completions" and self.owner.is_mute:
            self.close_connection = True
            self.owner.is_stopping.wait()
        elif path == "/v1/models" and fault is not Fault.LIST_NOT_FOUND:
            self.reply(_break(LISTING_FAULTS, fault, list_models(self.owner.engine)))
        elif path == "/v1/chat/completions" and fault is Fault.SERVER_ERROR:
            self.reply({"error": {"message": "Compute error.", "code": 500}}, status=500)
        elif path == "/v1/chat/completions":
            self._complete(json.loads(body))
        else:
            self.reply({"error": {"message": "File Not Found", "code": 404}}, status=404)

    def _complete(self, question: Data) -> None:
        engine, fault = self.owner.engine, self.owner.fault
        if question.get("stream") and fault is not Fault.NOT_STREAMED:
            chunks = _break(CHUNK_FAULTS, fault, complete_in_chunks(engine, question))
            self._stream(_break(EVENT_FAULTS, fault, write_events(chunks)))
        else:
            self.reply(_break(COMPLETION_FAULTS, fault, complete(engine, question)))

    def _spoil(self, text: str) -> bytes:
        """The bytes on the wire, with what the fault does to characters."""
        data = (text + self.owner.echo).encode("utf-8")
        if self.owner.fault is Fault.NOT_UTF8:
            return data.replace(b"math", b"m\xe4th").replace(b"answer", b"\xf0\x9f\x98")
        if self.owner.fault is Fault.HALF_CHARACTER:
            return data.replace(b"math", b"\\ud83d")
        return data

    def reply(self, data: Data, status: int = 200) -> None:
        content = self._spoil(json.dumps(data, ensure_ascii=False))
        self.send_head(status, {"Content-Type": _JSON, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, events: list[str]) -> None:
        self.send_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        stream = self._spoil("".join(f"data: {event}\n\n" for event in events))
        parts = [part for part in self.owner.cut(stream) if part]
        if self.owner.fault is Fault.BREAKS_OFF:
            self.close_connection = True
            self.write_chunks(parts[:3])
            return
        self.write_chunks([*parts, b""])

    def write_chunks(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))


def _break(faults: dict[Fault, Callable[[Any], Any]], fault: Fault | None, data: Any) -> Any:
    return faults[fault](data) if fault in faults else data


def _html_page(handler: _Handler) -> None:
    page = b"<!doctype html><html><body>Welcome to nginx!</body></html>"
    handler.send_head(200, {"Content-Type": "text/html", "Content-Length": str(len(page))})
    handler.wfile.write(page)


def _redirect(handler: _Handler) -> None:
    handler.send_head(307, {"Location": MOVED + handler.path, "Content-Length": "0"})


#: Made once: packing takes longer than any test that sends it.
_BOMB = gzip.compress(bytes(LIMIT_BYTES + 1), compresslevel=1)


def _packed(handler: _Handler) -> None:
    size = str(len(_BOMB))
    handler.send_head(
        200, {"Content-Type": _JSON, "Content-Encoding": "gzip", "Content-Length": size}
    )
    handler.wfile.write(_BOMB)


def _slow_drip(handler: _Handler) -> None:
    handler.send_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
    handler.write_chunks([b'data: {"half": true}\n\n'])
    while not handler.owner.is_stopping.wait(_DRIP_SECONDS):
        handler.write_chunks([b"x"])


def _endless(handler: _Handler) -> None:
    handler.send_head(200, {"Content-Type": _JSON, "Transfer-Encoding": "chunked"})
    while not handler.owner.is_stopping.is_set():
        handler.write_chunks([b"a" * (1 << 16)])


def _too_large(handler: _Handler) -> None:
    handler.send_head(200, {"Content-Type": _JSON, "Content-Length": str(LIMIT_BYTES + 1)})
    handler.wfile.write(b"a" * (LIMIT_BYTES + 1))


_WIRE_FAULTS: dict[Fault, Callable[[_Handler], object]] = {
    Fault.HTML_PAGE: _html_page,
    Fault.REDIRECT: _redirect,
    Fault.PACKED: _packed,
    Fault.CLOSES_AT_ONCE: lambda handler: None,
    Fault.GARBAGE: lambda handler: handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\x50"),
    Fault.SLOW_DRIP: _slow_drip,
    Fault.ENDLESS: _endless,
    Fault.TOO_LARGE: _too_large,
}
