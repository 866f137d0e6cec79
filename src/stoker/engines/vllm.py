"""vLLM: a deployment and facts become a launch of its server.

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
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts
from stoker.model.launch import Launch, SecretFile, Setting

#: The row of the table with the variable that the engine reads its key from.
_KEY_ROW = "api_key_variable"
#: The copy of the key for that variable lies beside the one for clients.
_VARIABLE_SUFFIX = ".variable"


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
            # The engine refuses a draft model without the number of its tokens.
            **choose_draft(place, "draft_tokens"),
        },
        secrets=_secrets(deployment, table, place),
        proposed=proposed,
    )


ENGINE = build_launch


def _secrets(deployment: Deployment, table: EngineTable, place: Place) -> tuple[SecretFile, ...]:
    """Two copies: one for those who ask the server, one that the guard hands to the server."""
    variable = table.settings[_KEY_ROW].flag
    return tuple(
        secret
        for plain in copy_key(deployment, place)
        for secret in (
            plain,
            SecretFile(
                source_path=plain.source_path,
                path=f"{plain.path}{_VARIABLE_SUFFIX}",
                variable=variable,
            ),
        )
    )
