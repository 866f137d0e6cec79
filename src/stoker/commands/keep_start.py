"""Keeps what a verified start found, against what was predicted.

Called after a run that started a service, and where a deployment that runs is looked at. A start
that cannot be kept is no failure of the start: a note says why.
"""

from __future__ import annotations

from stoker.capacity.correction import measure_start, tells_something
from stoker.commands.assemble import require_current
from stoker.commands.capacity_inputs import (
    describe_deployment,
    read_readings,
    told_count,
    told_parts,
    told_pool_bytes,
)
from stoker.commands.capacity_starts import name_starts
from stoker.commands.judge import pids_of_service
from stoker.commands.resolve import Resolved, resolve
from stoker.commands.resolved import read_deployment
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.errors import StateError, StokerError
from stoker.model.capacity_start import CapacityStart
from stoker.model.event import Event, EventKind
from stoker.model.resolved import Resolved as Told
from stoker.state.capacity_starts import keep_capacity_start, read_capacity_starts


def keep_last_start(world: World, name: str) -> None:
    """Keep what the engine of a deployment told at its present start; never raises for it."""
    try:
        told = read_deployment(world, name)
        if not told.is_running or not (told_parts(told) or told_count(told, "kv_tokens")):
            return
        world = using_supervisor_of(world, name)
        generation = require_current(world, name)
        resolved = resolve(world, generation.source, f"the file of {name}")
        if resolved.launch.argv != generation.launch.argv:
            return  # what runs was resolved by other facts, so a prediction of now is not its own
        keep_told(world, resolved, told)
    except StokerError as error:
        text = f"what the engine found was not kept: {error.summary}"
        world.reporter.emit(Event(kind=EventKind.NOTE, subject=name, text=text))


def keep_told(world: World, resolved: Resolved, told: Told) -> bool:
    """Keep what a start of this deployment told; whether there was anything. Raises HostError."""
    own_pids = pids_of_service(world, resolved.deployment.name)
    described = describe_deployment(resolved, own_pids)
    wanted = name_starts(resolved, described.inputs)
    if wanted is None:
        return False
    readings = read_readings(told, parts=told_parts(told))
    figures = measure_start(
        described.inputs,
        readings,
        pool_bytes=told_pool_bytes(told),
        tokens=told_count(told, "kv_tokens"),
    )
    if not tells_something(figures):
        return False
    start = CapacityStart(
        deployment=resolved.deployment.name,
        at_seconds=world.clock.now_seconds(),
        conditions=described.conditions,
        figures=figures,
    )
    try:
        kept = read_capacity_starts(world.host, world.folders, wanted)
    except StateError:
        kept = wanted  # a damaged one is replaced
    keep_capacity_start(world.host, world.folders, kept, start)
    return True
