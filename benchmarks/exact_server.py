"""A server of exact timing, to find out what a load generator adds to what it measures.

It speaks the OpenAI API on loopback and sends each token at a moment that is known beforehand: the
first so long after the request, each further one so long after the one before, counted from the
request so that no delay adds up. It sleeps until shortly before a moment and spins for the rest.
What it really kept is written down for each request: that is the truth which a tool is judged by.

    python -m benchmarks.exact_server --port 8100 --ttft-ms 100 --itl-ms 10 --log truth.jsonl

It says "listening on PORT" once it can be asked. It uses one thread and the standard library alone.
"""

from __future__ import annotations

import argparse
import errno
import heapq
import json
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import IO

from benchmarks.exact_requests import (
    CONTINUE,
    STREAM_HEAD,
    BadRequest,
    Head,
    Wanted,
    read_wanted,
    render_end,
    render_error,
    render_event,
    render_reply,
    render_whole,
    take_body,
    take_head,
)

MODEL = "exact"

#: A sleeping process is woken up to some tenths of a millisecond late; the kernel's wait is told
#: whole milliseconds, rounded up. The rest is spun away.
SPIN_SECONDS = 0.002

#: Between so many answers it looks for new requests, whose arrival would be noticed late otherwise.
_ANSWERS_IN_A_ROW = 32

#: The truth is written down once nothing was to do for so long.
_QUIET_SECONDS = 0.1

_BACKLOG = 4096
_READ_BYTES = 1 << 18
_STDIN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What the server keeps. ``gap_seconds``: between two events; 0 sends without pause.

    ``tokens``: of every answer, 0 for as many as asked for. ``coalesce``: tokens in one event.
    ``events_per_write``: events that leave together.
    """

    first_seconds: float
    gap_seconds: float
    tokens: int = 0
    coalesce: int = 1
    events_per_write: int = 1


class _Answer:
    """One request and how far it is answered. Moments are seconds of the monotonic clock."""

    __slots__ = (
        "connection", "due", "end", "event", "is_whole", "last_event", "left_events",
        "moments", "received", "tokens", "wanted", "worst_seconds",
    )  # fmt: skip

    def __init__(self, connection: _Connection, wanted: Wanted, timing: Timing, now: float) -> None:
        self.connection = connection
        self.wanted = wanted
        self.received = now
        self.due = now + timing.first_seconds
        self.tokens = timing.tokens or wanted.tokens
        self.left_events = -(-self.tokens // timing.coalesce)
        self.moments: list[float] = []
        self.worst_seconds = 0.0
        self.is_whole = True
        last_tokens = self.tokens - (self.left_events - 1) * timing.coalesce
        self.event = render_event(wanted, MODEL, timing.coalesce)
        self.last_event = render_event(wanted, MODEL, last_tokens)
        self.end = render_end(wanted, MODEL, self.tokens)
        if not wanted.is_streamed:
            self.due += timing.gap_seconds * (self.left_events - 1)
            self.left_events = 1
            self.last_event, self.end = render_whole(wanted, MODEL, self.tokens), b""

    def take(self, events: int) -> bytes:
        """The next events, and the end of the answer with the last one."""
        taken = min(events, self.left_events)
        self.left_events -= taken
        if self.left_events:
            return self.event * taken
        return self.event * (taken - 1) + self.last_event + self.end


class _Connection:
    """One client's connection; its requests are answered one after the other."""

    __slots__ = ("answer", "head", "is_last", "is_open", "received", "socket", "unsent")

    def __init__(self, own: socket.socket) -> None:
        self.socket = own
        self.received = bytearray()
        self.unsent = b""
        self.head: Head | None = None
        self.answer: _Answer | None = None
        self.is_last = False
        self.is_open = True


