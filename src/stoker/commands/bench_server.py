"""The server that a benchmark is about: where it is, what it is, and whether it may be believed.

Called by :mod:`stoker.commands.bench`. A server that breaks its promises is not measured, since
the speed of wrong answers is none. What is measured is named by a digest of facts and launch, so
that it can be told later whether what runs is what was measured.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from stoker.bench.load_values import Target
from stoker.commands.addresses_of import Access, Place, check_ca_file, parse_url, read_key
from stoker.commands.assemble import require_current
from stoker.commands.discovery import find_server
from stoker.commands.measured_digest import measured_digest, plain_settings
from stoker.commands.ready import connect, read_own_key
from stoker.commands.status import covers
from stoker.commands.subject import (
    MODELS_PATH,
    combine,
    parse_listing,
    promised_subject,
    told_subject,
)
from stoker.commands.supervising import using
from stoker.commands.verify import Wish as VerifyWish
from stoker.commands.verify import verify_target
from stoker.commands.world import World
from stoker.errors import ContractFailed, UsageError
from stoker.model.benchmark import Served
from stoker.model.contract import Request, Subject, Verdict
from stoker.model.generation import Generation
from stoker.model.launch import ServicePhase, ServiceState
from stoker.ports import Endpoint
from stoker.state.documents import choose_deployment, read_verification


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


def find_bench_server(world: World, which: Which) -> Server:
    """The server, verified unless the wish says otherwise.

    Raises UsageError where there is none, ContractFailed where it breaks a promise.
    """
    if which.target is not None and "://" in which.target:
        return _find_by_url(world, which, which.target)
    return _find_by_name(world, which)


# --- by its URL ---


def _find_by_url(world: World, which: Which, url: str) -> Server:
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
    verified = "" if which.is_unverified else _verify(world, which, place.url)
    served = Served(
        url=place.url,
        model=found.subject.published_name,
        engine=found.subject.manners.engine,
        verified=verified,
    )
    address = (addresses[0] if addresses else "") or _numeric(found.endpoint.url)
    return Server(
        served=served,
        subject=found.subject,
        endpoint=found.endpoint,
        target=_target(place, address, access),
        notes=found.notes,
    )


def _target(place: Place, address: str, access: Access) -> Target:
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


def _numeric(url: str) -> str:
    return urlsplit(url).hostname or ""


def _verify(world: World, which: Which, target: str) -> str:
    """When it was verified. Raises ContractFailed where it breaks a promise."""
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
    if not verification.has_passed:
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
    return _moment(world)


def _moment(world: World) -> str:
    from datetime import UTC, datetime

    now = datetime.fromtimestamp(world.clock.now_seconds(), tz=UTC)
    return now.isoformat(timespec="seconds")


# --- a deployment ---


def _find_by_name(world: World, which: Which) -> Server:
    for option, value in (
        ("--key-file", which.key_file),
        ("--ca-file", which.ca_file),
        ("--published-name", which.published_name),
    ):
        if value:
            raise UsageError(f"{option} is for a URL", "a deployment knows its own")
    if which.target is not None and (":" in which.target or "/" in which.target):
        raise UsageError(
            f"{which.target} is not the name of a deployment", f"write http://{which.target}"
        )
    name = choose_deployment(world.host, world.folders, which.target)
    generation = require_current(world, name)
    world = using(world, generation.service.supervisor)
    state = world.supervisor.state(name)
    if state.phase is not ServicePhase.RUNNING:
        raise UsageError(f"{name} is {state.phase.value}", f"`stoker start {name}` starts it")
    endpoint = connect(world, generation)
    verified = "" if which.is_unverified else _verified(world, which, name, state)
    place = parse_url(endpoint.url)
    access = Access(key=read_own_key(world, generation))
    return Server(
        served=Served(
            url=place.url,
            model=generation.launch.published_name,
            name=name,
            engine=generation.launch.engine,
            release=generation.launch.engine_build,
            digest=measured_digest(world, generation),
            settings=plain_settings(generation.launch.settings),
            verified=verified,
        ),
        subject=_ask_subject(endpoint, generation),
        endpoint=endpoint,
        target=_target(place, _numeric(endpoint.url), access),
        generation=generation,
        state=state,
    )


def _verified(world: World, which: Which, name: str, state: ServiceState) -> str:
    """A verification of this very process stands; else it is tried again."""
    if covers(read_verification(world.host, world.folders, name), state):
        return _moment(world)
    return _verify(world, which, name)


def _ask_subject(endpoint: Endpoint, generation: Generation) -> Subject:
    promised = promised_subject(generation)
    reply = endpoint.exchange(Request(method="GET", path=MODELS_PATH, timeout_seconds=15.0))
    listing = parse_listing(reply.body) if reply.status == 200 and not reply.error else None
    if listing is None:
        return promised
    told = told_subject(endpoint, listing, promised.published_name)
    subject, _ = combine(promised, told)
    return subject
