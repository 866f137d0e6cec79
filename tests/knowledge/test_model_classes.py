"""Which releases have a model's class, as it was read, and what is said of one that lacks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.knowledge.derived.classes import derive_classes
from stoker.knowledge.describe import describe
from stoker.knowledge.lifetimes import Lifetimes, load_lifetimes
from stoker.knowledge.model_classes import ModelClasses, load_model_classes, model_class_engines
from stoker.model.deployment import Deployment
from stoker.model.facts import Unknown
from stoker.model.finding import Source
from tests.knowledge.cases import make_facts
from tests.knowledge.subjects import judge, make_subject

RULE, FOREIGN = "checkpoint.class-not-in-release", "checkpoint.class-unknown"
STACK = {"version": "0.5.9", "commit": None}


def make_classes(**changes: Any) -> ModelClasses:
    releases = ("1.0", "1.1", "1.2")
    registered = {
        "OldForCausalLM": ("1.0", "1.0"),
        "NewForCausalLM": ("1.2", "1.2"),
        "EverForCausalLM": ("1.0", "1.2"),
    }
    made = ModelClasses(
        source=Source(kind="documented", where="the packages", version="1.2"),
        registered=Lifetimes(engine="it", releases=releases, flags=registered),
        named=Lifetimes(engine="it", releases=releases, flags={"AliasModel": ("1.1", "1.2")}),
        endings=("ForCausalLM", "RewardModel", "Model"),
    )
    return replace(made, **changes)


def load(engine: str) -> ModelClasses:
    found = load_model_classes(engine)
    assert found is not None
    return found


def derive(names: list[str], version: str, engine: str = "sglang", **stack: Any) -> dict[str, Any]:
    subject = make_subject(engine, load_lifetimes(engine).releases[-1], "9.0", config(*names))
    return derive_classes(
        subject, checkpoint={"class": names[0]}, stack={**STACK, "version": version, **stack}
    )


def config(*names: str) -> dict[str, Any]:
    return {"architectures": list(names), "model_type": "llama", "num_hidden_layers": 2}


@pytest.mark.parametrize("engine", model_class_engines())
def test_releases_are_known_ones(engine: str) -> None:
    found = load(engine)
    assert set(found.releases) <= set(load_lifetimes(engine).releases)
    assert len(found.releases) >= 25
    ends = [end for spans in found.registered.flags.values() for end in spans]
    assert set(ends) <= set(found.releases)


@pytest.mark.parametrize(
    ("engine", "name", "since"),
    [
        ("sglang", "LlamaForCausalLM", "0.5.6"),
        ("sglang", "Qwen3_5MoeForConditionalGeneration", "0.5.9"),
        ("sglang", "DeepseekV4ForCausalLM", "0.5.12"),
        ("sglang", "DeepseekV4ForCausalLMNextN", "0.5.12"),
        ("vllm", "LlamaForCausalLM", "0.11.0"),
        ("vllm", "Qwen3_5MoeForConditionalGeneration", "0.17.0"),
        ("vllm", "DeepseekV4ForCausalLM", "0.20.0"),
        ("vllm", "BertModel", "0.11.0"),
        ("vllm", "Eagle3LlamaForCausalLM", "0.11.0"),
    ],
)
def test_what_was_read(engine: str, name: str, since: str) -> None:
    found = load(engine).find(name)
    assert found is not None
    assert (found.first, found.last) == (since, load(engine).releases[-1])


def test_an_engine_that_was_not_read() -> None:
    assert load_model_classes("llamacpp") is None


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("NewForCausalLM", "1.2", True),
        ("NewForCausalLM", "1.2+cu130", True),
        ("NewForCausalLM", "1.1", False),
        ("NewForCausalLM", "1.0.5", False),
        ("NewForCausalLM", "1.2.dev3+gabc", None),
        ("OldForCausalLM", "1.0.post1", True),
        ("OldForCausalLM", "1.1", False),
        ("OldForCausalLM", "1.3", None),
        ("EverForCausalLM", "1.3", True),
        ("EverForCausalLM", "0.9", None),
        ("EverForCausalLM", "main", None),
        ("EverRewardModel", "1.1", True),
        ("EverModel", "1.1", True),
        ("OtherModel", "1.1", False),
        ("AliasModel", "1.0", False),
        ("AliasModel", "1.1", True),
    ],
)
def test_a_class_in_a_version(name: str, version: str, expected: bool | None) -> None:
    assert make_classes().has_in(name, version) is expected


def test_a_class_that_came_later() -> None:
    found = derive(["DeepseekV4ForCausalLM"], "0.5.9")
    assert found["model"] == {
        "name": "DeepseekV4ForCausalLM",
        "is_known": False,
        "since": "0.5.12",
        "until": "0.5.23",
    }
    assert found["missing"] == ["DeepseekV4ForCausalLM (since 0.5.12)"]
    assert found["foreign"] == []


def test_a_class_that_was_dropped() -> None:
    found = derive(["MiniMaxM1ForCausalLM"], "0.33.0", "vllm")
    assert found["missing"] == ["MiniMaxM1ForCausalLM (0.11.0 to 0.23.0)"]


def test_the_first_class_that_the_engine_has_counts() -> None:
    found = derive(["NovaForCausalLM", "LlamaForCausalLM"], "0.5.9")
    assert (found["model"]["is_known"], found["missing"], found["foreign"]) == (True, [], [])


def test_a_class_that_no_release_has() -> None:
    found = derive(["NovaForCausalLM"], "0.5.9")
    assert (found["missing"], found["foreign"]) == ([], ["NovaForCausalLM"])
    assert (found["first"], found["last"]) == ("0.5.6", "0.5.23")


@pytest.mark.parametrize(
    "stack", [{"commit": "abc"}, {"version": "9.9"}, {"version": Unknown(reason="not there")}]
)
def test_a_build_that_nobody_read(stack: dict[str, Any]) -> None:
    found = derive(["NovaForCausalLM"], **{"version": "0.5.9", **stack})
    for part in (found["model"]["is_known"], found["missing"], found["foreign"]):
        assert isinstance(part, Unknown)


def test_a_build_from_a_commit_has_what_its_release_has() -> None:
    assert derive(["LlamaForCausalLM"], "0.5.9", commit="abc")["model"]["is_known"] is True


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("NovaForCausalLMEagle9", []),
        (
            "DeepseekV4ForCausalLMDSpark",
            ["DeepseekV4ForCausalLMDSpark of the draft (since 0.5.16)"],
        ),
    ],
)
def test_the_class_of_a_draft(name: str, missing: list[str]) -> None:
    subject = make_subject("sglang", "0.5.12", "9.0", config("LlamaForCausalLM"))
    model = subject.facts.read("model")
    draft: Any = {"format": "safetensors", "path": "/m/d", "config": config(name)}
    data = {**subject.deployment.model_dump(mode="json"), "draft": "path:/m/d"}
    changed = replace(
        subject,
        deployment=Deployment.model_validate(data),
        facts=make_facts(model=model, draft=draft),
    )
    classes: Any = describe(changed)["classes"]
    assert classes["missing"] == missing
    assert classes["foreign"] == []


@pytest.mark.parametrize(
    ("engine", "release", "name", "rule"),
    [
        ("sglang", "0.5.9", "DeepseekV4ForCausalLM", RULE),
        ("sglang", "0.5.7", "Qwen3_5MoeForConditionalGeneration", RULE),
        ("sglang", "0.5.9", "Qwen3_5MoeForConditionalGeneration", None),
        ("vllm", "0.19.1", "DeepseekV4ForCausalLM", RULE),
        ("vllm", "0.33.0", "DeepseekV4ForCausalLM", None),
        ("vllm", "0.33.0", "NovaForCausalLM", FOREIGN),
    ],
)
def test_what_a_plan_says(engine: str, release: str, name: str, rule: str | None) -> None:
    found = judge(make_subject(engine, release, "9.0", config(name)))
    fired = {each for each in (RULE, FOREIGN) if each in found}
    assert fired == ({rule} if rule else set())
    if rule:
        assert f" {name} (" in found[rule].summary
        assert not found[rule].blocks


def test_another_implementation_was_chosen() -> None:
    subject = make_subject(
        "sglang", "0.5.9", "9.0", config("DeepseekV4ForCausalLM"), model_impl="transformers"
    )
    assert RULE not in judge(subject)
