"""Drafting: what is set is read, what it needs is looked for, and what contradicts it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.derived.chosen import derive_settings
from stoker.knowledge.derived.speculation import derive_speculation, parse_config, read_wish
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.knowledge.lifetimes import load_lifetimes
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.knowledge.speculation import load_speculation
from stoker.model.facts import Unknown
from stoker.model.launch import Origin, Setting
from tests.knowledge.cases import make_deployment, make_facts

NEWEST = {"sglang": "0.5.23", "vllm": "0.33.0", "llamacpp": "b11549"}
MODEL: Mapping[str, Any] = {
    "draft_layers": 0,
    "vocabulary": 151_936,
    "context_tokens": 262_144,
    "has_linear_attention": False,
    "class": "Qwen3MoeForCausalLM",
    "is_moe": True,
}


def make_subject(
    engine: str,
    release: str,
    settings: Mapping[str, Any],
    draft: str | None,
    env: Mapping[str, str],
) -> Subject:
    catalogue = load_catalogue(engine, release or NEWEST[engine])
    kind = "llamacpp" if engine == "llamacpp" else "sglang"
    table = replace(load_engine_table(kind), kind=engine, catalogue=catalogue)
    deployment = make_deployment(
        engine={"kind": "sglang", "environment": "path:/opt/engine"}, draft=draft
    )
    made = [
        Setting(name=f"--{name}", value=str(value), origin=Origin.USER, reason="")
        for name, value in settings.items()
    ]
    variables = [
        Setting(name=name, value=value, origin=Origin.USER, reason="", kind="env")
        for name, value in env.items()
    ]
    return Subject(
        deployment=deployment,
        facts=make_facts(),
        table=table,
        build=catalogue.build,
        settings=[*made, *variables],
    )


def derive(
    settings: Mapping[str, Any],
    *,
    engine: str = "sglang",
    release: str = "",
    draft: str | None = None,
    checkpoint: Mapping[str, Any] = MODEL,
) -> dict[str, Any]:
    subject = make_subject(engine, release, settings, draft, {})
    return derive_speculation(subject, checkpoint=checkpoint, settings=derive_settings(subject))


def blocked(
    settings: Mapping[str, Any], *, release: str, env: Mapping[str, str], **checkpoint: Any
) -> set[str]:
    """The rules about drafting that forbid it."""
    subject = make_subject("sglang", release, settings, "hf:org/eagle3-head", env)
    model = {**MODEL, **checkpoint}
    values = derive_settings(subject)
    tree = {
        "deployment": subject.deployment.model_dump(mode="json"),
        "stack": {"version": release},
        "checkpoint": model,
        "settings": values,
        "env": {"SGLANG_ENABLE_SPEC_V2": None, **env},
        "speculation": derive_speculation(subject, checkpoint=model, settings=values),
    }
    rules = [rule for rule in load_rules() if rule.id.startswith("speculative.")]
    return {each.rule for each in evaluate_rules(rules, tree, stage="plan") if each.blocks}


def eagle(steps: int, width: int, tokens: int) -> dict[str, Any]:
    return {
        "speculative-algorithm": "EAGLE3",
        "speculative-num-steps": steps,
        "speculative-eagle-topk": width,
        "speculative-num-draft-tokens": tokens,
    }


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_methods_are_those_that_the_releases_list(engine: str) -> None:
    """Where a release lists the methods, the table has exactly these."""
    table = load_speculation()
    flags = table.engine[engine]
    for release in load_lifetimes(engine).releases:
        option = load_catalogue(engine, release).find(flags.method)
        if option is None or not option.choices:
            continue
        known = {
            name for name, method in table.method[engine].items() if method.span.holds(release)
        }
        assert known == set(option.choices) - {"None"}, release


def test_no_drafting_says_nothing() -> None:
    said = derive({})
    assert (said["is_on"], said["method"], said["problems"]) == (False, None, [])
    assert (said["is_tree"], said["lacks_draft"], said["could_draft"]) == (False, False, False)
    assert derive({}, checkpoint={**MODEL, "draft_layers": 1})["could_draft"] is True
    unread = Unknown(reason="not here")
    assert derive({}, checkpoint={**MODEL, "draft_layers": unread})["could_draft"] is unread


def test_chains_and_trees_are_counted() -> None:
    chain = derive(eagle(2, 1, 3), draft="hf:org/eagle3-head")
    assert (chain["is_tree"], chain["is_off_by_one"], chain["is_incomplete"]) == (
        False,
        False,
        False,
    )
    wrong = derive(eagle(2, 1, 8), draft="hf:org/eagle3-head")
    assert (wrong["is_off_by_one"], wrong["right_tokens"]) == (True, 3)
    tree = derive(eagle(3, 4, 16), draft="hf:org/eagle3-head")
    assert (tree["is_tree"], tree["capacity"], tree["is_beyond_tree"]) == (True, 37, False)
    assert derive(eagle(2, 2, 16))["is_beyond_tree"] is True
    assert derive({"speculative-algorithm": "EAGLE", "speculative-num-steps": 3})["is_incomplete"]


def test_topk_two_is_a_limit_of_the_engine() -> None:
    overlapped = {"SGLANG_ENABLE_SPEC_V2": "1"}
    two = eagle(2, 2, 5)
    assert blocked(two, release="0.5.9", env=overlapped) == {"speculative.tree-with-overlap"}
    assert blocked(two, release="0.5.9", env={}) == set()
    assert blocked(eagle(2, 1, 3), release="0.5.9", env=overlapped) == set()
    assert blocked(two, release="0.5.23", env={}) == set()


def test_public_failures_are_forbidden() -> None:
    missing = {"speculative-algorithm": "EAGLE3", "speculative-num-steps": 3}
    assert blocked(missing, release="0.5.18", env={}) == {"speculative.numbers-incomplete"}
    hybrid = blocked(eagle(3, 1, 4), release="0.5.10", env={}, has_linear_attention=True)
    assert hybrid == {"speculative.hybrid-without-snapshots"}
    trtllm = {**eagle(3, 4, 16), "attention-backend": "trtllm_mha"}
    assert blocked(trtllm, release="0.5.23", env={}) == {"speculative.tree-with-trtllm"}
    assert blocked({**eagle(3, 1, 4), "pp-size": 2}, release="0.5.9", env={}) == {
        "speculative.stages-old"
    }
    assert blocked({"speculative-algorithm": "DFLASH"}, release="0.5.9", env={}) == {
        "speculative.unknown-method"
    }


def test_who_drafts_must_be_there() -> None:
    assert derive({"speculative-algorithm": "EAGLE3"})["lacks_draft"] is True
    assert derive({"speculative-algorithm": "EAGLE3"}, draft="hf:org/x")["lacks_draft"] is False
    own = {**MODEL, "draft_layers": 1}
    assert derive({"speculative-algorithm": "NEXTN"}, checkpoint=own)["lacks_draft"] is False
    assert derive({"speculative-algorithm": "NEXTN"})["lacks_draft"] is True
    unread = {**MODEL, "draft_layers": Unknown(reason="not here")}
    found = derive({"speculative-algorithm": "EAGLE"}, checkpoint=unread)["lacks_draft"]
    assert isinstance(found, Unknown)
    ngram = derive({"speculative-algorithm": "NGRAM"}, draft="hf:org/x")
    assert (ngram["lacks_draft"], ngram["idle_draft"]) == (False, True)


def test_a_draft_tells_what_it_is_made_for() -> None:
    head = "hf:lightseekorg/Kimi-K2.5-EAGLE3"
    assert derive({}, draft=head)["fitting"] == "EAGLE3"
    assert derive({"speculative-algorithm": "EAGLE"}, draft=head)["wrong_head"] == "EAGLE3"
    assert derive({"speculative-algorithm": "EAGLE3"}, draft=head)["wrong_head"] is None
    assert derive({}, draft="hf:Qwen/Qwen3-0.6B")["fitting"] == "STANDALONE"
    assert derive({}, engine="vllm", draft="hf:z-lab/Qwen3-8B-DFlash")["fitting"] == "dflash"
    assistant = derive(
        {"speculative-algorithm": "EAGLE"}, draft="hf:google/gemma-4-31B-it-assistant"
    )
    assert (assistant["fitting"], assistant["wrong_head"]) == ("NEXTN", None)


def test_the_draft_is_compared_with_the_model() -> None:
    said = derive({"speculative-algorithm": "STANDALONE"}, draft="hf:org/small")
    assert isinstance(said["is_other_vocabulary"], Unknown)
    assert isinstance(said["is_short"], Unknown)
    assert derive({"speculative-algorithm": "NGRAM"})["is_short"] is False


def vllm(config: object, release: str = "", **checkpoint: Any) -> dict[str, Any]:
    text = config if isinstance(config, str) else json.dumps(config)
    return derive(
        {"speculative-config": text},
        engine="vllm",
        release=release,
        checkpoint={**MODEL, **checkpoint},
    )


def test_the_object_is_read() -> None:
    said = vllm({"method": "mtp", "num_speculative_tokens": 2}, draft_layers=1)
    assert (said["method"], said["tokens"], said["problems"]) == ("mtp", 2, [])
    said = vllm({"method": "qwen3_next_mtp", "num-speculative-tokens": 2}, draft_layers=1)
    assert (said["method"], said["tokens"], said["problems"]) == ("mtp", 2, [])
    eagle3 = vllm({"model": "org/Llama-EAGLE3", "num_speculative_tokens": 3})
    assert (eagle3["method"], eagle3["has_draft"], eagle3["lacks_draft"]) == ("eagle3", True, False)
    assert vllm({"model": "ngram", "num_speculative_tokens": 3})["method"] == "ngram"
    assert vllm({"model": "org/small", "num_speculative_tokens": 3})["method"] == "draft_model"


@pytest.mark.parametrize(
    ("config", "release", "problem"),
    [
        ("{", "", "it is not JSON"),
        ("[1]", "", "it is not a JSON object"),
        ("[" * 9_000, "", "it is not JSON"),
        ("{}" + " " * 30_000, "", "it is not a JSON object"),
        ({"method": "ngram"}, "", "ngram needs num_speculative_tokens"),
        ({"method": "ngram", "num_speculative_tokens": 0}, "",
         "num_speculative_tokens is 0, and must be a number above zero"),
        ({"method": "mtp", "num_speculative_tokens": 3}, "",
         "num_speculative_tokens is 3, no multiple of the 2 draft layers"),
        ({"method": "ngram", "num_speculative_tokens": 3, "num_spec": 1}, "",
         "there is no key num_spec"),
        ({"method": "suffix", "disable_by_batch_size": 4}, "",
         "the key disable_by_batch_size was there until 0.16.0, and this is 0.33.0"),
        ({"method": "ngram", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"}, "0.19.1",
         "the key kv_cache_dtype comes with 0.25.1, and this is 0.19.1"),
        ({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2,
          "prompt_lookup_min": 4}, "", "prompt_lookup_min is 4, more than prompt_lookup_max 2"),
        ({"method": "ngram", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 3}, "",
         "draft_tensor_parallel_size is 3, and must be 1 or the model's own"),
    ],
)  # fmt: skip
def test_problems_of_the_object(config: object, release: str, problem: str) -> None:
    assert problem in vllm(config, release, draft_layers=2)["problems"]


@pytest.mark.parametrize(
    ("method", "release", "lacking"),
    [
        ("medusa", "0.33.0", "medusa was there until 0.32.0, and this is 0.33.0"),
        ("dflash", "0.11.0", "dflash comes with 0.20.0, and this is 0.11.0"),
        ("draft_model", "0.12.0",
         "draft_model is a name in 0.12.0 that it cannot run; >=0.15 can"),
        ("magic", "0.33.0", "magic is none of its ways to draft"),
        ("eagle3", "0.33.0", None),
    ],
)  # fmt: skip
def test_methods_of_other_releases(method: str, release: str, lacking: str | None) -> None:
    said = vllm({"method": method, "model": "m/x", "num_speculative_tokens": 1}, release)
    assert said["lacking"] == lacking


def test_flags_of_the_newer_releases_say_the_same() -> None:
    said = derive({"spec-method": "ngram", "spec-tokens": 4}, engine="vllm")
    assert (said["method"], said["tokens"], said["problems"]) == ("ngram", 4, [])


def test_llama_cpp_has_a_word_for_none() -> None:
    assert derive({"spec-type": "none"}, engine="llamacpp")["is_on"] is False
    assert derive({"spec-type": "draft-simple"}, engine="llamacpp")["lacks_draft"] is True
    assert derive({"spec-type": "ngram-mod"}, engine="llamacpp")["lacks_draft"] is False


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["method", "model", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(text=st.text(max_size=200) | PLAIN.map(json.dumps))
def test_whatever_stands_in_the_object_is_answered(text: str) -> None:
    told, fault = parse_config(text)
    assert (told is None) == bool(fault)
    said = vllm(text)
    assert isinstance(said["problems"], list)
    assert (said["method"] is None) != said["is_on"]
    read_wish("vllm", {"speculative-config": text, "spec-tokens": "x"})
