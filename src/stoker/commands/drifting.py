"""How a service differs from what was applied: asked by status and by every plan.

It reads, and repairs nothing; the plan that does follows from what it finds.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.commands.guarding import guarded
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.model.facts import Facts
from stoker.model.launch import Drift
from stoker.state.documents import read_current


def find_drift(world: World, name: str) -> tuple[Drift, ...]:
    """The drift of a deployment from its generation in force; none where nothing is."""
    current = read_current(world.host, world.folders, name)
    if current is None:
        return ()
    world = using_supervisor_of(world, name)
    return world.supervisor.find_drift(guarded(world, current))


def fitting(world: World, name: str, facts: Facts) -> World:
    """The world with a supervisor that asks of this machine only what it lets a service have."""
    return replace(world, supervisor=world.supervisor.fit(name, facts))
