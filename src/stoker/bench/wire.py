"""One HTTP/1.1 connection to a server under load, with the moment of every piece that comes.

:mod:`stoker.bench.load` opens as many as it needs. The clients of the field reach neither the rate
nor the moments that are wanted here (docs/results.md, "Load generators"), so this is asyncio's
transport with the parser that uvicorn uses, and nothing between. Pieces are kept as they come and
are read after the answer's end. It sends one request at a time and must never retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

import httptools

#: One read takes at most this much; an event of one token is below 1 kB.
_BUFFER_BYTES = 1 << 16
#: An answer may be as large as this; whatever sends more is no model server.
LIMIT_BYTES = 1 << 26

#: Statuses below only say that an answer will come.
_FIRST_FINAL = 200
#: What is kept of an answer's head, besides its status.
_KEPT_HEADERS = (b"content-type", b"retry-after")
#: What says where a body ends; a body without any of these ends with the connection.
_LENGTHS = (b"content-length", b"transfer-encoding")

#: (the wire) once an answer has ended or failed
Ended = Callable[["Wire"], None]


class Wire(asyncio.BufferedProtocol):
    """A connection. While ``is_busy`` an answer is awaited; ``error`` says why none came whole.

    ``pieces``: (moment, bytes of the body). ``status``: 0 until the head of the answer has come.
    ``headers``: the few that matter here, by their names in small letters. ``can_go_on``: whether
    another request may be sent.
    """

    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.error = ""
        self.is_busy = False
        self.is_open = False
        self.sent_at = 0.0
        self.ended_at = 0.0
        self.answers = 0
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._ended: Ended | None = None
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._moment = 0.0
        self._bytes = 0
        self._has_head = self._has_length = False
        self._is_last = False
        self._is_complete = False

    # --- asking ---

    def ask(self, request: bytes, ended: Ended) -> None:
        """Send a whole request; ``ended`` is called once, never from within this call."""
        self.pieces, self.headers = [], {}
        self.status, self.error, self._bytes = 0, "", 0
        self._has_head = self._has_length = False
        self.is_busy, self._is_complete = True, False
        self._ended = ended
        self._parser = httptools.HttpResponseParser(self)
        self.sent_at = perf_counter()
        if self._transport is None or not self.is_open:
            asyncio.get_running_loop().call_soon(self._end, "the connection was closed")
            return
        self._transport.write(request)

    @property
    def can_go_on(self) -> bool:
        """Whether the connection is open and the server wants to keep it."""
        return self.is_open and not self._is_last

    @property
    def was_dropped(self) -> bool:
        """Whether the server closed a connection that had served before, without any answer: it
        had given it up before it knew of this request."""
        return bool(self.error) and not self.status and self.answers > 0 and not self.is_open

    def give_up(self, why: str) -> None:
        """End a request that takes too long, and its connection."""
        if self.is_busy:
            self.error = why
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:
        """One buffer for all reads, since a new one for each costs more than the read."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """A piece has come."""
        self._moment = perf_counter()
        if self._parser is None:
            self.close()  # nobody asked
            return
        try:
            self._parser.feed_data(self._view[:nbytes])
        except httptools.HttpParserError as error:
            self._is_last = True
            if not self._is_complete:  # what comes behind a whole answer is nobody's
                self.give_up(f"the server broke HTTP: {error}")
                return
        except httptools.HttpParserUpgrade:
            self.give_up("the server wants to go on in another protocol than HTTP")
            return
        if self._is_complete:
            self._end("")

    def eof_received(self) -> bool:
        """The server closed its side; what has no length ends with it."""
        if self.is_busy and self._has_head and not self._has_length and not self.error:
            self._is_last = True
            self._end("")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.is_open = False
        if not self.is_busy:
            return
        why = self.error or (f"the connection broke: {exc}" if exc else "")
        self._end(why or "the server closed the connection in the middle")

    # --- the parser's side ---

    def on_status(self, status: bytes) -> None:
        """The head begins."""
        if self._parser is not None and not self._is_complete:
            self.status = self._parser.get_status_code()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        key = name.lower()
        if key in _LENGTHS:
            self._has_length = True
        elif key in _KEPT_HEADERS:
            self.headers[key] = value

    def on_headers_complete(self) -> None:
        """The head is whole; one that only promises an answer is none."""
        self._has_head = self.status >= _FIRST_FINAL

    def on_body(self, body: bytes) -> None:
        """A part of the body, without its framing."""
        if self._is_complete:
            self._is_last = True
            return
        self._bytes += len(body)
        if self._bytes > LIMIT_BYTES:
            self.give_up(f"the answer is larger than {LIMIT_BYTES >> 20} MiB")
            return
        self.pieces.append((self._moment, body))

    def on_message_complete(self) -> None:
        """The answer is whole, unless it only said that one will come."""
        if self._parser is not None and self.status >= _FIRST_FINAL and not self._is_complete:
            self._is_complete = True
            self._is_last = not self._parser.should_keep_alive()

    def _end(self, error: str) -> None:
        if not self.is_busy:
            return
        self.is_busy, self._parser = False, None
        self.error = self.error or error
        self.ended_at = perf_counter()
        self.answers += not self.error
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self)
