"""`stoker status`: what is in force, what runs, and whether it is verified. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.apply.journal import unfinished_runs
from stoker.apply.lock import read_holder
from stoker.commands.drifting import find_drift
from stoker.commands.guarding import is_verified_by, read_guard, read_last_words
from stoker.commands.measured import describe_unmeasured
from stoker.commands.supervising import using
from stoker.commands.world import World
from stoker.guard.words import GuardStatus
from stoker.model.contract import Verification
from stoker.model.generation import Generation
from stoker.model.launch import Drift, DriftKind, ServicePhase, ServiceState
from stoker.model.layout import lock_path
from stoker.model.status import DeploymentStatus, Status
from stoker.ports import Supervisor
from stoker.state.documents import (
    choose_deployment,
    list_deployments,
    read_current,
    read_verification,
)
from stoker.state.folder import check_state_folder

#: Drift that `stoker start` does not put right.
_LEFT_ALONE = (DriftKind.ADDED, DriftKind.PENDING)
#: How a phase of the supervisor reads when it is shown alone.
_WORDS = {
    ServicePhase.ABSENT: "absent",
    ServicePhase.BACKOFF: "restarting",
    ServicePhase.UNKNOWN: "unknown",
}

#: Phases in which nothing of a service runs although it should.
_ENDED = (ServicePhase.BACKOFF, ServicePhase.FAILED)
#: Phases in which a service's guard knows better how it stands than its supervisor.
_GUARDED = (ServicePhase.STARTING, ServicePhase.RUNNING, ServicePhase.STOPPING)


def read_status(world: World, name: str | None = None) -> Status:
    """The status of all deployments, or of one. Raises StateError or UsageError."""
    is_there = check_state_folder(world.host, world.folders, me=world.me)
    if name is not None:
        shown: tuple[str, ...] = (choose_deployment(world.host, world.folders, name),)
    else:
        shown = list_deployments(world.host, world.folders) if is_there else ()
    busy = read_holder(lock_path(world.folders))
    return Status(
        deployments=tuple(filter(None, (_read_one(world, each) for each in shown))),
        busy=busy,
        # While somebody works, the newest run is not over yet; that is no interruption.
        interrupted=unfinished_runs(world.host, world.folders) if is_there and not busy else (),
    )


def _read_one(world: World, name: str) -> DeploymentStatus | None:
    generation = read_current(world.host, world.folders, name)
    if generation is None:
        return None
    supervisor = using(world, generation.service.supervisor).supervisor
    service = _with_orphans(supervisor, supervisor.state(name))
    guard = read_guard(world, service)
    verification = read_verification(world.host, world.folders, name)
    is_running = service.phase is ServicePhase.RUNNING
    is_verified = (is_running and is_verified_by(guard)) or covers(verification, service)
    launch = generation.launch
    return DeploymentStatus(
        name=name,
        url=world.connect(launch.host, launch.port, None).url,
        model=launch.published_name,
        phase=_phase(service, guard, is_verified=is_verified),
        verified=is_verified,
        generation=generation.number,
        weights=_reference(generation),
        engine=f"{launch.engine} {launch.engine_build}",
        pid=service.pid,
        detail=_detail(world, generation, service, guard),
        drift=_drift(generation, service, find_drift(world, name)),
        unmeasured=describe_unmeasured(world, generation) if is_running else "",
    )


def _with_orphans(supervisor: Supervisor, service: ServiceState) -> ServiceState:
    """A supervisor that was killed leaves its services running; the next one knows nothing."""
    if service.pid or not (orphans := supervisor.find_orphans(service.name)):
        return service
    text = f"process {orphans[0].pid} still runs, left behind by a supervisor that died"
    return replace(orphans[0], detail=f"{text}; `stoker start {service.name}` takes over from it")


def covers(verification: Verification | None, service: ServiceState) -> bool:
    """Whether a verification passed for the very process that runs now."""
    return (
        verification is not None
        and verification.has_passed
        and service.phase is ServicePhase.RUNNING
        and bool(service.process)
        and (verification.process, verification.digest) == (service.process, service.digest)
    )


def _phase(service: ServiceState, guard: GuardStatus | None, *, is_verified: bool) -> str:
    """The guard knows best how far it has come; a supervisor without notifications does not."""
    if service.phase is ServicePhase.RUNNING:
        is_starting = guard is not None and not guard.verified
        return "ready" if is_verified else "starting" if is_starting else "running"
    return _WORDS.get(service.phase, service.phase.value)


def _detail(
    world: World, generation: Generation, service: ServiceState, guard: GuardStatus | None
) -> str:
    if service.phase in _ENDED:
        # What the supervisor saw is a status; why it ended the guard knows.
        digest = generation.service.digest
        words = read_last_words(world, generation.name, digest=digest)
        return "; ".join(filter(None, (words, service.detail)))
    if guard is None or service.phase not in _GUARDED:
        return service.detail
    return "" if guard.text == "ready" else guard.text


def _drift(generation: Generation, service: ServiceState, found: Sequence[Drift]) -> str:
    """What differs, and what puts it right; a file beside the definition is its owner's affair."""
    name, wanted = generation.name, generation.service.digest
    is_other = bool(service.digest) and service.digest != wanted
    parts = (
        [f"runs definition {service.digest[:12]}, in force is {wanted[:12]}"] if is_other else []
    )
    # The digest is one of the variables that differ in another process.
    parts += [each.sentence for each in found if not (is_other and each.kind is DriftKind.PROCESS)]
    if is_other or any(each.kind not in _LEFT_ALONE for each in found):
        parts.append(f"`stoker start {name}` puts it right")
    return "; ".join(parts)


def _reference(generation: Generation) -> str:
    model = generation.deployment.get("model", {})
    return str(model.get("ref", ""))
