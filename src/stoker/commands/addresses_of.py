"""The addresses of a server that somebody names by a URL, and how it is reached there.

Called by `stoker verify URL`. A name is looked up once, under a deadline; all requests go to the
one address that took the first connection.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, urlsplit

from stoker.commands.folders import absolute_path
from stoker.endpoints.http import HttpEndpoint
from stoker.endpoints.names import NameTooSlow, NameUnknown, Resolve, look_up, look_up_in_time
from stoker.errors import EndpointError, HostError, UsageError
from stoker.model.addresses import bare_address, has_login
from stoker.model.contract import Exchange, Key, Request
from stoker.ports import Endpoint, ReadableHost

LOOK_UP_SECONDS = 10.0
#: A name may have very many addresses, of which most are the same machine.
_MOST_ADDRESSES = 4
_PORTS = {"http": 80, "https": 443}
_FORM = "write it as http://ADDRESS:PORT or https://NAME"
#: What people copy along: where clients are pointed to, and the calls below it.
_CALLS = re.compile(r"(/v1)?(/chat/completions|/completions|/models|/responses|/messages)?/*$")
#: A resolver may not know it, and a server on one family of addresses need not be on both.
_LOCAL = {"localhost": ("127.0.0.1", "::1")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server is said to be. ``host``: a name or a numeric address without brackets."""

    scheme: str
    host: str
    port: int
    base_path: str = ""

    @property
    def url(self) -> str:
        """The base address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.base_path}"

    @property
    def is_numeric(self) -> bool:
        """Whether it needs no look-up."""
        return _parse_address(self.host) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What opens the door: the API key, and a file with certificates that count."""

    key: str | None = None
    ca_file: str = ""


def parse_url(url: str) -> Place:
    """The place that a URL names. Raises UsageError; the message never shows a login."""
    shown = bare_address(url)
    if not url.isascii() or not url.isprintable() or re.search(r"[\s\\]", url):
        raise UsageError("the URL holds a character that no URL has", _FORM)
    _refuse_login(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"{shown} is not a URL: {error}", _FORM) from error
    _refuse_parts(parts, shown)
    default = _PORTS[parts.scheme]
    if not host:
        raise UsageError(f"{shown} names no server", _FORM)
    if port == 0:
        raise UsageError("0 is not a port", "a port is a number from 1 to 65535")
    place = Place(
        scheme=parts.scheme,
        host=host.rstrip(".") or host,
        port=port or default,
        base_path=_CALLS.sub("", parts.path).rstrip("/"),
    )
    check_place(place)
    return place


def _refuse_parts(parts: SplitResult, shown: str) -> None:
    if parts.scheme not in _PORTS:
        raise UsageError(f"{shown} is neither http:// nor https://", _FORM)
    if parts.username is not None or parts.password is not None:
        raise _login()
    if parts.query or parts.fragment:
        raise UsageError(
            f"{shown} goes on with a question mark or a number sign", "leave that part out"
        )


def _refuse_login(url: str) -> None:
    """Before anything of the URL is shown: a password may hold whatever ends a server's name."""
    if has_login(url):
        raise _login()


def _login() -> UsageError:
    return UsageError(
        "the URL holds a user or a password, and none is sent that way",
        "leave it out; an API key goes into a file: --key-file FILE",
    )


def check_place(place: Place) -> None:
    """Raise UsageError for a host that is neither an address nor a name."""
    _endpoint(place, place.host if place.is_numeric else "127.0.0.1", Access())


def find_addresses(place: Place, resolve: Resolve = look_up) -> Sequence[str]:
    """The numeric addresses to try, in their order. Raises UsageError or EndpointError."""
    if place.is_numeric:
        return (place.host,)
    if place.host in _LOCAL:
        return _LOCAL[place.host]
    try:
        found = look_up_in_time(place.host, place.port, seconds=LOOK_UP_SECONDS, resolve=resolve)
    except NameUnknown as error:
        raise UsageError(str(error), "see whether it is spelt right") from error
    except NameTooSlow as error:
        raise EndpointError("timeout", str(error), "give the numeric address") from error
    return found[:_MOST_ADDRESSES]


def reach(
    place: Place, access: Access, request: Request, addresses: Sequence[str]
) -> tuple[str, Endpoint, Exchange]:
    """The first address that takes a connection, the server there, and its reply to a request."""
    for address in addresses:
        endpoint = _endpoint(place, address, access)
        reply = endpoint.exchange(request)
        if reply.error_kind != "refused" and "no connection" not in reply.error:
            break
    return address, endpoint, reply


def speaks_tls(place: Place, address: str) -> bool:
    """Whether a port where plain HTTP failed takes TLS. No key is sent."""
    from stoker.endpoints.wire import NO_TLS

    endpoint = _endpoint(replace(place, scheme="https"), address, Access())
    request = Request(method="GET", path="/v1/models", timeout_seconds=5.0, key=Key.NONE)
    reply = endpoint.exchange(request)
    is_distrusted = reply.error_kind == "tls" and NO_TLS not in reply.error
    return bool(reply.status) or is_distrusted


def is_open_road(place: Place, addresses: Sequence[str]) -> bool:
    """Whether requests go unencrypted over networks that are not one's own."""
    found = [_parse_address(address) for address in addresses]
    own = all(address is None or address.is_private for address in found)
    return place.scheme == "http" and not own


def read_key(host: ReadableHost, path: str) -> str:
    """The key in a file, as one line. Raises UsageError; the message never shows the key."""
    try:
        key = host.read_text(absolute_path(path), 1 << 16).strip()
    except HostError as error:
        raise UsageError(f"the key file cannot be read: {error.summary}", error.hint) from error
    if not key:
        raise UsageError(f"the key file {path} is empty", "it holds the API key, in one line")
    return key


def check_ca_file(path: str) -> str:
    """The absolute path of a file with certificates. Raises UsageError for any other."""
    from stoker.endpoints import wire

    absolute = absolute_path(path)
    try:
        wire.check_ca_file(absolute)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{path} holds no certificates that can be read: {error.strerror or error}",
            "it must be a PEM file, which begins with -----BEGIN CERTIFICATE-----",
        ) from error
    return absolute


def _endpoint(place: Place, address: str, access: Access) -> HttpEndpoint:
    return HttpEndpoint(
        address,
        place.port,
        api_key=access.key,
        scheme=place.scheme,
        name="" if place.is_numeric else place.host,
        base_path=place.base_path,
        ca_file=access.ca_file,
    )


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
