"""SGLang: a deployment and facts become a launch of its server.

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
from stoker.model.facts import Facts
from stoker.model.launch import Launch, Origin, Readiness, SecretFile, Setting

#: The engine reads settings from a file of this kind alone.
_SETTINGS_SUFFIX = ".yaml"
#: What the deployment says in the stead of the flag for the key.
_KEY_OF_DEPLOYMENT = "serve.api_key_file"


def build_launch(
    deployment: Deployment,
    facts: Facts,
    table: EngineTable,
    place: Place,
    *,
    proposed: Sequence[Setting] = (),
) -> Launch:
    """How the server is started for this deployment."""
    layers = [
        layer_choices(choose(deployment, place), table),
        layer_proposed(proposed, table.catalogue),
        layer_env(deployment.engine, table.catalogue),
        layer_settings(deployment.engine, table.catalogue),
    ]
    settings = merge_layers(layers)
    start_seconds = deployment.service.start_timeout_seconds or table.timeouts.start_seconds
    return Launch(
        engine=table.kind,
        engine_build=place.build,
        argv=render_argv(place.command, settings, table.arguments),
        env=render_env(settings),
        secrets=_secrets(deployment, table, place),
        host=deployment.serve.host,
        port=deployment.serve.port,
        published_name=deployment.published_name,
        readiness=Readiness(path=table.liveness.readiness_path, timeout_seconds=start_seconds),
        stop_timeout_seconds=table.timeouts.stop_seconds,
        settings=settings,
    )


ENGINE = build_launch


def choose(deployment: Deployment, place: Place) -> dict[str, Choice]:
    """The rows of the table that are set for this deployment, with their values."""
    return {
        "model_path": Choice(value=place.model_path, origin=Origin.USER),
        **choose_serving(deployment),
        **_choose_key(place),
        **_choose_room(deployment.serve),
        **_choose_gpus(deployment),
        **_choose_draft(place),
        "metrics": Choice(),
    }


def _choose_key(place: Place) -> dict[str, Choice]:
    """The key has a flag of its own, which everybody could read on the command line."""
    path = _settings_path(place)
    return {"settings_path": Choice(value=path, origin=Origin.USER)} if path else {}


def _choose_room(serve: Serve) -> dict[str, Choice]:
    chosen: dict[str, Choice] = {}
    if serve.context_tokens is not None:
        chosen["context_tokens"] = Choice(value=str(serve.context_tokens), origin=Origin.USER)
    if serve.parallel_requests is not None:
        chosen["parallel_requests"] = Choice(value=str(serve.parallel_requests), origin=Origin.USER)
    return chosen


def _choose_gpus(deployment: Deployment) -> dict[str, Choice]:
    """The weights are divided among the GPUs that are named; of `all` the engine takes one."""
    gpus = deployment.gpus
    if gpus == "all":
        return {}
    if gpus == "none":
        return {"no_gpu": Choice(origin=Origin.USER)}
    chosen = range(gpus) if isinstance(gpus, int) else gpus
    names = [str(gpu) for gpu in chosen]
    return {
        "gpu_order": Choice(),
        "gpu_choice": Choice(value=",".join(names), origin=Origin.USER),
        "gpu_count": Choice(value=str(len(names)), origin=Origin.USER),
    }


def _choose_draft(place: Place) -> dict[str, Choice]:
    if place.draft_path is None:
        return {}
    return {"draft_path": Choice(value=place.draft_path, origin=Origin.USER)}


def _settings_path(place: Place) -> str | None:
    return f"{place.api_key_path}{_SETTINGS_SUFFIX}" if place.api_key_path else None


def _secrets(deployment: Deployment, table: EngineTable, place: Place) -> tuple[SecretFile, ...]:
    """Two copies: one for those who ask the server, one as a setting for the server itself."""
    source_path, settings_path = deployment.serve.api_key_file, _settings_path(place)
    if source_path is None or place.api_key_path is None or settings_path is None:
        return ()
    flag = next(row.flag for row in table.reserved if row.key == _KEY_OF_DEPLOYMENT)
    return (
        SecretFile(source_path=source_path, path=place.api_key_path),
        # A setting is named as its flag is, without the dashes.
        SecretFile(source_path=source_path, path=settings_path, entry=flag.lstrip("-")),
    )
