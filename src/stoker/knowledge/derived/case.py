"""The case that rules judge: one deployment on one host, with everything known about both.

Made by :mod:`stoker.knowledge.derive`, read by the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Facts, Plain
from stoker.model.launch import Launch
from stoker.model.plan import Preparation

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``own_pids`` are the processes of this deployment's own service, if it runs.

    ``key_file`` says about the API key's file whether it ``exists``, its ``mode``, whether it
    ``is_empty`` and its ``line_count``; None when none is declared. ``user`` is whom the service
    will run as, ``me`` whom Stoker runs as, empty where that is not known.
    """

    deployment: Deployment
    facts: Facts
    launch: Launch
    table: EngineTable
    preparations: Sequence[Preparation]
    own_pids: frozenset[int]
    key_file: Mapping[str, Plain] | None
    user: str
    me: str

    @property
    def is_embedded(self) -> bool:
        """Whether the engine is the build that Stoker installs."""
        return self.deployment.engine.environment == EMBEDDED

    @property
    def wants_gpus(self) -> bool:
        """Whether the deployment would use a GPU that is there."""
        return self.deployment.gpus != "none"

    @property
    def can_use_gpus(self) -> bool:
        """Whether the engine's build can; of a build that is not ours we assume it."""
        return self.table.embedded.uses_gpus if self.is_embedded else True


def innermost_folder(path: str, folders: Iterable[str]) -> str | None:
    """The innermost of some folders that holds the path (or is it), None if none does."""
    holding = [name for name in folders if f"{path}/".startswith(f"{name.rstrip('/')}/")]
    return max(holding, key=len, default=None)
