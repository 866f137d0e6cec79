"""llama.cpp: a deployment and facts become a launch of its llama-server.

Called through :mod:`stoker.engines`. Which flag carries a choice, and why, stands in the engine's
table; here are only the choices that take more than a value from the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.engines.building import build, choose_common, choose_draft, choose_room, copy_key
from stoker.engines.settings import Choice
from stoker.model.deployment import Deployment, Serve
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Unknown
from stoker.model.launch import Launch, Origin, Setting


def build_launch(
    deployment: Deployment,
    facts: Facts,
    table: EngineTable,
    place: Place,
    *,
    proposed: Sequence[Setting] = (),
) -> Launch:
    """How llama-server is started for this deployment."""
    return build(
        deployment,
        table,
        place,
        choices={
            **choose_common(deployment, place),
            **choose_draft(place, "draft_mode"),
            **_choose_key(place),
            **_choose_slots(deployment.serve),
            **_choose_threads(facts),
            "chat_template": Choice(),
            "metrics": Choice(),
        },
        secrets=copy_key(deployment, place),
        proposed=proposed,
    )


ENGINE = build_launch


def _choose_key(place: Place) -> dict[str, Choice]:
    if place.api_key_path is None:
        return {}
    return {"api_key_path": Choice(value=place.api_key_path, origin=Origin.USER)}


def _choose_slots(serve: Serve) -> dict[str, Choice]:
    """The context is that of one request; a given number of slots divides it among them."""
    chosen = choose_room(serve)
    if serve.context_tokens is not None:
        tokens = serve.context_tokens * (serve.parallel_requests or 1)
        chosen["context_tokens"] = Choice(value=str(tokens), origin=Origin.USER)
    return chosen


def _choose_threads(facts: Facts) -> dict[str, Choice]:
    """All cores that this machine gives us but one; nothing where they cannot be counted."""
    physical, usable = facts.read("cpu.physical_count"), facts.read("cpu.usable_cores")
    counts = [int(n) for n in (physical, usable) if not isinstance(n, Unknown) and n is not None]
    return {"threads": Choice(value=str(max(1, min(counts) - 1)))} if counts else {}
