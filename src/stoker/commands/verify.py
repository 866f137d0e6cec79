"""`stoker verify [NAME | URL]`: try the promises of a running server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.commands.addresses_of import Access, check_ca_file, parse_url, read_key
from stoker.commands.assemble import require_current
from stoker.commands.discovery import find_server
from stoker.commands.folders import absolute_path
from stoker.commands.openai_client import with_clients
from stoker.commands.output_file import OutputKind, check_output, write_output
from stoker.commands.ready import connect, keep_result, read_own_key
from stoker.commands.recording import (
    Recorder,
    check_target,
    judge_recording,
    read_recording,
    write_recording,
)
from stoker.commands.remedies import with_remedies
from stoker.commands.soaking import DEFAULT_SECONDS, add_soak, keep_history
from stoker.commands.subject import (
    MODELS_PATH,
    combine,
    parse_listing,
    promised_subject,
    told_subject,
)
from stoker.commands.supervising import using
from stoker.commands.trial import (
    QUICK_SECONDS,
    Limits,
    Tried,
    bound_seconds,
    redact_results,
    try_subject,
    with_note,
    with_unwritten,
)
from stoker.commands.world import World
from stoker.contract.run import Selection
from stoker.contract.selection import QUICK, SOAK, discover_checks, select_checks
from stoker.errors import HostError, UsageError
from stoker.model.contract import Feature, Request, Subject
from stoker.model.generation import Generation
from stoker.model.launch import ServicePhase, ServiceState
from stoker.ports import Endpoint
from stoker.report.junit import render_junit
from stoker.state.documents import choose_deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be tried, and how. Empty texts and None stand for what was left out.

    ``target``: a deployment's name or a URL. ``parallel``: how many requests the server answers at
    once, where it does not say so itself. ``seconds``: how long a soak takes.
    """

    target: str | None = None
    level: str = QUICK
    only: Sequence[str] = ()
    seconds: float | None = None
    parallel: int | None = None
    key_file: str = ""
    ca_file: str = ""
    published_name: str = ""
    record: str = ""
    junit: str = ""

    @property
    def soak_seconds(self) -> float:
        """How long its soak takes."""
        return DEFAULT_SECONDS if self.seconds is None else self.seconds


#: What `--junit` writes.
JUNIT = OutputKind(title="JUnit file", mark='<testsuites name="stoker verify"', mode=0o644)


def write_junit(world: World, tried: Tried, path: str) -> Tried:
    """Write the result for build servers; the same trial, which tells where that failed."""
    try:
        write_output(world.host, path, render_junit(tried.verification), JUNIT)
    except (HostError, UsageError) as error:
        return with_unwritten(tried, path, error)
    return tried


def list_promises() -> list[dict[str, object]]:
    """All checks: id, title, level and the features without which the promise is none."""
    return [
        {
            "id": check.id,
            "title": check.title,
            "level": check.level,
            "needs": [str(feature) for feature in check.needs],
        }
        for check in discover_checks()
    ]


def verify_target(world: World, wish: Wish) -> Tried:
    """Verify a deployment by name, or any server by its URL.

    Raises UsageError for a deployment that does not run, a URL that is none, or one where no such
    server is; EndpointError for a server that is there and answers nothing that could be tried.
    """
    select_checks(wish.level, wish.only)
    if wish.seconds is not None and wish.level != SOAK:
        raise UsageError("--for says how long a soak takes", f"write --level {SOAK}")
    replaces = bool(wish.record) and check_target(world.host, wish.record)
    if wish.junit:
        check_output(world.host, wish.junit, JUNIT)
    if wish.junit and wish.record and absolute_path(wish.junit) == absolute_path(wish.record):
        raise UsageError("--junit and --record name the same file", "name two")
    if wish.target is not None and "://" in wish.target:
        tried = _verify_url(world, wish, wish.target)
    else:
        tried = _verify_name(world, wish)
    if not wish.record:
        return tried
    return _record(world, tried, wish.record, replaces=replaces)


def replay(world: World, path: str, *, only: Sequence[str] = (), junit: str = "") -> Tried:
    """What today's checks say of a trial that was recorded. Raises UsageError, also where the file
    ``junit`` cannot be written."""
    if junit:
        check_output(world.host, junit, JUNIT)
    recording = read_recording(world.host, path)
    found = with_remedies(judge_recording(recording, only), recording.subject)
    return Tried(verification=redact_results(found), subject=recording.subject, recorder=Recorder())


# --- a server by its URL ---


