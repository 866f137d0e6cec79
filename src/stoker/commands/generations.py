"""`stoker rollback --list`: the generations of a deployment."""

from __future__ import annotations

from stoker.commands.world import World
from stoker.model.status import GenerationLine, Generations
from stoker.state.documents import (
    choose_deployment,
    list_generations,
    read_current,
    read_generation,
)


def read_generations(world: World, name: str | None) -> Generations:
    """List them. Raises UsageError for an unknown deployment."""
    chosen = choose_deployment(world.host, world.folders, name)
    current = read_current(world.host, world.folders, chosen)
    lines = []
    for number in list_generations(world.host, world.folders, chosen):
        generation = read_generation(world.host, world.folders, chosen, number)
        if generation is None:
            continue
        lines.append(
            GenerationLine(
                number=number,
                is_current=current is not None and current.number == number,
                note=generation.note,
                weights=str(generation.deployment.get("model", {}).get("ref", "")),
                published_name=generation.launch.published_name,
                digest=generation.digest,
            )
        )
    return Generations(name=chosen, generations=tuple(lines))
