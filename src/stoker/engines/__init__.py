"""Engine adapters: a deployment and facts become a launch. Pure, and strangers to each other.

Each module that gives an ``ENGINE`` is the adapter of the engine that it is named after; adding
an engine is one such module and its data files. Called by the command layer, which hands over the
engine's table; nothing here knows policy or touches the world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol

from stoker.errors import UsageError
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts
from stoker.model.launch import Launch, Setting


class BuildLaunch(Protocol):
    """What an adapter gives under the name ``ENGINE``. Pure and deterministic."""

    def __call__(
        self,
        deployment: Deployment,
        facts: Facts,
        table: EngineTable,
        place: Place,
        *,
        proposed: Sequence[Setting] = (),
    ) -> Launch:
        """The launch of this deployment on the machine that the facts describe.

        ``proposed`` is what others than the user and Stoker's own defaults would set.
        """
        ...


def build_launch(
    deployment: Deployment,
    facts: Facts,
    table: EngineTable,
    place: Place,
    *,
    proposed: Sequence[Setting] = (),
) -> Launch:
    """How the deployment's engine is started. Raises UsageError without an adapter for it."""
    adapters = list_engines()
    if table.kind not in adapters:
        known = ", ".join(adapters)
        raise UsageError(f"there is no engine named {table.kind}", f"Stoker knows: {known}")
    return adapters[table.kind](deployment, facts, table, place, proposed=proposed)


@cache
def list_engines() -> Mapping[str, BuildLaunch]:
    """The adapters by engine kind, sorted."""
    modules = {
        found.name: import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)
    }
    return {
        name: module.ENGINE for name, module in sorted(modules.items()) if hasattr(module, "ENGINE")
    }
