"""The JSON Schema says what the parser accepts, as far as a schema can."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.model.deployment import Deployment
from stoker.spec import deployment_schema
from stoker.spec.vocabulary import every_key

SCHEMA = deployment_schema(["llamacpp", "vllm"])


def follow(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The part of the schema that speaks of a dotted path, references resolved."""
    for name in path.split("."):
        options = [schema, *schema.get("anyOf", []), schema.get("items", {})]
        options += [option.get("items", {}) for option in options]
        resolved = [
            SCHEMA["$defs"][option["$ref"].rpartition("/")[2]] if "$ref" in option else option
            for option in options
        ]
        schema = next(o["properties"][name] for o in resolved if name in o.get("properties", {}))
    return schema


def every_part(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else ():
        yield from every_part(inner)


def test_it_says_what_it_is() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"] == "urn:stoker:schema:deployment:1"
    assert SCHEMA["title"] == "Stoker deployment"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_the_engines_are_named() -> None:
    assert follow(SCHEMA, "engine.kind")["enum"] == ["llamacpp", "vllm"]


@pytest.mark.parametrize("path", ["model", "draft"])
def test_a_model_is_text_or_a_mapping(path: str) -> None:
    options = follow(SCHEMA, path)["anyOf"]
    text = next(option for option in options if option.get("type") == "string")
    assert re.search(text["pattern"], "hf:org/model@main")
    assert {"$ref": "#/$defs/ModelReference"} in options


@pytest.mark.parametrize("path", every_key())
def test_every_key_is_described(path: str) -> None:
    assert follow(SCHEMA, path)["description"]


def test_unknown_keys_are_refused_everywhere() -> None:
    parts = [part for part in every_part(SCHEMA) if "properties" in part]
    assert len(parts) == len(SCHEMA["$defs"]) + 1
    assert all(part["additionalProperties"] is False for part in parts)


def test_names_of_settings_and_variables_are_checked() -> None:
    named = [part for part in every_part(SCHEMA) if "patternProperties" in part]
    assert len(named) == 5
    for part in named:
        (pattern,) = part["patternProperties"]
        assert part["additionalProperties"] is False
        assert not re.search(pattern, "--flag")


def test_every_pattern_has_words_for_editors() -> None:
    for part in every_part(SCHEMA):
        if isinstance(part.get("pattern"), str) and "type" in part:
            assert part["patternErrorMessage"]


def test_groups_and_lists_may_be_left_empty() -> None:
    for path in ("serve", "contract", "goals", "service", "accept", "engine.settings"):
        assert {"type": "null"} in follow(SCHEMA, path)["anyOf"]


def test_defaults_are_those_of_the_model() -> None:
    assert (
        follow(SCHEMA, "serve.port")["default"]
        == Deployment.model_validate(
            {"name": "a", "model": "hf:a/b", "engine": {"kind": "x"}}
        ).serve.port
    )
    assert "default" not in follow(SCHEMA, "serve.context_tokens")
