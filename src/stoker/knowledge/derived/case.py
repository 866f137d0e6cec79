"""The case that rules judge: one deployment on one host, with everything known about both.

Made by :mod:`stoker.knowledge.derive`, read by the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.knowledge.lifetimes import public_version
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Facts, Plain
from stoker.model.launch import Launch
from stoker.model.plan import Preparation

EMBEDDED = "embedded"
#: Those of the largest number of 64 bits.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``own_pids`` are the processes of this deployment's own service, if it runs.

    ``key_file`` says about the API key's file whether it ``exists``, its ``mode``, whether it
    ``is_empty`` and its ``line_count``; None when none is declared. ``user`` is whom the service
    will run as, ``me`` whom Stoker runs as, empty where that is not known. ``services`` are the
    processes of all deployments by their number, with the deployment's name. ``ending`` are
    processes that the plan will have ended before it starts anything.
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
    services: Mapping[int, str] = field(default_factory=dict)
    ending: frozenset[int] = frozenset()

    @property
    def is_embedded(self) -> bool:
        """Whether the engine is the build that Stoker installs."""
        return self.deployment.engine.environment == EMBEDDED

    @property
    def is_known_build(self) -> bool:
        """Whether the flags are those of the very build that will run."""
        build, known = self.launch.engine_build, self.table.catalogue.build
        return public_version(build) == public_version(known)

    @property
    def wants_gpus(self) -> bool:
        """Whether the deployment would use a GPU that is there."""
        return self.deployment.gpus != "none"

    @property
    def can_use_gpus(self) -> bool:
        """Whether the engine's build can; of a build that is not ours we assume it."""
        embedded = self.table.embedded
        return embedded.uses_gpus if self.is_embedded and embedded is not None else True


def innermost_folder(path: str, folders: Iterable[str]) -> str | None:
    """The innermost of some folders that holds the path (or is it), None if none does."""
    holding = [name for name in folders if f"{path}/".startswith(f"{name.rstrip('/')}/")]
    return max(holding, key=len, default=None)


def find_setting(case: Case, row_id: str) -> str:
    """What the launch sets for a row of the engine's table; empty where it sets nothing."""
    row = case.table.settings.get(row_id)
    option = case.table.catalogue.find(row.flag) if row else None
    names = (*option.names, option.env) if option else ()
    values = [each.value or "" for each in case.launch.settings if each.name in names]
    return values[-1] if values else ""  # of a flag that is given twice, the last one counts


def find_count(case: Case, row_id: str) -> int:
    """The same as a number, 0 for anything that is none or that no engine could count to."""
    told = find_setting(case, row_id)
    is_count = told.isascii() and told.isdigit() and len(told) <= _MOST_DIGITS
    return int(told) if is_count else 0
