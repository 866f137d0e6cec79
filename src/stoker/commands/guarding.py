"""The guard of a service: its environment, its orders, and what it says.

A generation tells what is served; how that is guarded belongs to the Stoker that is installed now.
So the guard is put around a service where its definition is rendered, and is no part of its
digest: a newer guard changes files and restarts nothing.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from dataclasses import replace

from stoker.builds.environment import environment_path, executable_in
from stoker.commands.subject import promised_subject
from stoker.commands.world import World
from stoker.errors import HostError, StateError
from stoker.guard.config import (
    Canary,
    Devices,
    Engine,
    GuardConfig,
    Limits,
    PhasePattern,
    Server,
    Weights,
)
from stoker.guard.decide import KILL_SECONDS, MARGIN_SECONDS
from stoker.guard.values import Rules
from stoker.guard.vigil import longest_doubt_seconds
from stoker.guard.words import GuardStatus
from stoker.knowledge.engines import load_engine_table, load_environment
from stoker.knowledge.gpu_memory import load_gpu_memory
from stoker.model.contract import CONTRACT_TIMEOUT_SECONDS
from stoker.model.document import parse_document, render_document
from stoker.model.engine_table import EngineTable, EnvironmentRecipe
from stoker.model.facts import Plain
from stoker.model.generation import Generation
from stoker.model.launch import Launch, SecretFile, Service, ServiceState, Timing
from stoker.model.layout import guard_config_path, guard_status_path, starts_path, work_folder
from stoker.model.plan import Image
from stoker.model.units import digest_text
from stoker.model.visible import visible

#: The recipe of the environment that guards run from.
ENVIRONMENT = "guard"
#: The unit that starts a guard holds no secret, and neither do its orders.
_FILE_MODE = 0o644
#: How long both sides may take for what the limits do not speak of, on a machine that is busy.
_SLACK_SECONDS = 60
#: What the dynamic linker reads (ld.so(8)) is meant for the engine; in the guard it could put one
#: library in another's place.
_LINKER_PREFIX = "LD_"
#: The rule that forbids a start whose GPUs others hold.
HELD_RULE = "gpu.held"
#: A status is far smaller.
_STATUS_LIMIT_BYTES = 1 << 16
_TEXT_CHARACTERS = 300
_MOST_SECONDS = 7 * 24 * 3600


def guard_recipe() -> EnvironmentRecipe:
    """The environment that guards of this Stoker run from."""
    return load_environment(ENVIRONMENT)


def guard_python(world: World) -> str:
    """The interpreter of that environment, there or not."""
    return executable_in(environment_path(guard_recipe(), world.folders), "python")


def guarded(world: World, generation: Generation) -> Service:
    """The service as a manager shall run it: a guard that starts the engine as its child."""
    service, config = generation.service, guard_config(world, generation)
    # -I: neither variables that are meant for the engine's Python nor the working folder count.
    command = (guard_python(world), "-I", "-m", "stoker.guard")
    return replace(
        service,
        argv=(*command, guard_config_path(world.folders, generation.name)),
        env={name: text for name, text in service.env.items() if not _is_for_linker(name)},
        # Also for one that was applied when services had no folder of their own.
        directory=work_folder(world.folders, generation.name),
        timing=guard_timing(config),
    )


def guard_timing(config: GuardConfig) -> Timing:
    """How long a manager waits: always longer than the guard, which can say why. Pure."""
    limits = config.limits
    rules = Rules(limits=limits, canary=config.canary)
    end_seconds = limits.stop_timeout_seconds + MARGIN_SECONDS
    return Timing(
        stop_seconds=math.ceil(end_seconds + KILL_SECONDS),
        start_seconds=math.ceil(limits.stall_seconds + end_seconds + _SLACK_SECONDS),
        watchdog_seconds=math.ceil(longest_doubt_seconds(rules) + end_seconds + _SLACK_SECONDS),
    )


def guard_files(world: World, generation: Generation) -> dict[str, Image]:
    """The guard's orders as a file, by path."""
    text = render_document(guard_config(world, generation))
    image = Image(digest=digest_text(text), mode=_FILE_MODE, content=text)
    return {guard_config_path(world.folders, generation.name): image}


def guard_config(world: World, generation: Generation) -> GuardConfig:
    """What the guard of a generation is told."""
    launch, name = generation.launch, generation.name
    table = load_engine_table(launch.engine)
    liveness = table.liveness
    contract = _part(generation, "contract")
    return GuardConfig(
        name=name,
        digest=generation.service.digest,
        engine=_engine(generation, directory=work_folder(world.folders, name)),
        server=_server(generation),
        limits=_limits(generation, table),
        canary=Canary(
            interval_seconds=liveness.interval_seconds,
            timeout_seconds=liveness.timeout_seconds,
            metrics_path=liveness.metrics_path,
            counters=liveness.counters,
        ),
        phases=tuple(
            PhasePattern(pattern=row.pattern, phase=row.phase, title=row.title)
            for row in table.log.phases
        ),
        weights=Weights(model=generation.model, paths=_weight_paths(launch, table)),
        devices=_devices(generation),
        require=tuple(contract["require"]) if contract.get("require") else None,
        status_path=guard_status_path(world.folders, name),
        starts_path=starts_path(world.folders, name),
    )


