"""The server that a benchmark is about: where it is, what it is, and how a load reaches it.

Called by :mod:`stoker.commands.bench_server`. A server that breaks its promises is not measured,
since the speed of wrong answers is none.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from stoker.bench.load_values import Target
from stoker.commands.addresses_of import Access, Place, check_ca_file, parse_url, read_key
from stoker.commands.discovery import find_server
from stoker.commands.world import World
from stoker.errors import ContractFailed
from stoker.model.benchmark import Served
from stoker.model.contract import Subject, Verdict
from stoker.model.generation import Generation
from stoker.model.launch import ServiceState
from stoker.ports import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which server is meant. ``target``: a deployment's name or a URL, None for the only one."""

    target: str | None = None
    key_file: str = ""
    ca_file: str = ""
    published_name: str = ""
    is_unverified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that can be put under load. ``generation`` and ``state``: of a deployment."""

    served: Served
    subject: Subject
    endpoint: Endpoint
    target: Target
    notes: tuple[str, ...] = ()
    generation: Generation | None = None
    state: ServiceState | None = None


def find_by_url(world: World, which: Which, url: str) -> Server:
    """The server at a URL, not verified. Raises UsageError or EndpointError."""
    place = parse_url(url)
    access = Access(
        key=read_key(world.host, which.key_file) if which.key_file else None,
        ca_file=check_ca_file(which.ca_file) if which.ca_file else "",
    )
    addresses: list[str] = []

    def wrap(endpoint: Endpoint, address: str) -> Endpoint:
        addresses.append(address)
        return endpoint

    found = find_server(place, access, published_name=which.published_name, wrap=wrap)
    served = Served(
        url=place.url,
        model=found.subject.published_name,
        engine=found.subject.manners.engine,
    )
    address = (addresses[0] if addresses else "") or numeric_host(found.endpoint.url)
    return Server(
        served=served,
        subject=found.subject,
        endpoint=found.endpoint,
        target=target_of(place, address, access),
        notes=found.notes,
    )


def target_of(place: Place, address: str, access: Access) -> Target:
    """What a load is sent to. ``address``: the numeric one."""
    tls = ssl.create_default_context(cafile=access.ca_file or None) if _is_tls(place) else None
    return Target(
        address=address,
        port=place.port,
        authority=urlsplit(place.url).netloc,
        base_path=place.base_path,
        key=access.key or "",
        tls=tls,
        server_name=place.host,
    )


def _is_tls(place: Place) -> bool:
    return place.scheme == "https"


def numeric_host(url: str) -> str:
    """The host of an endpoint's own URL."""
    return urlsplit(url).hostname or ""


def verify(world: World, which: Which, target: str) -> str:
    """When it was verified. Raises ContractFailed where it breaks a promise."""
    from stoker.commands.verify import Wish as VerifyWish
    from stoker.commands.verify import verify_target

    is_url = "://" in target
    tried = verify_target(
        world,
        VerifyWish(
            target=target,
            key_file=which.key_file if is_url else "",
            ca_file=which.ca_file if is_url else "",
            published_name=which.published_name if is_url else "",
        ),
    )
    verification = tried.verification
    if tried.was_interrupted:
        # What had passed by then is no verification.
        raise KeyboardInterrupt
    if verification.cut_short or not verification.has_passed:
        broken = [
            f"{each.check}: expected {each.expected}; found {each.found}"
            for each in verification.results
            if each.verdict in (Verdict.FAILED, Verdict.ERROR)
        ]
        raise ContractFailed(
            f"{verification.name} breaks its contract, so its speed says nothing: {broken[0]}"
            if broken
            else f"{verification.name} could not be verified",
            "mend it first (`stoker verify` shows more), or measure it all the same: --unverified",
        )
    return format_moment(verification.at_seconds or world.clock.now_seconds())


def format_moment(at_seconds: float) -> str:
    """A moment as documents have it."""
    return datetime.fromtimestamp(at_seconds, tz=UTC).isoformat(timespec="seconds")
