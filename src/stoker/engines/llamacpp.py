"""llama.cpp: a deployment and facts become a launch of its llama-server.

Called through :mod:`stoker.engines`. Which flag carries a choice, and why, stands in the engine's
table; here are only the choices that take more than a value from the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.engines.settings import (
    Choice,
    choose_serving,
    layer_choices,
    layer_env,
    layer_proposed,
    layer_settings,
    merge_layers,
    render_argv,
    render_env,
)
from stoker.model.deployment import Deployment, Serve
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Unknown
from stoker.model.launch import Launch, Origin, Readiness, SecretFile, Setting


def build_launch(
    deployment: Deployment,
    facts: Facts,
    table: EngineTable,
    place: Place,
    *,
    proposed: Sequence[Setting] = (),
) -> Launch:
    """How llama-server is started for this deployment."""
    layers = [
        layer_choices(choose(deployment, facts, place), table),
        layer_proposed(proposed, table.catalogue),
        layer_env(deployment.engine, table.catalogue),
        layer_settings(deployment.engine, table.catalogue),
    ]
    settings = merge_layers(layers)
    start_seconds = deployment.service.start_timeout_seconds or table.timeouts.start_seconds
    return Launch(
        engine=table.kind,
        engine_build=place.build,
        argv=render_argv(place.command, settings),
        env=render_env(settings),
        secrets=_secrets(deployment, place),
        host=deployment.serve.host,
        port=deployment.serve.port,
        published_name=deployment.published_name,
        readiness=Readiness(
            path=table.liveness.readiness_path,
            timeout_seconds=start_seconds,
        ),
        stop_timeout_seconds=table.timeouts.stop_seconds,
        settings=settings,
    )


ENGINE = build_launch


def choose(deployment: Deployment, facts: Facts, place: Place) -> dict[str, Choice]:
    """The rows of the table that are set for this deployment, with their values."""
    return {
        "model_path": Choice(value=place.model_path, origin=Origin.USER),
        **choose_serving(deployment),
        **_choose_key(place),
        **_choose_slots(deployment.serve),
        **_choose_threads(facts),
        **_choose_gpus(deployment),
        **_choose_draft(place),
        "chat_template": Choice(),
        "metrics": Choice(),
    }


def _choose_key(place: Place) -> dict[str, Choice]:
    if place.api_key_path is None:
        return {}
    return {"api_key_path": Choice(value=place.api_key_path, origin=Origin.USER)}


def _choose_slots(serve: Serve) -> dict[str, Choice]:
    """The context is that of one request; a given number of slots divides it among them."""
    chosen: dict[str, Choice] = {}
    slots = serve.parallel_requests
    if serve.context_tokens is not None:
        tokens = serve.context_tokens * (slots or 1)
        chosen["context_tokens"] = Choice(value=str(tokens), origin=Origin.USER)
    if slots is not None:
        chosen["parallel_requests"] = Choice(value=str(slots), origin=Origin.USER)
    return chosen


def _choose_threads(facts: Facts) -> dict[str, Choice]:
    """All cores that this machine gives us but one; nothing where they cannot be counted."""
    physical, usable = facts.read("cpu.physical_count"), facts.read("cpu.usable_cores")
    counts = [int(n) for n in (physical, usable) if not isinstance(n, Unknown) and n is not None]
    return {"threads": Choice(value=str(max(1, min(counts) - 1)))} if counts else {}


def _choose_gpus(deployment: Deployment) -> dict[str, Choice]:
    gpus = deployment.gpus
    if gpus == "all":
        return {}
    if gpus == "none":
        return {"no_gpu": Choice(origin=Origin.USER)}
    chosen = range(gpus) if isinstance(gpus, int) else gpus
    names = ",".join(str(gpu) for gpu in chosen)
    return {"gpu_order": Choice(), "gpu_choice": Choice(value=names, origin=Origin.USER)}


def _choose_draft(place: Place) -> dict[str, Choice]:
    if place.draft_path is None:
        return {}
    draft_path = Choice(value=place.draft_path, origin=Origin.USER)
    return {"draft_path": draft_path, "draft_mode": Choice()}


def _secrets(deployment: Deployment, place: Place) -> tuple[SecretFile, ...]:
    source_path = deployment.serve.api_key_file
    if source_path is None or place.api_key_path is None:
        return ()
    return (SecretFile(source_path=source_path, path=place.api_key_path),)
