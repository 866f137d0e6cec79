"""SGLang: a deployment and facts become a launch of its server.

Called through :mod:`stoker.engines`. Which flag carries a choice, and why, stands in the engine's
table; here are only the choices that take more than a value from the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.engines.building import (
    build,
    choose_common,
    choose_draft,
    choose_room,
    choose_search_path,
    copy_key,
)
from stoker.engines.settings import Choice
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts
from stoker.model.launch import Launch, Origin, SecretFile, Setting

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
    return build(
        deployment,
        table,
        place,
        choices={
            **choose_common(deployment, place),
            **choose_search_path(place),
            **choose_room(deployment.serve),
            **choose_draft(place),
            **_choose_key(place),
            "metrics": Choice(),
        },
        secrets=_secrets(deployment, table, place),
        proposed=proposed,
    )


ENGINE = build_launch


def _choose_key(place: Place) -> dict[str, Choice]:
    """The key has a flag of its own, which everybody could read on the command line."""
    path = _settings_path(place)
    return {"settings_path": Choice(value=path, origin=Origin.USER)} if path else {}


def _settings_path(place: Place) -> str | None:
    return f"{place.api_key_path}{_SETTINGS_SUFFIX}" if place.api_key_path else None


def _secrets(deployment: Deployment, table: EngineTable, place: Place) -> tuple[SecretFile, ...]:
    """Two copies: one for those who ask the server, one as a setting for the server itself."""
    path = _settings_path(place)
    flag = next(row.flag for row in table.reserved if row.key == _KEY_OF_DEPLOYMENT)
    return tuple(
        secret
        for plain in copy_key(deployment, place)
        if path is not None
        # A setting is named as its flag is, without the dashes.
        for secret in (
            plain,
            SecretFile(source_path=plain.source_path, path=path, entry=flag.lstrip("-")),
        )
    )
