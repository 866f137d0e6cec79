"""The schema that examples point editors to is the one that Stoker prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.knowledge.engines import engine_kinds
from stoker.spec import deployment_schema, parse_deployment
from tests.meta.source import PROJECT

SCHEMA = PROJECT / "docs/reference/deployment.schema.json"
EXAMPLES = sorted((PROJECT / "examples").glob("*.yaml"))


def test_the_published_schema_is_todays() -> None:
    """`stoker schema > docs/reference/deployment.schema.json` writes it anew."""
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(deployment_schema(engine_kinds())))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_right_and_name_the_schema(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    first = text.splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (example.parent / first.partition("=")[2]).resolve() == SCHEMA
    parse_deployment(text, example.name, engine_kinds=engine_kinds())
