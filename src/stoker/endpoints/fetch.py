"""One text from a public HTTPS address, for the commands that read notes and model cards.

Called by the command layer. An address is public or it is refused: the names are looked up here and
the connection goes to the very address that was judged, so that no name can point into the user's
own network. There is one deadline for all of it, redirects are few and judged like the first
address, and nothing is sent but the question: no cookie, no credentials, no proxy of the
environment. This module must never write a file and never read more than the limit.
"""

from __future__ import annotations

import ipaddress
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import httpcore2

from stoker.endpoints.deadline import DeadlineBackend, count_down
from stoker.endpoints.names import NameTooSlow, NameUnknown, Resolve, look_up, look_up_in_time
from stoker.errors import EndpointError, UsageError
from stoker.model.addresses import bare_address

LIMIT_BYTES = 1 << 20
TIMEOUT_SECONDS = 30.0
MAX_REDIRECTS = 5
#: What a text may be called by its server; anything below text/ but a web page too.
_TEXTS = frozenset(
    {"application/json", "application/yaml", "application/x-yaml", "application/x-sh", ""}
)
_PAGE = "text/html"
_REDIRECTS = (301, 302, 303, 307, 308)
_HTTPS_PORT = 443
_HEADERS = {
    "Accept": "text/plain, text/markdown, text/*;q=0.9, application/json;q=0.8, application/yaml",
    "Accept-Encoding": "identity",
    "User-Agent": "stoker",
    "Connection": "close",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A text, the address that it came from in the end, and what its server calls it."""

    text: str
    url: str
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How names become addresses, which of these may be gone to, and whom a server must convince.

    Tests hand in others; everybody else uses the default.
    """

    resolve: Resolve
    may_reach: Callable[[str], bool]
    ssl_context: ssl.SSLContext | None = None


def is_public(address: str) -> bool:
    """Whether an address belongs to nobody's own network. An IPv4 one in IPv6 is judged itself."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(parsed, "ipv4_mapped", None) or getattr(parsed, "sixtofour", None)
    return all(each.is_global and not each.is_multicast for each in (parsed, inner or parsed))


DEFAULT_GATE = Gate(resolve=look_up, may_reach=is_public)


def fetch_text(
    url: str, *, timeout_seconds: float = TIMEOUT_SECONDS, gate: Gate = DEFAULT_GATE
) -> Fetched:
    """The text behind an address.

    Raises UsageError for an address that is not asked, EndpointError for one that does not answer
    with a text within the bounds.
    """
    remaining_seconds = count_down(time.monotonic() + timeout_seconds)
    here = url
    for _ in range(MAX_REDIRECTS + 1):
        place = _check_url(here)
        try:
            status, headers, content = _ask(place, remaining_seconds, gate)
        except httpcore2.TimeoutException as error:
            raise EndpointError(
                "timeout", f"{place.shown} gave no whole text within {timeout_seconds:g} s", _SAVE
            ) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError, OSError) as error:
            raise EndpointError(
                "refused", f"{place.shown} cannot be read: {error}"[:300], _SAVE
            ) from error
        if status not in _REDIRECTS:
            return _read_answer(place, status, headers, content)
        here = urljoin(here, headers.get("location", ""))
    raise EndpointError(
        "protocol", f"{bare_address(url)} leads on more than {MAX_REDIRECTS} times", _SAVE
    )


_SAVE = "fetch it yourself, and give the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An address, taken apart. ``shown`` is without what follows a question mark."""

    host: str
    port: int
    target: str
    shown: str


def _check_url(url: str) -> _Place:
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError("the address holds characters that no address has")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _HTTPS_PORT
    except ValueError as error:
        raise UsageError(f"this is no address: {error}") from error
    if parts.scheme != "https":
        raise UsageError(f"only https:// addresses are read, not {parts.scheme}://", _SAVE)
    if parts.username is not None or parts.password is not None:
        raise UsageError("the address holds a user or a password, and none is ever sent", _SAVE)
    if not host:
        raise UsageError("the address names no server")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=?~-._')}" if parts.query else ""
    return _Place(
        host=host, port=port, target=f"{path}{query}", shown=f"https://{host}{parts.path}"
    )


def _ask(
    place: _Place, remaining_seconds: Callable[[], float], gate: Gate
) -> tuple[int, dict[str, str], bytes]:
    """One request and the whole reply."""
    address = _choose_address(place, remaining_seconds, gate)
    context = gate.ssl_context or httpcore2.default_ssl_context()
    backend = DeadlineBackend(remaining_seconds, address=address)
    authority = place.host if place.port == _HTTPS_PORT else f"{place.host}:{place.port}"
    with (
        httpcore2.ConnectionPool(ssl_context=context, network_backend=backend) as pool,
        pool.stream(
            "GET",
            httpcore2.URL(scheme="https", host=place.host, port=place.port, target=place.target),
            headers=[("Host", authority), *_HEADERS.items()],
        ) as response,
    ):
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        if response.status != 200:
            return response.status, headers, b""
        _refuse_type(place, headers)
        return response.status, headers, _collect(response, place, remaining_seconds)


def _collect(
    response: httpcore2.Response, place: _Place, remaining_seconds: Callable[[], float]
) -> bytes:
    """The whole content within the limit. Raises EndpointError beyond it."""
    content = bytearray()
    for chunk in response.iter_stream():
        remaining_seconds()  # many small chunks of one read take time too
        content += chunk
        if len(content) > LIMIT_BYTES:
            raise EndpointError(
                "protocol", f"{place.shown} is larger than {LIMIT_BYTES >> 20} MiB", _SAVE
            )
    return bytes(content)


def _choose_address(place: _Place, remaining_seconds: Callable[[], float], gate: Gate) -> str:
    """The address to go to. All that a name has must be public, else none is."""
    addresses = _resolve_in_time(place, remaining_seconds(), gate)
    inner = [address for address in addresses if not gate.may_reach(address)]
    if inner:
        raise UsageError(
            f"{place.host} is {inner[0]}, which is no public address",
            "what lies in your own network is not read from an address; " + _SAVE,
        )
    return addresses[0]


def _resolve_in_time(place: _Place, seconds: float, gate: Gate) -> Sequence[str]:
    try:
        return look_up_in_time(place.host, place.port, seconds=seconds, resolve=gate.resolve)
    except NameTooSlow as error:
        raise httpcore2.ConnectTimeout(str(error)) from error
    except NameUnknown as error:
        raise httpcore2.ConnectError(str(error)) from error


def _refuse_type(place: _Place, headers: Mapping[str, str]) -> None:
    packing = headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("", "identity"):
        raise EndpointError("protocol", f"{place.shown} is packed ({packing})", _SAVE)
    kind = _media_type(headers)
    if kind == _PAGE:
        raise EndpointError(
            "protocol",
            f"{place.shown} is a web page, not a text",
            "give the address of the raw text; " + _SAVE,
        )
    if kind not in _TEXTS and not kind.startswith("text/"):
        raise EndpointError("protocol", f"{place.shown} is {kind}, not a text"[:300], _SAVE)


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _read_answer(place: _Place, status: int, headers: Mapping[str, str], content: bytes) -> Fetched:
    if status != 200:
        raise EndpointError("protocol", f"{place.shown} answers with status {status}", _SAVE)
    if b"\0" in content:
        raise EndpointError("protocol", f"{place.shown} is no text", _SAVE)
    text = content.decode("utf-8", "replace")
    return Fetched(text=text, url=place.shown, media_type=_media_type(headers))
