"""Deployments as text: whatever is written parses back to the same."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.model.deployment import Deployment
from stoker.spec import parse_deployment, render_deployment
from stoker.spec.plain import read_plain
from stoker.spec.render import render_inline, render_yaml

from .strategies import ENGINE_KINDS, deployments, keys, scalars, written

values = st.recursive(
    st.none() | scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def says(text: str) -> Any:
    """What a text says, which must be without problems."""
    reading = read_plain(text, "test")
    assert reading.problems == ()
    return reading.value


@given(deployment=deployments)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_rendered_deployment_parses_to_the_same(deployment: Deployment) -> None:
    text = render_deployment(deployment)
    assert parse_deployment(text, "test", engine_kinds=ENGINE_KINDS) == deployment


@given(value=st.dictionaries(keys, values, min_size=1, max_size=3))
@settings(deadline=None)
def test_rendered_values_read_as_the_same(value: Any) -> None:
    assert repr(says(render_yaml(value))) == repr(value)


@given(value=scalars | st.lists(scalars, max_size=3) | st.none())
@settings(deadline=None)
def test_a_value_behind_its_colon_is_one_line(value: Any) -> None:
    text = render_inline(value)
    assert "\n" not in text
    assert repr(says(f"key: {text} # behind")) == repr({"key": value})


@given(data=st.data(), value=st.dictionaries(keys, values, min_size=1, max_size=3))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_values_can_be_written_in_many_ways(data: st.DataObject, value: Any) -> None:
    assert repr(says(data.draw(written(value)))) == repr(value)


def test_only_what_was_set_is_written() -> None:
    deployment = Deployment.model_validate(
        {"name": "a", "model": "hf:a/b", "engine": {"kind": "vllm"}, "serve": {"port": 30000}}
    )
    assert render_deployment(deployment) == (
        "name: a\nmodel: hf:a/b\nengine:\n  kind: vllm\nserve:\n  port: 30000\n"
    )


def test_text_that_older_readers_take_for_something_else_is_in_quotes() -> None:
    assert render_inline("on") == '"on"'
    assert render_inline("12:30") == '"12:30"'
    assert render_inline("2026-11-29") == '"2026-11-29"'
    assert render_inline("hf:a/b") == "hf:a/b"
