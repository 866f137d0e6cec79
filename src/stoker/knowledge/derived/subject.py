"""What a choice of settings is made for: one deployment, one engine, one machine.

Made where a deployment is resolved, before there is a launch; read by the modules beside this one
that say what the model, the machine and the engine are (:mod:`stoker.knowledge.describe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Facts
from stoker.model.launch import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """``build`` is the engine's build as far as it is known (``Place.build``).

    ``settings`` are those that are chosen so far: at the resolve stage the user's and the
    recipe's with Stoker's own, at the plan stage all of the launch.
    """

    deployment: Deployment
    facts: Facts
    table: EngineTable
    build: str
    settings: Sequence[Setting]
