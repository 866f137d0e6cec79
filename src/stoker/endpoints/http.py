"""The endpoint port over HTTP: one request, one whole reply, as a value.

Commands build it for an engine's address; the contract and the waiting for readiness use it. The
HTTP library is imported with the first exchange, so that the command line stays quick. This
module must never judge a reply, and must never let the key out.
"""

from __future__ import annotations

import base64
import codecs
import ipaddress
import json
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

from stoker.errors import UsageError
from stoker.model.contract import Exchange, Key, Request

if TYPE_CHECKING:
    from stoker.endpoints.wire import Received

REDACTED = "[redacted]"

#: Sent where a server is to refuse a key. It is no secret.
_WRONG_KEY = "sk-stoker-this-key-is-wrong"

_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")

#: Of a shorter key in base64 nothing is taken out: it may be a word.
_FEWEST_BASE64 = 8

#: The library quotes what it could not understand, however long that is.
_ERROR_CHARACTERS = 300


class HttpEndpoint:
    """An engine's HTTP server at a numeric address. It keeps no state between exchanges.

    An unspecified address (0.0.0.0, ::) is where a server listens, not where it is reached: the
    loopback address of the same family stands for it. ``name`` is what the server is called where
    that is not its address: it is told so, and a certificate must be for it. ``base_path`` is put
    before the path of each request. ``ca_file``: see :class:`stoker.endpoints.wire.Call`. Raises
    UsageError for a host that is not numeric, a port that
    is none and a key that no HTTP header can carry.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        api_key: str | None = None,
        scheme: str = "http",
        name: str = "",
        base_path: str = "",
        ca_file: str = "",
    ) -> None:
        self._address = _reachable_host(host)
        self._host = _checked_name(name) or self._address
        self._port = _checked_port(port)
        self._authority = f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"
        self._api_key = _checked_key(api_key)
        self._spellings = tuple(_spellings(self._api_key))
        self._scheme = scheme
        self._base_path = base_path.rstrip("/")
        self._ca_file = ca_file

    @property
    def url(self) -> str:
        """The base address, without a trailing slash."""
        return f"{self._scheme}://{self._authority}{self._base_path}"

    def exchange(self, request: Request) -> Exchange:
        """Send one request and collect the whole reply, as :class:`stoker.ports.Endpoint` says."""
        if request.client:
            error = f"the client {request.client} is not here"
            return Exchange(request=request, error=error, error_kind="client")
        # The library costs the tenth of a second that `stoker --help` does not have.
        from stoker.endpoints.wire import Call, fetch

        call = Call(
            method=request.method,
            scheme=self._scheme,
            ca_file=self._ca_file,
            address=self._address,
            host=self._host,
            port=self._port,
            path=quote(self._base_path + request.path, safe="/?&=%~"),
            headers=self._headers(request),
            content=_content(request),
            timeout_seconds=request.timeout_seconds,
            stop_after_events=request.stop_after_events,
        )
        started_at = time.monotonic()
        received = fetch(call)
        return self._describe(request, received, seconds=time.monotonic() - started_at)

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {
            "Host": self._authority,
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            # A connection of its own cannot be one that the server is just giving up.
            "Connection": "close",
        }
        if request.body is not None or request.text is not None:
            headers["Content-Type"] = "application/json"
        if shown := make_key(self._api_key, request.key):
            headers["Authorization"] = f"Bearer {shown}"
        return headers

    def _describe(self, request: Request, received: Received, *, seconds: float) -> Exchange:
        media_type = received.headers.get("content-type", "").partition(";")[0].strip().lower()
        text, is_utf8 = _decode(received)
        events = _read_events(request, received, media_type)
        return Exchange(
            request=request,
            status=received.status,
            media_type=self._redact(media_type)[:_ERROR_CHARACTERS],
            body=self._redact(text) if events is None else "",
            events=tuple(map(self._redact, events or ())),
            is_utf8=is_utf8,
            seconds=seconds,
            first_seconds=received.first_seconds,
            error=self._redact(received.error)[:_ERROR_CHARACTERS],
            error_kind=received.error_kind,
            retry_after=self._redact(received.headers.get("retry-after", ""))[:_ERROR_CHARACTERS],
        )

    def _redact(self, text: str) -> str:
        for spelling in self._spellings:
            text = text.replace(spelling, REDACTED)
        return text


def make_key(own: str, key: Key) -> str:
    """What is sent as the key, empty for none. What is made of the own key is a secret, too."""
    if key is Key.OWN:
        return own
    if key is Key.NONE:
        return ""
    if own and key is Key.NEAR:
        return f"{own}x"
    # A key without letters has no other case.
    if own and key is Key.OTHER_CASE and own.swapcase() != own:
        return own.swapcase()
    return _WRONG_KEY


def _content(request: Request) -> bytes | None:
    """The bytes of the body. A lone surrogate in a text is sent as no client would: replaced."""
    if request.text is not None:
        return request.text.encode("utf-8", "replace")
    return None if request.body is None else json.dumps(request.body).encode("ascii")


def _reachable_host(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(
            f"{host} is not a numeric address", "write for example 127.0.0.1, ::1 or 0.0.0.0"
        ) from None
    if not address.is_unspecified:
        return str(address)
    return "127.0.0.1" if address.version == 4 else "::1"


def _checked_name(name: str) -> str:
    if name and not _NAME.fullmatch(name):
        raise UsageError(f"{name} is no name that a server can have")
    return name


def _checked_port(port: int) -> int:
    if not 0 < port < 1 << 16:
        raise UsageError(f"{port} is not a port", "a port is a number from 1 to 65535")
    return port


def _checked_key(key: str | None) -> str:
    """The key, empty for none. The message never shows the key."""
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(
            "the API key cannot be sent: it holds a space or a character that is not plain ASCII",
            "the key is one line of letters, digits and signs",
        )
    return key or ""


def _spellings(key: str) -> Iterable[str]:
    """The key as it may stand in a reply: as it is, escaped in JSON (quotes, slashes), for a URL,
    and in base64, also within a longer text. What was made of it is as secret.

    The longest first, since one may stand in another.
    """
    if not key:
        return ()
    keys = (make_key(key, Key.NEAR), key, make_key(key, Key.OTHER_CASE))
    return sorted({spelling for each in keys for spelling in _spell(each)}, key=len, reverse=True)


def _spell(key: str) -> Iterable[str]:
    escaped = json.dumps(key)[1:-1]
    yield from (key, escaped, escaped.replace("/", "\\/"), quote(key, safe=""), quote(key))
    content = key.encode("ascii")
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        alone = encode(content).decode("ascii")
        found = [alone, alone.rstrip("=")]
        for before in range(3):
            # The letters that are the same whatever stands before and behind it.
            padded = encode(b"\0" * before + content).decode("ascii")
            found.append(padded[-(-before * 4 // 3) : (before + len(content)) * 4 // 3])
        yield from (each for each in found if len(each) >= _FEWEST_BASE64)


def _decode(received: Received) -> tuple[str, bool]:
    """The content as text, and whether all of it was UTF-8.

    A reply that was cut off may end within a character; that is not the server's mistake.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8 = True
    try:
        decoder.decode(received.content, final=not received.error)
    except UnicodeDecodeError:
        is_utf8 = False
    return received.content.decode("utf-8", "replace"), is_utf8


def _read_events(request: Request, received: Received, media_type: str) -> tuple[str, ...] | None:
    """The events of a streamed reply, None for a plain one (an error page, for example)."""
    if not request.stream or media_type != "text/event-stream":
        return None
    from stoker.endpoints.events import read_events

    return read_events(received.content)