def _verify_url(world: World, wish: Wish, url: str) -> Tried:
    place = parse_url(url)
    access = Access(
        key=read_key(world.host, wish.key_file) if wish.key_file else None,
        ca_file=check_ca_file(wish.ca_file) if wish.ca_file else "",
    )
    limits = Limits(world, bound_seconds(wish.level, soak_seconds=wish.soak_seconds))

    def wrap(endpoint: Endpoint, address: str) -> Endpoint:
        with_library = with_clients(
            world,
            endpoint,
            url=endpoint.url,
            key=access.key,
            address=address,
            ca_file=access.ca_file,
        )
        return limits.wrap(endpoint if wish.level == QUICK else with_library)

    found = find_server(place, access, published_name=wish.published_name, wrap=wrap)
    subject = _with_parallel(found.subject, wish)
    tried = try_subject(
        world,
        found.endpoint,
        name=f"the server at {place.host}",
        subject=subject,
        selection=Selection(level=wish.level, only=tuple(wish.only)),
        notes=found.notes,
        limits=limits,
    )
    tried = _soak(world, found.endpoint, tried, wish)
    return with_note(tried, *limits.describe_waits())


def _soak(world: World, endpoint: Endpoint, tried: Tried, wish: Wish) -> Tried:
    """The soak behind the checks of its level, unless single checks were asked for."""
    if wish.level != SOAK or wish.only:
        return tried
    tried = add_soak(world, endpoint, tried, seconds=wish.soak_seconds, parallel=wish.parallel)
    return replace(tried, verification=with_remedies(tried.verification, tried.subject))


def _with_parallel(subject: Subject, wish: Wish) -> Subject:
    return replace(subject, parallel_requests=wish.parallel) if wish.parallel else subject


# --- a deployment ---


def _verify_name(world: World, wish: Wish) -> Tried:
    target = wish.target
    if target is not None and (":" in target or "/" in target):
        raise UsageError(f"{target} is not the name of a deployment", f"write http://{target}")
    for option, value in (("--key-file", wish.key_file), ("--ca-file", wish.ca_file)):
        if value:
            raise UsageError(f"{option} is for a URL", "a deployment has its own key and address")
    if wish.published_name:
        raise UsageError("--published-name is for a URL", "a deployment knows its own name")
    name = choose_deployment(world.host, world.folders, target)
    generation = require_current(world, name)
    world = using(world, generation.service.supervisor)
    state = _require_running(world, name)
    contract = generation.deployment.get("contract") or {}
    seconds = bound_seconds(
        wish.level,
        timeout_seconds=contract.get("timeout_seconds", QUICK_SECONDS),
        soak_seconds=wish.soak_seconds,
    )
    limits = Limits(world, seconds)
    endpoint = limits.wrap(_reach(world, generation, wish))
    subject, notes = _ask_subject(endpoint, generation)
    tried = try_subject(
        world,
        endpoint,
        name=name,
        subject=_with_parallel(subject, wish),
        # What is required gates the start; who asks for more gets all of it.
        selection=Selection(
            level=wish.level,
            only=tuple(wish.only),
            require=contract.get("require") if wish.level == QUICK else None,
        ),
        notes=notes,
        limits=limits,
    )
    tried = _soak(world, endpoint, tried, wish)
    tried = with_note(tried, *limits.describe_waits())
    keep_history(world, tried.verification)
    if tried.was_interrupted or wish.only:
        return tried
    return replace(
        tried, verification=keep_result(world, generation, tried.verification, state=state)
    )


def _require_running(world: World, name: str) -> ServiceState:
    state = world.supervisor.state(name)
    if state.phase is not ServicePhase.RUNNING:
        is_coming = state.phase in (ServicePhase.STARTING, ServicePhase.BACKOFF)
        hint = f"`stoker status {name}` says how far it is" if is_coming else ""
        raise UsageError(
            f"{name} is {state.phase.value}", hint or f"`stoker start {name}` starts it"
        )
    return state


def _reach(world: World, generation: Generation, wish: Wish) -> Endpoint:
    endpoint = connect(world, generation)
    if wish.level == QUICK:
        return endpoint
    return with_clients(world, endpoint, url=endpoint.url, key=read_own_key(world, generation))


def _ask_subject(endpoint: Endpoint, generation: Generation) -> tuple[Subject, tuple[str, ...]]:
    """What the deployment promises, completed by what its server says of itself."""
    promised = promised_subject(generation)
    reply = endpoint.exchange(Request(method="GET", path=MODELS_PATH, timeout_seconds=15.0))
    listing = parse_listing(reply.body) if reply.status == 200 and not reply.error else None
    if listing is None:
        return promised, ()
    told = told_subject(endpoint, listing, promised.published_name)
    features = {key: each for key, each in told.features.items() if key != Feature.KEY}
    return combine(promised, replace(told, features=features))


# --- the recording ---


def _record(world: World, tried: Tried, path: str, *, replaces: bool) -> Tried:
    try:
        write_recording(world.host, path, tried.recording)
    except (HostError, UsageError) as error:
        return with_unwritten(tried, path, error)
    did = "replaced by" if replaces else "holds"
    notes = [f"{path} {did} the recording of this trial"]
    if tried.recorder.left_out:
        notes.append(f"too large to record: {', '.join(tried.recorder.left_out)}")
    return with_note(tried, *notes)
