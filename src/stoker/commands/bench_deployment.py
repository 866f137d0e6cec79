"""A deployment that a benchmark is about: the process that runs, its launch, its verification.

Called by :mod:`stoker.commands.bench_server`, only where a deployment is meant.
"""

from __future__ import annotations

from stoker.commands.addresses_of import Access, parse_url
from stoker.commands.assemble import require_current
from stoker.commands.bench_url import (
    Server,
    Which,
    format_moment,
    numeric_host,
    target_of,
    verify,
)
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
from stoker.commands.world import World
from stoker.errors import SupervisorError, UsageError
from stoker.model.benchmark import Served
from stoker.model.contract import Request, Subject
from stoker.model.generation import Generation
from stoker.model.launch import ServicePhase
from stoker.ports import Endpoint
from stoker.state.documents import choose_deployment, read_verification


def find_by_name(world: World, which: Which) -> Server:
    """The deployment's server as it runs, not verified. Raises UsageError, HostError."""
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
        ),
        subject=_ask_subject(endpoint, generation),
        endpoint=endpoint,
        target=target_of(place, numeric_host(endpoint.url), access),
        generation=generation,
        state=state,
    )


def verify_deployment(world: World, which: Which, server: Server) -> str:
    """When it was verified: a verification of this very process stands, else it is tried again.
    Raises ContractFailed."""
    name, generation, state = server.served.name, server.generation, server.state
    verification = read_verification(world.host, world.folders, name)
    if verification is not None and state is not None and covers(verification, state):
        return format_moment(verification.at_seconds)
    if generation is not None:
        world = using(world, generation.service.supervisor)
    return verify(world, which, name)


def process_of(world: World, server: Server) -> str:
    """Which process of the deployment runs now; empty where none does or nobody can tell."""
    if server.generation is None:
        return ""
    try:
        world = using(world, server.generation.service.supervisor)
        return world.supervisor.state(server.served.name).process
    except SupervisorError:
        return ""


def _ask_subject(endpoint: Endpoint, generation: Generation) -> Subject:
    promised = promised_subject(generation)
    reply = endpoint.exchange(Request(method="GET", path=MODELS_PATH, timeout_seconds=15.0))
    listing = parse_listing(reply.body) if reply.status == 200 and not reply.error else None
    if listing is None:
        return promised
    told = told_subject(endpoint, listing, promised.published_name)
    subject, _ = combine(promised, told)
    return subject
