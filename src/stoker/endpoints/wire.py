"""One HTTP request on a connection of its own, under one deadline and one size limit.

:mod:`stoker.endpoints.http` calls it and turns the bytes into an exchange. The library below
(httpcore2, the transport of httpx2) has by design what an engine's operator wants: it follows no
redirect, reads no proxy from the environment, keeps no cookie and unpacks nothing. This module
must never retry, never read more than the limit and never raise for what a server does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpcore2

from stoker.endpoints.deadline import DeadlineBackend, count_down

LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to send. ``host`` is numeric and without brackets; ``path`` is ASCII."""

    method: str
    host: str
    port: int
    path: str
    headers: Mapping[str, str]
    content: bytes | None
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What came back, at most LIMIT_BYTES of it. ``headers`` have lower-case names.

    ``error`` and ``error_kind`` are as in :class:`stoker.model.contract.Exchange`; with an error
    the rest holds what came before it.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    error: str = ""
    error_kind: str = ""


def fetch(call: Call) -> Received:
    """Send the call and collect the whole reply; every ending is an answer, none an exception."""
    remaining_seconds = count_down(time.monotonic() + call.timeout_seconds)
    status, headers, content = 0, dict[str, str](), bytearray()
    error, error_kind = "", ""
    try:
        with (
            httpcore2.ConnectionPool(network_backend=DeadlineBackend(remaining_seconds)) as pool,
            pool.stream(
                call.method,
                httpcore2.URL(scheme="http", host=call.host, port=call.port, target=call.path),
                headers=list(call.headers.items()),
                content=call.content,
            ) as response,
        ):
            status, headers = response.status, _read_headers(response)
            error = _find_packing(headers) or _collect(response, content, remaining_seconds)
            error_kind = "protocol" if error else ""
    except httpcore2.TimeoutException:
        error = f"no whole reply within {call.timeout_seconds:g} s"
        error_kind = "timeout"
    except httpcore2.ConnectError as failure:
        error = f"no connection to port {call.port} of {call.host}: {failure}"
        error_kind = "refused"
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as failure:
        error = f"the reply broke off or was not HTTP: {failure}"
        error_kind = "protocol"
    return Received(
        status=status,
        headers=headers,
        content=bytes(content[:LIMIT_BYTES]),
        error=error,
        error_kind=error_kind,
    )


def _collect(
    response: httpcore2.Response, content: bytearray, remaining_seconds: Callable[[], float]
) -> str:
    """Fill ``content``, which the caller keeps when this raises; answers what is wrong, if so."""
    for chunk in response.iter_stream():
        remaining_seconds()  # many small chunks of one read take time too
        content += chunk
        if len(content) > LIMIT_BYTES:
            return f"the reply is larger than {LIMIT_BYTES >> 20} MiB"
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
