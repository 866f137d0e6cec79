"""One HTTP request on a connection of its own, under one deadline and one size limit.

:mod:`stoker.endpoints.http` calls it and turns the bytes into an exchange. The library below
(httpcore2, the transport of httpx2) has by design what an engine's operator wants: it follows no
redirect, reads no proxy from the environment, keeps no cookie and unpacks nothing. This module
must never retry, never read more than the limit and never raise for what a server does.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpcore2

from stoker.endpoints.deadline import DeadlineBackend, count_down

LIMIT_BYTES = 8 << 20

#: The blank line that ends an event of a stream.
_EVENT_END = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to send. ``path`` is ASCII.

    The connection goes to the numeric ``address``; ``host``, without brackets, is what the server
    is called and what its certificate must be for.
    ``stop_after_events``: close the connection once so many events have come, 0 for never.
    """

    method: str
    scheme: str = "http"
    address: str
    host: str
    port: int
    path: str
    headers: Mapping[str, str]
    content: bytes | None
    timeout_seconds: float
    stop_after_events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What came back, at most LIMIT_BYTES of it. ``headers`` have lower-case names.

    ``first_seconds``: from the beginning until the first byte of content, 0 where none came.

    ``error`` and ``error_kind`` are as in :class:`stoker.model.contract.Exchange`; with an error
    the rest holds what came before it.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    first_seconds: float = 0.0
    error: str = ""
    error_kind: str = ""


def fetch(call: Call) -> Received:
    """Send the call and collect the whole reply; every ending is an answer, none an exception."""
    began = time.monotonic()
    remaining_seconds = count_down(began + call.timeout_seconds)
    status, headers, collected = 0, dict[str, str](), _Collected()
    error, error_kind = "", ""
    backend = DeadlineBackend(remaining_seconds, address=call.address)
    try:
        with (
            httpcore2.ConnectionPool(network_backend=backend) as pool,
            pool.stream(
                call.method,
                httpcore2.URL(scheme=call.scheme, host=call.host, port=call.port, target=call.path),
                headers=list(call.headers.items()),
                content=call.content,
            ) as response,
        ):
            status, headers = response.status, _read_headers(response)
            error = _find_packing(headers) or _collect(
                response, collected, remaining_seconds, stop_after_events=call.stop_after_events
            )
            error_kind = "protocol" if error else ""
    except httpcore2.TimeoutException:
        error = f"no whole reply within {call.timeout_seconds:g} s"
        error_kind = "timeout"
    except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError, OSError) as failure:
        error, error_kind = _describe(call, failure)
    first = collected.first_at - began if collected.content else 0.0
    return Received(
        status=status,
        headers=headers,
        content=bytes(collected.content[:LIMIT_BYTES]),
        first_seconds=first,
        error=error,
        error_kind=error_kind,
    )


@dataclass(slots=True)
class _Collected:
    """The content so far, which stays when reading it raises."""

    content: bytearray = field(default_factory=bytearray)
    first_at: float = 0.0


def _describe(call: Call, failure: Exception) -> tuple[str, str]:
    """What ended a call, as a sentence and its kind. The library hides TLS errors in its own."""
    causes = [failure, failure.__cause__, failure.__context__]
    flaw = next((each for each in causes if isinstance(each, ssl.SSLError)), None)
    if flaw is not None or (call.scheme == "https" and "[SSL" in str(failure)):
        said = getattr(flaw, "verify_message", "") or getattr(flaw, "reason", "") or failure
        return f"no trusted TLS connection to port {call.port} of {call.host}: {said}", "tls"
    if isinstance(failure, httpcore2.ConnectError | OSError):
        return f"no connection to port {call.port} of {call.host}: {failure}", "refused"
    return f"the reply broke off or was not HTTP: {failure}", "protocol"


def _collect(
    response: httpcore2.Response,
    collected: _Collected,
    remaining_seconds: Callable[[], float],
    *,
    stop_after_events: int,
) -> str:
    """Fill ``collected``, which the caller keeps when this raises; answers what is wrong, if so."""
    for chunk in response.iter_stream():
        remaining_seconds()  # many small chunks of one read take time too
        if not collected.content:
            collected.first_at = time.monotonic()
        collected.content += chunk
        if len(collected.content) > LIMIT_BYTES:
            return f"the reply is larger than {LIMIT_BYTES >> 20} MiB"
        if stop_after_events and len(_EVENT_END.findall(collected.content)) >= stop_after_events:
            break
    return ""


def _read_headers(response: httpcore2.Response) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
    }


def _find_packing(headers: Mapping[str, str]) -> str:
    """Why the content cannot be read as it is: a small packed reply can unpack to anything."""
    packing = headers.get("content-encoding", "identity").strip().lower()
    if packing in ("", "identity"):
        return ""
    return f"the reply is packed ({packing}) although only plain replies were asked for"
