"""What a measurement rests on: the launch, the weights and the machine, in one digest.

Called where something is measured and where it is asked whether what runs was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.commands.world import World
from stoker.errors import StateError
from stoker.model.facts import Facts, Plain, Unknown, read_path
from stoker.model.generation import Generation
from stoker.model.launch import Setting
from stoker.model.layout import facts_path
from stoker.model.units import canonical_json, digest_text
from stoker.state.documents import read_document

#: What a machine's speed rests on, by the paths of facts. What is free or running at the moment, or
#: hangs on who asks (the cores that this process may use), is no part of it: two measurements of
#: one launch must carry one digest.
_STEADY = ("cpu.model", "driver.version", "memory.total_bytes")
_STEADY_OF_GPU = ("name", "uuid", "memory_total_bytes")
_SERVED_DIGITS, _MACHINE_DIGITS = 16, 8
_MARK = "-"


def measured_digest(world: World, generation: Generation) -> str:
    """What a measurement of this generation rests on: what is served with its weights, and behind a
    dash the machine. Only a plan keeps facts, so the second part may be missing."""
    # What is served, not how it is described: a comment or the mark of a search changes no speed.
    served = {"service": generation.service.digest, "build": generation.launch.engine_build}
    digest = digest_text(canonical_json(served))[:_SERVED_DIGITS]
    try:
        facts = read_document(world.host, facts_path(world.folders), Facts)
    except StateError:
        facts = None
    if facts is None:
        return digest
    machine = digest_text(canonical_json(steady_facts(facts)))[:_MACHINE_DIGITS]
    return f"{digest}{_MARK}{machine}"


def served_part(digest: str) -> str:
    """What is served, without the machine."""
    return digest.partition(_MARK)[0]


def agree(one: str, other: str) -> bool:
    """Whether two digests are of the same thing, as far as both know it."""
    machines = {each.partition(_MARK)[2] for each in (one, other)} - {""}
    return served_part(one) == served_part(other) and len(machines) < 2


def steady_facts(facts: Facts) -> Mapping[str, Plain]:
    """What of a machine stays the same while nobody changes it."""
    found: dict[str, Plain] = {path: _plain(facts.read(path)) for path in _STEADY}
    gpus = facts.read("gpus.gpus")
    for number, gpu in enumerate(gpus if isinstance(gpus, (list, tuple)) else ()):
        for name in _STEADY_OF_GPU:
            found[f"gpu {number} {name}"] = _plain(read_path(gpu, name))
    return found


def _plain(value: Plain | Unknown) -> Plain:
    return None if isinstance(value, Unknown) else value


def plain_settings(settings: tuple[Setting, ...]) -> Mapping[str, Plain]:
    """The settings of a launch by name, as compared flag by flag. Secrets never stand in one."""
    return {
        setting.name: " ".join(filter(None, (setting.value, *setting.more))) for setting in settings
    }
