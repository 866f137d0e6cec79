"""Sentences for changes: why a file is written, in the deployment's own words."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.generation import Generation
from stoker.model.layout import current_path, generation_path, guard_config_path
from stoker.model.plan import Folders


def explain_files(
    generation: Generation, *, folders: Folders, definitions: Mapping[str, object]
) -> dict[str, str]:
    """A reason for every file of a generation, by path."""
    name = generation.name
    reasons = dict.fromkeys(definitions, f"the supervisor runs {name} by this definition")
    for secret in generation.launch.secrets:
        reasons[secret.path] = f"a copy of {secret.source_path} that only the service can read"
    reasons[guard_config_path(folders, name)] = (
        f"the guard watches over {name} by it, from its next start on"
    )
    record = generation_path(folders, name, generation.number)
    reasons[record] = f"generation {generation.number}: what `stoker rollback` can bring back"
    reasons[current_path(folders, name)] = f"generation {generation.number} is in force"
    return reasons
