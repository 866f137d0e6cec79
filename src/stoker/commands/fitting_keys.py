"""The keys of a repair as one deployment file spells them.

Called where a repair goes into a file. Knowledge names a flag by one of its spellings; a file may
have another one, or a key of its own for it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain

_SETTINGS = "engine.settings."
#: Fields of ``serve`` that are a flag of most engines, by the ids of the rows of their tables.
_ROOM = ("context_tokens", "parallel_requests")


def fit_changes(
    changes: Mapping[str, Plain], deployment: Deployment, table: EngineTable
) -> dict[str, Plain]:
    """The same changes: a flag that the file sets keeps its spelling, and one that the deployment
    has a key of its own for is that key."""
    return {fit_key(key, deployment, table): value for key, value in changes.items()}


def fit_key(key: str, deployment: Deployment, table: EngineTable) -> str:
    """One key; see :func:`fit_changes`."""
    if not key.startswith(_SETTINGS):
        return key
    catalogue = table.catalogue

    def identify(flag: str) -> str:
        return catalogue.identify(catalogue.spell(flag))

    wanted = identify(key.removeprefix(_SETTINGS))
    for name in deployment.engine.settings:
        if identify(name) == wanted:
            return f"{_SETTINGS}{name}"
    for name in _ROOM:
        row = table.settings.get(name)
        is_set = getattr(deployment.serve, name) is not None
        if row is not None and is_set and not row.is_shared and identify(row.flag) == wanted:
            return f"serve.{name}"
    reserved = (row for row in table.reserved if row.key)
    return next((row.key for row in reserved if identify(row.flag) == wanted), key)
