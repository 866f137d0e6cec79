"""What a model's card asks for, and whether an installed engine has it."""

from __future__ import annotations

import pytest

from stoker.knowledge.changes import load_asked
from stoker.model.facts import Unknown
from stoker.recipes.notes.card import is_met, parse_card, parse_requirements
from tests.recipes.notes.notes import case


def test_a_card() -> None:
    card = parse_card(case("card.md"))
    assert [
        (each.package, each.kind, each.versions, each.number) for each in card.requirements
    ] == [
        ("vllm", "change", ">=0.22.0", 42650),
        ("vllm", "release", ">=0.22.0", 0),
        ("sglang", "change", "", 99999),
        ("sglang", "change", ">=0.5.16", 28715),
        ("transformers", "release", ">=5.2", 0),
        ("vllm", "release", ">=0.21.0", 0),
    ]
    assert card.precisions == ("nvfp4",)
    assert card.tensor_sizes == (4, 8)
    assert card.context_tokens == (262144,)
    assert card.base_models == ("Some/Base-32B",)
    assert [command.model for command in card.commands] == ["Some/Model-NVFP4"]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Requires vLLM >= 0.18.0.", ("vllm", "release", ">=0.18.0")),
        ("**vLLM**: Version 0.18.0 or later", ("vllm", "release", ">=0.18.0")),
        ("You need vLLM 0.27+.", ("vllm", "release", ">=0.27")),
        ("requires SGLang v0.5.9", ("sglang", "release", ">=0.5.9")),
        ("`sglang>=0.5.9`", ("sglang", "release", ">=0.5.9")),
        ("pip install 'vllm[audio]>=0.20'", ("vllm", "release", ">=0.20")),
        ("Needs transformers≥5.2", ("transformers", "release", ">=5.2")),
        ("It requires the vLLM nightly.", ("vllm", "unreleased", "")),
        ("Please install SGLang from source.", ("sglang", "unreleased", "")),
        ("Support landed in vLLM PR #41129.", ("vllm", "change", ">=0.21.0")),
        ("Needs https://github.com/sgl-project/sglang/pull/18489", ("sglang", "change", ">=0.5.9")),
    ],
)
def test_sentences(sentence: str, found: tuple[str, str, str]) -> None:
    (requirement,) = parse_requirements(sentence)
    assert (requirement.package, requirement.kind, requirement.versions) == found
    assert requirement.sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "vLLM is fast.",
        "We measured 0.18.0 seconds.",
        "See vllm-project/vllm#41129 for the numbers.",
        "vLLM-Omni must include [#5720](https://github.com/vllm-project/vllm-omni/pull/5720).",
        "It beats GPT-4 by 0.22.0 points with transformers.",
    ],
)
def test_sentences_that_ask_for_nothing(sentence: str) -> None:
    assert parse_requirements(sentence) == ()


def test_whether_it_is_met() -> None:
    (asked,) = parse_requirements("Requires vLLM >= 0.18.0.")
    assert is_met(asked, {"vllm": "0.19.1"}) is True
    assert is_met(asked, {"vllm": "0.11.0"}) is False
    commit = Unknown(reason="it was built from a commit")
    assert is_met(asked, {"vllm": commit}) is commit
    assert isinstance(is_met(asked, {}), Unknown)
    (unmapped,) = parse_requirements("It requires SGLang PR #99999.")
    answer = is_met(unmapped, {"sglang": "0.5.23"})
    assert isinstance(answer, Unknown)
    assert "99999" in answer.reason


def test_every_change_is_found_by_its_number() -> None:
    asked = load_asked()
    for change in asked.change:
        package = next(row for row in asked.package if row.kind == change.engine)
        text = f"Requires {package.name} with PR #{change.number}."
        (found,) = parse_requirements(text)
        assert found.versions == f">={change.release}"