def _engine(generation: Generation, *, directory: str) -> Engine:
    launch = generation.launch
    return Engine(
        argv=launch.argv,
        directory=directory,
        env={name: text for name, text in launch.env.items() if _is_for_linker(name)},
        secret_env={each.variable: each.path for each in launch.secrets if each.variable},
    )


def find_key(launch: Launch) -> SecretFile | None:
    """The plain copy of the API key, which clients such as the guard read; None without a key."""
    plain = (each for each in launch.secrets if not each.variable and not each.entry)
    return next(plain, None)


def _server(generation: Generation) -> Server:
    launch = generation.launch
    key = find_key(launch)
    return Server(
        host=launch.host,
        port=launch.port,
        readiness_path=launch.readiness.path,
        subject=promised_subject(generation),
        key_path=key.path if key else None,
    )


def _limits(generation: Generation, table: EngineTable) -> Limits:
    options, contract = _part(generation, "service"), _part(generation, "contract")
    return Limits(
        start_timeout_seconds=generation.launch.readiness.timeout_seconds,
        stall_seconds=options.get("stall_timeout_seconds") or table.timeouts.stall_seconds,
        stop_timeout_seconds=generation.launch.stop_timeout_seconds,
        verify_timeout_seconds=contract.get("timeout_seconds", CONTRACT_TIMEOUT_SECONDS),
    )


def _weight_paths(launch: Launch, table: EngineTable) -> tuple[str, ...]:
    """The weights on the command line: of the model, and of the one that drafts for it."""
    rows = (table.settings.get(name) for name in ("model_path", "draft_path"))
    paths = (row.find_in(launch.settings) for row in rows if row is not None)
    return tuple(path for path in paths if path and posixpath.isabs(path))


def _devices(generation: Generation) -> Devices:
    """The GPUs that must be there; whoever accepted that others hold them is not asked again."""
    gpus = generation.launch.gpus
    accepted = generation.deployment.get("accept") or ()
    return Devices(
        gpus=gpus.devices,
        held_share=None if HELD_RULE in accepted else load_gpu_memory().little.share,
        needed_bytes=gpus.needed_bytes,
    )


def _part(generation: Generation, key: str) -> Mapping[str, Plain]:
    part: Mapping[str, Plain] = generation.deployment.get(key) or {}
    return part


def _is_for_linker(name: str) -> bool:
    return name.startswith(_LINKER_PREFIX)


def read_guard(world: World, service: ServiceState) -> GuardStatus | None:
    """What the guard of this very process says; None where it says nothing, or another spoke.

    The file lies where the service may write, so it counts no more than the service itself.
    """
    status = _read_status(world, service.name) if service.process else None
    if status is None or (status.guard, status.digest) != (service.process, service.digest):
        return None
    return status


def read_last_words(world: World, name: str, *, digest: str) -> str:
    """Why the last guard of this definition ended, as it said itself; empty where it did not."""
    status = _read_status(world, name)
    is_told = status is not None and status.digest == digest and not status.verified
    return status.text if status is not None and is_told else ""


def _read_status(world: World, name: str) -> GuardStatus | None:
    path = guard_status_path(world.folders, name)
    try:
        found = world.host.stat(path)
        if found is None or found.kind != "file":
            return None
        text = world.host.read_text(path, _STATUS_LIMIT_BYTES)
        status = parse_document(text, GuardStatus, origin=path)
    except (HostError, StateError):
        return None
    return _tame(status) if _is_sane(status) else None


def _is_sane(status: GuardStatus) -> bool:
    """Whether the figures are such as a guard gives."""
    left_seconds = status.left_seconds
    return (status.percent is None or 0 <= status.percent <= 100) and (
        left_seconds is None or 0 <= left_seconds < _MOST_SECONDS
    )


def _tame(status: GuardStatus) -> GuardStatus:
    """The same with texts that can be shown: the service itself may have written them."""
    return replace(
        status,
        text=visible(status.text)[:_TEXT_CHARACTERS],
        phase=visible(status.phase)[:_TEXT_CHARACTERS],
    )


def is_verified_by(guard: GuardStatus | None) -> bool:
    """Whether a guard calls its engine verified."""
    return guard is not None and guard.verified
