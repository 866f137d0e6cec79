"""The fake engine over HTTP: a real server on the loopback address, a thread for each connection.

For tests of everything that talks to an engine::

    with EngineServer(Script(manners="vllm"), fault="no_done") as server:
        endpoint = HttpEndpoint(server.host, server.port)

It only carries bytes and keeps time; what is said is decided in :mod:`stoker.fake_engine.core`.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from stoker.fake_engine.core import Core, Task
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.routes import CHAT
from stoker.fake_engine.script import Script
from stoker.fake_engine.switches import discover_faults
from stoker.fake_engine.values import Asked, Response

#: Where a redirect leads: everything is answered there as it should be.
MOVED = "/moved"
COUNTER = Core.COUNTER
_GLANCE_SECONDS = 0.02

#: A stream is sent in these parts, each as an HTTP chunk and a write of its own.
Cut = Callable[[bytes], Iterable[bytes]]
_CLIENT_GONE = (BrokenPipeError, ConnectionError, TimeoutError, ValueError)


class EngineServer:
    """The server while its ``with`` block runs. ``asked`` lists what was asked, in order.

    ``fault`` and ``faults`` are switches or their names. ``echo`` is put behind every reply, and
    ``cut`` decides in which writes a stream is sent, where the script's delivery is not to.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        script: Script | None = None,
        *,
        fault: Fault | str | None = None,
        faults: Iterable[Fault | str] = (),
        echo: str = "",
        cut: Cut | None = None,
        port: int = 0,
    ) -> None:
        self.core = Core(script)
        self.break_with(*faults, *((fault,) if fault else ()))
        self.echo = echo
        self.cut = cut
        self.asked: list[Asked] = []
        self.is_stopping = threading.Event()
        #: A dead scheduler behind live HTTP: questions are taken, and nothing comes of them.
        self.is_mute = False
        self.seats = threading.Condition()
        self._server = _Server(self, port)
        self.port: int = self._server.server_address[1]

    @property
    def script(self) -> Script:
        """How the engine is set up; set it to change it while it runs."""
        return self.core.script

    @script.setter
    def script(self, script: Script) -> None:
        self.core.set_script(script)

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://{self.host}:{self.port}"

    @property
    def count(self) -> Callable[[], float] | None:
        """The value behind /metrics, for a server that has this one counter alone."""
        return self.core.count

    @count.setter
    def count(self, count: Callable[[], float] | None) -> None:
        self.core.count = count

    @property
    def health_status(self) -> int:
        """The status of /health."""
        return self.core.health_status

    @health_status.setter
    def health_status(self, status: int) -> None:
        self.core.health_status = status

    def break_with(self, *faults: Fault | str) -> None:
        """Be broken in these ways from now on, and in no others. KeyError for an unknown name."""
        known = discover_faults() if any(isinstance(each, str) for each in faults) else {}
        self.core.break_with(*(known[each] if isinstance(each, str) else each for each in faults))

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
    request_queue_size = 256

    def __init__(self, owner: EngineServer, port: int) -> None:
        self.owner = owner
        super().__init__((owner.host, port), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """One connection. A fault of the wire gets it and may do with it what it likes."""

    protocol_version = "HTTP/1.1"
    # Small writes are to go out as they are made.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Nothing is logged."""

    @property
    def owner(self) -> EngineServer:
        """The server that this belongs to."""
        return self.server.owner

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(method=self.command, path=self.path, headers=headers, body=body)
        self.owner.asked.append(asked)
        if not self.path.startswith(MOVED):
            for fault in self.owner.core.faults:
                if fault.wire:
                    self.close_connection = True
                    fault.wire(self)
                    return
        path = self.path.removeprefix(MOVED)
        self._answer(Asked(method=self.command, path=path, headers=headers, body=body))

    def __getattr__(self, name: str) -> Any:
        """The base class looks for a method of its own for each method of HTTP."""
        if name.startswith("do_"):
            return self._take
        raise AttributeError(name)

    def _answer(self, asked: Asked) -> None:
        core = self.owner.core
        task = core.begin(asked)
        try:
            if self.owner.is_mute and task.path == CHAT:
                self.close_connection = True
                self.owner.is_stopping.wait()
            elif self._wait(core.delay_seconds(task)):
                response = core.prepare(task)
                if response is not None:
                    self._send(task, response)
                elif self._take_seat():
                    self._compute(task)
        except _CLIENT_GONE:
            self.close_connection = True
        finally:
            core.end(task)

    def _compute(self, task: Task) -> None:
        """Compute and send; the seat is given back the moment that nobody waits any more."""
        core = self.owner.core
        unsent = 0.0
        try:
            response = core.compute(task)
            unsent = self._send(task, response)
        except _CLIENT_GONE:
            self.close_connection = True
        finally:
            if unsent and not core.script.timing.is_cancelling:
                self.owner.is_stopping.wait(unsent)
            self._leave_seat()

    def _take_seat(self) -> bool:
        """Wait until one of the seats is free; False where the client went away before."""
        core, seats = self.owner.core, self.owner.seats
        core.counters.add(waiting=1)
        with seats:
            while self._is_full() and not self._is_over():
                seats.wait(_GLANCE_SECONDS)
            is_seated = not self._is_full()
            core.counters.add(waiting=-1, running=int(is_seated))
        return is_seated

    def _is_full(self) -> bool:
        core = self.owner.core
        return core.counters.running >= core.script.limits.parallel_requests

    def _is_over(self) -> bool:
        """Whether nobody waits for an answer any more."""
        is_over = self.is_gone() or self.owner.is_stopping.is_set()
        self.close_connection = self.close_connection or is_over
        return is_over

    def _leave_seat(self) -> None:
        with self.owner.seats:
            self.owner.core.counters.add(running=-1)
            self.owner.seats.notify_all()

    def is_gone(self) -> bool:
        """Whether the client has closed the connection."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return False
            # A TLS connection allows no look at what has come; the one below it does.
            with socket.socket(fileno=os.dup(self.connection.fileno())) as bare:
                return not bare.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _wait(self, seconds: float) -> bool:
        """Wait as long; False as soon as the client is gone or the server stops."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.owner.is_stopping.wait(min(left, _GLANCE_SECONDS)) or self.is_gone():
                self.close_connection = True
                return False
        return True

    def _send(self, task: Task, response: Response) -> float:
        """Send it in its time; answers the seconds that were left when the client went away."""
        response = self._spoil(response)
        if not response.is_streamed:
            seconds = sum(part.after_seconds for part in response.parts)
            if not self._wait(seconds):
                return seconds
            self._send_plain(task, response)
            return 0.0
        return self._send_stream(task, response)

    def _spoil(self, response: Response) -> Response:
        if self.owner.echo:
            response = response.with_body(response.body + self.owner.echo.encode())
        return response

    def _send_plain(self, task: Task, response: Response) -> None:
        content = response.body
        for part in response.parts:
            self.owner.core.add_tokens(task, part.tokens)
        self.send_head(response.status, {**response.headers, "Content-Length": str(len(content))})
        if self.command != "HEAD":
            self.wfile.write(content)
        self.close_connection = self.close_connection or response.is_cut

    def _send_stream(self, task: Task, response: Response) -> float:
        if self.owner.cut:
            parts = [part for part in self.owner.cut(response.body) if part]
            self.send_head(response.status, {**response.headers, "Transfer-Encoding": "chunked"})
            self.write_chunks(parts if response.is_cut else [*parts, b""])
            self.close_connection = self.close_connection or response.is_cut
            return 0.0
        left = sum(part.after_seconds for part in response.parts)
        is_begun = False
        for part in response.parts:
            if part.after_seconds and not self._wait(part.after_seconds):
                return left
            left -= part.after_seconds
            if not is_begun:
                head = {**response.headers, "Transfer-Encoding": "chunked"}
                self.send_head(response.status, head)
                is_begun = True
            if self.is_gone():
                self.close_connection = True
                return left
            self.owner.core.add_tokens(task, part.tokens)
            self.write_chunks([part.data])
        if not is_begun:
            self.send_head(response.status, {**response.headers, "Transfer-Encoding": "chunked"})
        if response.is_cut:
            self.close_connection = True
        else:
            self.write_chunks([b""])
        return 0.0

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        """The status line and the headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def write_chunks(self, parts: Iterable[bytes]) -> None:
        """Chunks of HTTP; an empty one ends the reply."""
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