class ExactServer:
    """Serves until the process is told to end. ``log``: where the truth goes, if anywhere."""

    def __init__(self, port: int, timing: Timing, log: IO[str] | None = None) -> None:
        self._timing = timing
        self._log = log
        self._done: list[_Answer] = []
        self._numbers = count()
        self._connections: dict[int, _Connection] = {}
        #: By the moment they are due; the number keeps equals in their order.
        self._due: list[tuple[float, int, _Answer]] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._listener.settimeout(0)
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._ends_with_stdin = False

    @property
    def port(self) -> int:
        """Where it listens."""
        number: int = self._listener.getsockname()[1]
        return number

    def end_with_stdin(self) -> None:
        """Serve only until the standard input is closed, as it is when the parent dies."""
        self._ends_with_stdin = True
        self._epoll.register(_STDIN, select.EPOLLIN | select.EPOLLHUP)

    def run(self) -> None:
        """Serve; returns once the standard input is closed. Raises what a signal handler raises."""
        try:
            while self._turn():
                pass
        finally:
            self._write_truth()

    def _turn(self) -> bool:
        """Wait, read what came and send what is due. False: it is over."""
        for descriptor, event in self._epoll.poll(self._find_pause()):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor == _STDIN and self._ends_with_stdin:
                return False
            elif connection := self._connections.get(descriptor):
                self._serve(connection, event)
        self._send_due()
        return True

    def _find_pause(self) -> float:
        """Seconds to sleep; none in the last moments before something is due."""
        if self._due:
            left = self._due[0][0] - time.monotonic()
            return left - SPIN_SECONDS if left > SPIN_SECONDS else 0
        if not self._done:
            return -1
        if not self._epoll.poll(_QUIET_SECONDS, 1):
            self._write_truth()
        return 0

    # --- sending ---

    def _send_due(self) -> None:
        for _ in range(_ANSWERS_IN_A_ROW):
            if not self._due or self._due[0][0] > time.monotonic():
                return
            self._continue_answer(heapq.heappop(self._due)[2])

    def _continue_answer(self, answer: _Answer) -> None:
        connection = answer.connection
        if not connection.is_open:
            return
        self._send(connection, answer.take(self._timing.events_per_write))
        if not connection.is_open:
            return
        # Once the kernel has it, a client can have it.
        now = time.monotonic()
        answer.moments.append(now)
        answer.worst_seconds = max(answer.worst_seconds, now - answer.due)
        if not answer.left_events:
            self._finish(answer)
        elif not connection.unsent:
            self._plan_next(answer)

    def _plan_next(self, answer: _Answer) -> None:
        timing = self._timing
        writes = len(answer.moments)
        answer.due = answer.received + timing.first_seconds + writes * timing.gap_seconds
        self._plan(answer)

    def _plan(self, answer: _Answer) -> None:
        # Without pauses the answers take turns, as each is due when the others have had theirs.
        due = answer.due if self._timing.gap_seconds else max(answer.due, time.monotonic())
        heapq.heappush(self._due, (due, next(self._numbers), answer))

    def _finish(self, answer: _Answer) -> None:
        connection = answer.connection
        connection.answer = None
        if self._log is not None:
            self._done.append(answer)
        if connection.is_last and not connection.unsent:
            self._close(connection)
        elif connection.is_open:
            self._read_requests(connection)

    def _send(self, connection: _Connection, content: bytes) -> None:
        """Send what the kernel takes, and the rest once it takes more."""
        if not connection.is_open:
            return
        if connection.unsent:
            connection.unsent += content
            return
        sent = 0
        try:
            sent = connection.socket.send(content)
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)
            return
        if sent < len(content):
            connection.unsent = content[sent:]
            self._epoll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def _send_rest(self, connection: _Connection) -> None:
        rest, connection.unsent = connection.unsent, b""
        self._send(connection, rest)
        if connection.unsent or not connection.is_open:
            return
        self._epoll.modify(connection.socket, select.EPOLLIN)
        if connection.answer is not None and connection.answer.moments:
            self._plan_next(connection.answer)
        elif connection.is_last and connection.answer is None:
            self._close(connection)

    # --- receiving ---

    def _accept(self) -> None:
        while True:
            try:
                own, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Nothing can be accepted while there are no descriptors; others are served on.
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED):
                    return
                raise
            own.settimeout(0)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[own.fileno()] = _Connection(own)
            self._epoll.register(own, select.EPOLLIN)

    def _serve(self, connection: _Connection, event: int) -> None:
        if event & select.EPOLLOUT and connection.unsent:
            self._send_rest(connection)
        if event & ~select.EPOLLOUT and connection.is_open:
            self._receive(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            content = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self._close(connection)
            return
        connection.received += content
        self._read_requests(connection)

    def _read_requests(self, connection: _Connection) -> None:
        """Answer what was received, one request after the other."""
        try:
            while connection.is_open and connection.answer is None and not connection.is_last:
                if not self._read_request(connection):
                    return
        except BadRequest as error:
            # Where its body ends is not known, so nothing further can be read here.
            self._reply(connection, render_error(error), is_last=True)

    def _read_request(self, connection: _Connection) -> bool:
        """Whether a whole request was there. Raises BadRequest."""
        if connection.head is None:
            connection.head = take_head(connection.received)
            if connection.head is None:
                return False
            if connection.head.expects_continue:
                self._send(connection, CONTINUE)
        head = connection.head
        body = take_body(head, connection.received)
        if body is None:
            return False
        connection.head = None
        try:
            self._answer(connection, head, body)
        except BadRequest as error:
            self._reply(connection, render_error(error), is_last=not head.keeps_alive)
        return True

    def _answer(self, connection: _Connection, head: Head, body: bytes) -> None:
        now = time.monotonic()
        if head.path in ("/v1/chat/completions", "/v1/completions"):
            if head.method != "POST":
                raise BadRequest(405, "ask with POST")
            wanted = read_wanted(head.path, body, f"exact-{next(self._numbers)}")
            connection.is_last = not head.keeps_alive
            connection.answer = _Answer(connection, wanted, self._timing, now)
            if wanted.is_streamed:
                self._send(connection, STREAM_HEAD)
            self._plan(connection.answer)
            return
        plain = {"/v1/models": _MODELS, "/health": {"status": "ok"}}.get(head.path)
        if plain is None:
            raise BadRequest(404, f"there is nothing at {head.path[:100]}")
        if head.method != "GET":
            raise BadRequest(405, "ask with GET")
        self._reply(connection, render_reply(plain), is_last=not head.keeps_alive)

    def _reply(self, connection: _Connection, content: bytes, *, is_last: bool) -> None:
        connection.is_last = is_last
        self._send(connection, content)
        if is_last and not connection.unsent:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if not connection.is_open:
            return
        connection.is_open = False
        del self._connections[connection.socket.fileno()]
        connection.socket.close()
        if connection.answer is not None and self._log is not None:
            connection.answer.is_whole = False
            self._done.append(connection.answer)

    # --- the truth ---

    def _write_truth(self) -> None:
        if self._log is not None:
            self._log.writelines(json.dumps(_tell(answer)) + "\n" for answer in self._done)
            self._log.flush()
        self._done.clear()


_MODELS = {
    "object": "list",
    "data": [
        {"id": MODEL, "object": "model", "created": 1, "owned_by": MODEL, "max_model_len": 32768}
    ],
}


def _tell(answer: _Answer) -> dict[str, object]:
    """What was kept of one answer. ``received`` is in seconds of the monotonic clock; the moments
    of a whole answer that was not streamed are one."""
    moments = answer.moments
    gaps = sorted(after - before for before, after in pairwise(moments))
    first, last = (moments[0], moments[-1]) if moments else (None, None)
    lasted = (last or answer.received) - answer.received
    return {
        "received_seconds": answer.received,
        "is_whole": answer.is_whole,
        "is_streamed": answer.wanted.is_streamed,
        "tokens": answer.tokens,
        "ttft_ms": None if first is None else (first - answer.received) * 1e3,
        "e2e_ms": lasted * 1e3,
        "gap_mean_ms": sum(gaps) / len(gaps) * 1e3 if gaps else None,
        "gap_p50_ms": _rank(gaps, 0.5),
        "gap_p99_ms": _rank(gaps, 0.99),
        "max_late_ms": answer.worst_seconds * 1e3,
        "tokens_per_second": answer.tokens / lasted if lasted and answer.is_whole else None,
    }


def _rank(gaps: list[float], share: float) -> float | None:
    """The least value that so large a share does not exceed, in milliseconds."""
    return gaps[max(0, -int(-share * len(gaps) // 1) - 1)] * 1e3 if gaps else None


def main(argv: Iterable[str] | None = None) -> int:
    """Serve until SIGTERM, SIGINT or the end of the standard input."""
    arguments = _parse(argv)
    timing = Timing(
        first_seconds=arguments.ttft_ms / 1e3,
        gap_seconds=arguments.itl_ms / 1e3,
        tokens=arguments.tokens,
        coalesce=arguments.coalesce,
        events_per_write=arguments.events_per_write,
    )
    signal.signal(signal.SIGTERM, _end)
    with (
        Path(arguments.log).open("a", encoding="utf-8") if arguments.log else nullcontext() as log,
        suppress(KeyboardInterrupt),
    ):
        server = ExactServer(arguments.port, timing, log)
        if arguments.end_with_stdin:
            server.end_with_stdin()
        print(f"listening on {server.port}", flush=True)
        server.run()
    return 0


def _end(signum: int, frame: object) -> None:
    raise SystemExit(0)


def _parse(argv: Iterable[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exact_server")
    add = parser.add_argument
    add("--port", type=int, default=0, help="on loopback; 0 takes a free one")
    add("--ttft-ms", type=float, default=100.0, help="from a request to its first token")
    add("--itl-ms", type=float, default=10.0, help="between two events; 0 sends without pause")
    add("--tokens", type=int, default=0, help="of every answer; 0 gives as many as asked for")
    add("--coalesce", type=int, default=1, help="tokens in one event")
    add("--events-per-write", type=int, default=1, help="events that leave together")
    add("--log", help="a file that the truth of each request is appended to, as JSON lines")
    add("--end-with-stdin", action="store_true", help="end once the standard input is closed")
    arguments = parser.parse_args(None if argv is None else list(argv))
    if min(arguments.coalesce, arguments.events_per_write) < 1:
        parser.error("--coalesce and --events-per-write must be at least 1")
    if min(arguments.ttft_ms, arguments.itl_ms, arguments.tokens) < 0:
        parser.error("--ttft-ms, --itl-ms and --tokens must not be negative")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
