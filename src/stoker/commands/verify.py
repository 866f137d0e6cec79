"""`stoker verify [NAME | URL]`: try the promises of a running server."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from urllib.parse import urlsplit

from stoker.commands.assemble import require_current
from stoker.commands.folders import absolute_path
from stoker.commands.ready import connect, try_contract
from stoker.commands.supervising import using
from stoker.commands.world import World
from stoker.contract.run import Selection, verify
from stoker.contract.selection import discover_checks
from stoker.errors import HostError, UsageError
from stoker.model.contract import Request, Subject, Verification
from stoker.model.launch import ServicePhase
from stoker.ports import Endpoint
from stoker.state.documents import choose_deployment


def list_promises() -> list[dict[str, str]]:
    """All checks: id, title and level."""
    return [
        {"id": check.id, "title": check.title, "level": check.level} for check in discover_checks()
    ]


def verify_target(
    world: World, target: str | None, *, level: str, only: Sequence[str], key_file: str | None
) -> Verification:
    """Verify a deployment by name, or any server by its URL.

    Raises UsageError for a deployment that does not run or a URL that is none.
    """
    if target is not None and "://" in target:
        return _verify_url(world, target, level=level, only=only, key_file=key_file)
    if target is not None and ":" in target:
        raise UsageError(f"{target} is not the name of a deployment", f"write http://{target}")
    name = choose_deployment(world.host, world.folders, target)
    generation = require_current(world, name)
    world = using(world, generation.service.supervisor)
    state = world.supervisor.state(name)
    if state.phase is not ServicePhase.RUNNING:
        is_coming = state.phase in (ServicePhase.STARTING, ServicePhase.BACKOFF)
        hint = f"`stoker status {name}` says how far it is" if is_coming else ""
        raise UsageError(
            f"{name} is {state.phase.value}", hint or f"`stoker start {name}` starts it"
        )
    endpoint = connect(world, generation)
    return try_contract(world, generation, endpoint, state=state, level=level, only=only)


def _verify_url(
    world: World, url: str, *, level: str, only: Sequence[str], key_file: str | None
) -> Verification:
    host, port = parse_url(url)
    key = _read_key(world, key_file) if key_file else None
    endpoint = world.connect(host, port, key)
    return verify(
        endpoint,
        name=f"the server at {host}",
        subject=Subject(published_name=_first_published_name(endpoint, url)),
        selection=Selection(level=level, only=tuple(only)),
        clock=world.clock,
        reporter=world.reporter,
    )


def _read_key(world: World, path: str) -> str:
    try:
        return world.host.read_text(absolute_path(path), 1 << 16).strip()
    except HostError as error:
        raise UsageError(f"the key file cannot be read: {error.summary}", error.hint) from error


def parse_url(url: str) -> tuple[str, int]:
    """Host and port of ``http://ADDRESS:PORT``. Raises UsageError for anything else."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError as error:
        raise UsageError(f"{url} is not a URL: {error}") from error
    if parts.scheme != "http" or parts.path.strip("/") not in ("", "v1"):
        raise UsageError(
            f"{url} is not of the form http://ADDRESS:PORT",
            "give the address that the engine itself listens on, without TLS",
        )
    if host == "localhost":
        host = "127.0.0.1"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(f"{host or url} is not a numeric address", "use the address") from None
    return host, port


def _first_published_name(endpoint: Endpoint, url: str) -> str:
    """A foreign server promises whatever name it publishes first."""
    reply = endpoint.exchange(Request(method="GET", path="/v1/models", timeout_seconds=10))
    if reply.error:
        raise UsageError(
            f"{url} cannot be reached: {reply.error}",
            "see whether a server runs and listens there",
        )
    try:
        return str(json.loads(reply.body)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise UsageError(
            f"{url} answers /v1/models with status {reply.status} and no list of models",
            "it may need a key (--key-file), or is no OpenAI-compatible server",
        ) from None
