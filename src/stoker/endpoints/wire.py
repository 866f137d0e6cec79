"""One HTTP request on a connection of its own, under one deadline and one size limit.

:mod:`stoker.endpoints.http` calls it and turns the bytes into an exchange. The library below
(httpcore2, the transport of httpx2) has by design what an engine's operator wants: it follows no
redirect, reads no proxy from the environment, keeps no cookie and unpacks nothing. This module
must never retry, never read more than the limit and never raise for what a server does.
"""

from __future__ import annotations

import ast
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import httpcore2

from stoker.endpoints.deadline import DeadlineBackend, count_down
from stoker.endpoints.limited import PACKED, TOO_LARGE
from stoker.model.visible import visible

LIMIT_BYTES = 8 << 20

#: How OpenSSL names an answer that is no TLS record.
_NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"}
)
#: What is said of such a port.
NO_TLS = "does not speak TLS"

#: The blank line that ends an event of a stream.
_EVENT_END = re.compile(rb"\r?\n\r?\n")

#: Of an end that may still come, so many bytes may be there.
_END_BYTES = 3

#: How the library quotes a line that it could not read.
_ILLEGAL = re.compile(r"illegal (?P<what>[a-z ]+): bytearray\((?P<bytes>b(?P<q>['\"]).*(?P=q))\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to send. ``path`` is ASCII.

    The connection goes to the numeric ``address``; ``host``, without brackets, is what the server
    is called and what its certificate must be for.
    ``stop_after_events``: close the connection once so many events have come, 0 for never.
    ``ca_file`` holds the certificates that the server's must rest on, PEM; the system's if empty.
    """

    method: str
    scheme: str = "http"
    ca_file: str = ""
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
        context = _trust(call.ca_file) if call.scheme == "https" else None
        with (
            httpcore2.ConnectionPool(ssl_context=context, network_backend=backend) as pool,
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
    except httpcore2.ConnectTimeout:
        what = "TLS connection" if call.scheme == "https" else "connection"
        error = f"no {what} to {_place(call)} within {call.timeout_seconds:g} s"
        error_kind = "timeout"
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


@cache
def _trust(ca_file: str) -> ssl.SSLContext:
    """Whose certificates count. Raises OSError for a file that holds none."""
    if not ca_file:
        return httpcore2.default_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=ca_file)
    return context


def check_ca_file(path: str) -> None:
    """Raises OSError where a file cannot be read or holds no certificate."""
    _trust(path)


def _describe(call: Call, failure: Exception) -> tuple[str, str]:
    """What ended a call, as a sentence and its kind. The library hides TLS errors in its own."""
    place = _place(call)
    causes = _causes(failure)
    flaw = next((each for each in causes if isinstance(each, ssl.SSLError)), None)
    if flaw is not None:
        return _describe_tls(place, flaw), "tls"
    if isinstance(failure, httpcore2.ConnectError | OSError):
        return f"no connection to {place}: {_reason(causes)}", "refused"
    if any(isinstance(each, ConnectionResetError | BrokenPipeError) for each in causes):
        return f"the reply broke off: {place} reset the connection", "protocol"
    return f"the reply broke off or was not HTTP: {_read_words(str(failure))}", "protocol"


def _read_words(said: str) -> str:
    """What the library says, without the types of its language."""
    found = _ILLEGAL.fullmatch(said)
    if found is None:
        return said
    line = ast.literal_eval(found["bytes"]).decode("latin-1")
    return f"a {found['what']} that is none: {visible(line)}"


def _place(call: Call) -> str:
    return f"port {call.port} of {call.host}"


def _causes(failure: BaseException) -> list[BaseException]:
    """The failure and what it was raised from, the nearest first."""
    found: list[BaseException] = []
    cause: BaseException | None = failure
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found


def _reason(causes: Sequence[BaseException]) -> str:
    """What the operating system says, without its number."""
    words = (each.strerror for each in causes if isinstance(each, OSError) and each.strerror)
    return next(words, str(causes[0]))


def _describe_tls(place: str, flaw: ssl.SSLError) -> str:
    if isinstance(flaw, ssl.SSLCertVerificationError):
        return f"the certificate of {place} is not trusted: {flaw.verify_message}"
    if flaw.reason in _NOT_TLS:
        return f"{place} {NO_TLS}"
    said = (flaw.reason or str(flaw)).lower().replace("_", " ")
    return f"no TLS connection to {place}: {said}"


def _collect(
    response: httpcore2.Response,
    collected: _Collected,
    remaining_seconds: Callable[[], float],
    *,
    stop_after_events: int,
) -> str:
    """Fill ``collected``, which the caller keeps when this raises; answers what is wrong, if so."""
    events = searched = 0
    for chunk in response.iter_stream():
        remaining_seconds()  # many small chunks of one read take time too
        if not collected.content:
            collected.first_at = time.monotonic()
        collected.content += chunk
        if len(collected.content) > LIMIT_BYTES:
            return f"{TOO_LARGE} {LIMIT_BYTES >> 20} MiB"
        if stop_after_events:
            # Only what is new is searched: many small chunks would take the square of their time.
            for end in _EVENT_END.finditer(collected.content, searched):
                events, searched = events + 1, end.end()
            if events >= stop_after_events:
                break
            searched = max(searched, len(collected.content) - _END_BYTES)
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
    return f"{PACKED} ({packing}) although only plain replies were asked for"
