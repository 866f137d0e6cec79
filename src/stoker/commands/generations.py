"""`stoker rollback --list`: the generations of a deployment."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stoker.commands.world import World
from stoker.model.facts import Plain
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
    before: dict[str, Plain] = {}
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
                port=generation.launch.port,
                digest=generation.digest,
                changed=changed_keys(before, flatten(generation.deployment)) if before else (),
            )
        )
        before = flatten(generation.deployment)
    return Generations(name=chosen, generations=tuple(lines))


def flatten(value: Mapping[str, Plain], prefix: str = "") -> dict[str, Plain]:
    """Nested keys as dotted paths."""
    flat: dict[str, Plain] = {}
    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, Mapping):
            flat.update(flatten(item, f"{path}."))
        else:
            flat[path] = item
    return flat


def changed_keys(before: Mapping[str, Plain], after: Mapping[str, Plain]) -> tuple[str, ...]:
    """The dotted paths whose values differ, ``path: value``; a key that went has no value."""
    return tuple(
        f"{path}: {json.dumps(after[path], ensure_ascii=False)}" if path in after else f"no {path}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )
