"""`stoker facts [FILE]`: what this machine is, as far as it can be read."""

from __future__ import annotations

from stoker.commands.plan import read_file
from stoker.commands.resolve import find_place, observe_machine, service_user
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.facts import Facts
from stoker.spec import parse_deployment


def read_facts(world: World, file: str | None = None) -> Facts:
    """All probes; those about a model and an engine only with a deployment file. Writes nothing.

    Raises UsageError or SpecError for the file.
    """
    if file is None:
        return observe_machine(world, place=None, user=None)
    deployment = parse_deployment(read_file(file), file, engine_kinds=engine_kinds())
    world = using_wanted(world, deployment)
    place = find_place(world, deployment, load_engine_table(deployment.engine.kind))
    return observe_machine(world, place=place, user=service_user(world, deployment))
