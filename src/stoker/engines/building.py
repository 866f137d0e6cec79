"""From choices to a launch: what all engines share of it.

Called by the adapters, each of which makes the choices that are its own. Knows no engine, no
flag and no policy; touches nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stoker.engines.settings import (
    Choice,
    apply_row,
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
from stoker.model.engine_table import EngineTable, Place, SettingRow, parse_entries
from stoker.model.facts import Plain
from stoker.model.launch import Launch, Origin, Readiness, SecretFile, Setting
from stoker.model.units import canonical_json

#: Where programs lie on Debian and its kin (environ(7), the default of login(1) for root).
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build(
    deployment: Deployment,
    table: EngineTable,
    place: Place,
    *,
    choices: Mapping[str, Choice],
    secrets: Sequence[SecretFile],
    proposed: Sequence[Setting],
) -> Launch:
    """The launch of this deployment: choices, proposals and its own settings, merged by origin.

    ``choices`` is by row id of the table. Raises DataError for a row that the table lacks.
    """
    whole = {key: each for key, each in choices.items() if not _is_entry(table, key)}
    layers = [
        layer_choices(whole, table),
        layer_proposed(proposed, table.catalogue),
        layer_env(deployment.engine, table.catalogue),
        layer_settings(deployment.engine, table.catalogue),
    ]
    entries = {key: each for key, each in choices.items() if key not in whole}
    settings = fill_entries(merge_layers(layers), entries, table)
    start_seconds = deployment.service.start_timeout_seconds or table.timeouts.start_seconds
    return Launch(
        engine=table.kind,
        engine_build=place.build,
        argv=render_argv(place.command, settings, table.arguments),
        env=render_env(settings),
        secrets=tuple(secrets),
        host=deployment.serve.host,
        port=deployment.serve.port,
        published_name=deployment.published_name,
        readiness=Readiness(path=table.liveness.readiness_path, timeout_seconds=start_seconds),
        stop_timeout_seconds=table.timeouts.stop_seconds,
        settings=settings,
    )


def choose_common(deployment: Deployment, place: Place) -> dict[str, Choice]:
    """What every engine is told: the weights, the GPUs, and where it serves."""
    return {
        "model_path": Choice(value=place.model_path, origin=Origin.USER),
        **choose_serving(deployment),
        **_choose_gpus(deployment),
    }


def choose_search_path(place: Place) -> dict[str, Choice]:
    """The engine's own programs first: it starts compilers and tools that lie beside it."""
    folder = posixpath.dirname(place.command)
    own = [folder] if len(folder) > 1 else []
    return {"search_path": Choice(value=":".join(dict.fromkeys([*own, *_USUAL_PATH.split(":")])))}


def choose_draft(place: Place, *beside: str) -> dict[str, Choice]:
    """The draft's weights; ``beside`` are rows that the engine needs set with them."""
    if place.draft_path is None:
        return {}
    path = Choice(value=place.draft_path, origin=Origin.USER)
    return {"draft_path": path, **{row: Choice() for row in beside}}


def choose_room(serve: Serve) -> dict[str, Choice]:
    """The context of one request, and how many are answered at once, as they are given."""
    given = {
        "context_tokens": serve.context_tokens,
        "parallel_requests": serve.parallel_requests,
    }
    return {
        key: Choice(value=str(value), origin=Origin.USER)
        for key, value in given.items()
        if value is not None
    }


def copy_key(deployment: Deployment, place: Place) -> tuple[SecretFile, ...]:
    """The plain copy of the API key, which clients such as the guard read; none without a key."""
    source_path = deployment.serve.api_key_file
    if source_path is None or place.api_key_path is None:
        return ()
    return (SecretFile(source_path=source_path, path=place.api_key_path),)


def fill_entries(
    settings: Sequence[Setting], entries: Mapping[str, Choice], table: EngineTable
) -> tuple[Setting, ...]:
    """The settings with choices that are entries of a flag's JSON object filled in.

    What the deployment says goes into an object that somebody wrote; what Stoker chooses only
    where that leaves it open. Text that is no JSON object stays as it is: a rule speaks about it.
    """
    made = list(settings)
    for key, choice in entries.items():
        row = table.settings[key]
        identity = table.catalogue.identify(row.flag)
        places = [
            place
            for place, each in enumerate(made)
            if table.catalogue.identify(each.name, each.kind) == identity
        ]
        if not places:
            made.append(replace(apply_row(row, choice), value=_with_entry({}, row, choice)))
            continue
        present = made[places[-1]]
        object_ = parse_entries(present.value or "")
        if object_ and (choice.origin is Origin.USER or row.entry not in object_):
            value = _with_entry(object_, row, choice)
            made[places[-1]] = replace(present, value=value)
    return tuple(made)


def _with_entry(object_: Mapping[str, Plain], row: SettingRow, choice: Choice) -> str:
    told = choice.value if choice.value is not None else row.default
    is_number = told is not None and told.isascii() and told.isdecimal()
    value: Plain = int(told) if told is not None and is_number else told
    return canonical_json({**object_, row.entry: value})


def _is_entry(table: EngineTable, key: str) -> bool:
    return key in table.settings and bool(table.settings[key].entry)


def _choose_gpus(deployment: Deployment) -> dict[str, Choice]:
    """The GPUs that are named; the engine sees no others."""
    gpus = deployment.gpus
    if gpus == "all":
        return {}
    if gpus == "none":
        return {"no_gpu": Choice(origin=Origin.USER)}
    chosen = range(gpus) if isinstance(gpus, int) else gpus
    names = ",".join(str(gpu) for gpu in chosen)
    return {"gpu_order": Choice(), "gpu_choice": Choice(value=names, origin=Origin.USER)}
