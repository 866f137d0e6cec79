"""The JSON Schema of deployment files, for editors and other tools.

Called by `stoker schema` and by what writes a new file. Derived from the model alone, so that it
cannot drift; it must never name a server, since it is shipped beside the file that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.model.deployment import Deployment
from stoker.model.facts import Plain

SCHEMA_ID = "urn:stoker:schema:deployment:1"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def deployment_schema(engine_kinds: Sequence[str]) -> dict[str, Any]:
    """The schema (draft 2020-12) of a deployment file; ``engine.kind`` is one of the given."""
    schema = _tidy(Deployment.model_json_schema())
    schema["$defs"]["Engine"]["properties"]["kind"]["enum"] = list(engine_kinds)
    return {
        "$schema": _DIALECT,
        "$id": SCHEMA_ID,
        **schema,
        "title": "Stoker deployment",
    }


def _tidy(schema: Plain) -> Any:
    """Without titles that repeat the key, and without defaults that only say: left out.

    Names that fit no pattern are refused, as the parser does.
    """
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    is_noise = {
        "title": isinstance(schema.get("title"), str),
        "default": schema.get("default", "") is None,
    }
    tidy = {key: _tidy(value) for key, value in schema.items() if not is_noise.get(key, False)}
    return {**tidy, "additionalProperties": False} if "patternProperties" in schema else tidy
