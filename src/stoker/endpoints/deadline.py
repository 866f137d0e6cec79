"""A network backend in which one deadline covers a whole exchange.

HTTP clients bound each single read, so a server that sends one byte now and then keeps them for
ever. Here every network operation gets only the time that is left. :mod:`stoker.endpoints.wire`
uses it. It must never retry, and it never extends a deadline.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any

import httpcore2

#: A write blocks while the server does not read; in slices the deadline is looked at in between.
_SLICE_BYTES = 1 << 16


def count_down(ends_at: float) -> Callable[[], float]:
    """A function that answers the seconds left until ``ends_at`` on the monotonic clock.

    It raises httpcore2.TimeoutException instead of answering nothing or less.
    """

    def remaining_seconds() -> float:
        left = ends_at - time.monotonic()
        if left <= 0:
            raise httpcore2.TimeoutException("the deadline has passed")
        return left

    return remaining_seconds


class DeadlineStream(httpcore2.NetworkStream):
    """A connection whose reads and writes all end at the same instant."""

    def __init__(
        self, stream: httpcore2.NetworkStream, remaining_seconds: Callable[[], float]
    ) -> None:
        self._stream = stream
        self._remaining_seconds = remaining_seconds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read within the time that is left; ``timeout`` is not looked at."""
        return self._stream.read(max_bytes, self._remaining_seconds())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write within the time that is left; ``timeout`` is not looked at."""
        for start in range(0, len(buffer), _SLICE_BYTES):
            self._stream.write(buffer[start : start + _SLICE_BYTES], self._remaining_seconds())

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """The same connection with TLS, within the time that is left."""
        left = self._remaining_seconds()
        stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return DeadlineStream(stream, self._remaining_seconds)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """What the library wants to know about the connection."""
        return self._stream.get_extra_info(info)


class DeadlineBackend(httpcore2.NetworkBackend):
    """Makes connections that end, like the making of them, when the time is over.

    All of them go to ``address``, whatever the name would be now.
    """

    def __init__(self, remaining_seconds: Callable[[], float], *, address: str) -> None:
        self._backend = httpcore2.SyncBackend()
        self._remaining_seconds = remaining_seconds
        self._address = address

    def connect_tcp(
        self, host: str, port: int, *options: Any, **named_options: Any
    ) -> httpcore2.NetworkStream:
        """Connect within the time that is left; the name and the options are not looked at.

        The options are a timeout for each operation, a source address and socket options.
        """
        left = self._remaining_seconds()
        stream = self._backend.connect_tcp(self._address, port, left, socket_options=[])
        return DeadlineStream(stream, self._remaining_seconds)
