"""Parallel sizes: what may be divided how, what is chosen, and what is said about what is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.derived.divisions import CHECKS
from stoker.knowledge.derived.parallel import derive_parallel
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.knowledge.parallel import load_parallel
from stoker.model.facts import Unknown
from tests.knowledge.cases import make_deployment, make_facts

GB = 10**9
H200 = {"memory_bytes": 150_754_820_096}
PRO_6000 = {"memory_bytes": 102_641_958_912}
UNREAD = Unknown(reason="its files are not here")

DENSE: Mapping[str, Any] = {
    "attention": "gqa",
    "heads": 64,
    "kv_heads": 8,
    "head_width": 128,
    "vocabulary": 151_936,
    "intermediate_width": 25_600,
    "is_moe": False,
    "quantization": "none",
    "quantization_block": None,
    "quantization_group": None,
    "weight_bytes": 65 * GB,
}
MOE: Mapping[str, Any] = {
    **DENSE,
    "is_moe": True,
    "experts": 256,
    "expert_width": 1536,
    "shared_expert_width": None,
    "dense_layers": 0,
    "heads": 48,
    "vocabulary": 200_064,
    "quantization": "fp8-block",
    "quantization_block": [128, 128],
    "weight_bytes": 230 * GB,
}
#: 397 billion parameters in NVFP4, with linear attention in three layers of four.
NVFP4: Mapping[str, Any] = {
    **MOE,
    "heads": 32,
    "kv_heads": 2,
    "head_width": 256,
    "experts": 512,
    "expert_width": 1024,
    "shared_expert_width": 1024,
    "vocabulary": 248_320,
    "linear_key_heads": 16,
    "linear_value_heads": 64,
    "quantization": "nvfp4",
    "quantization_block": None,
    "quantization_group": 16,
    "weight_bytes": 223 * GB,
}


def derive(
    checkpoint: Mapping[str, Any],
    *,
    engine: str = "sglang",
    gpus: Any = 8,
    hardware: Mapping[str, Any] = PRO_6000,
    release: str = "",
    **settings: Any,
) -> dict[str, Any]:
    newest = {"sglang": "0.5.23", "vllm": "0.33.0"}[engine]
    catalogue = load_catalogue(engine, release or newest)
    table = replace(load_engine_table("sglang"), kind=engine, catalogue=catalogue)
    deployment = make_deployment(
        gpus=gpus, engine={"kind": "sglang", "environment": "path:/opt/sglang"}
    )
    subject = Subject(
        deployment=deployment, facts=make_facts(), table=table, build=catalogue.build, settings=()
    )
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return derive_parallel(
        subject, hardware={"count": 8, **hardware}, checkpoint=checkpoint, settings=named
    )


def test_every_row_names_a_check() -> None:
    rows = load_parallel().constraints
    assert {row.check for row in rows} == set(CHECKS)
    assert {row.engine for row in rows} == set(load_parallel().engine)


def test_the_largest_size_that_comes_out_even_is_chosen() -> None:
    assert derive(DENSE)["allowed"] == [1, 2, 4, 8]
    assert derive(DENSE)["tensor"] == 8
    assert derive(DENSE, gpus=3)["tensor"] == 2
    assert derive(DENSE, gpus=[0, 1, 5])["tensor"] == 2
    assert derive(DENSE, gpus="all")["tensor"] == 8
    assert derive(DENSE, gpus="all", hardware={"count": 6, **PRO_6000})["tensor"] == 4


def test_without_gpus_nothing_is_chosen() -> None:
    none = derive(DENSE, gpus="none", hardware={"count": 0, "memory_bytes": None})
    assert (none["count"], none["tensor"], none["problems"]) == (None, None, [])
    unread = Unknown(reason="nvidia-smi is silent")
    unknown = derive(DENSE, gpus="all", hardware={"count": unread, "memory_bytes": unread})
    assert unknown["tensor"] is unread
    assert derive(DENSE, gpus=4, hardware={"count": unread, "memory_bytes": unread})["tensor"] == 4


def test_a_model_that_nobody_has_seen_gets_all_gpus() -> None:
    unseen = derive(dict.fromkeys(MOE, UNREAD), tp_size=8)
    assert unseen["tensor"] == 8
    assert unseen["allowed"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert unseen["problems"] is UNREAD
    assert unseen["fewest"] is UNREAD


def test_a_part_that_is_unknown_hides_no_other() -> None:
    mixture = {**MOE, "quantization": UNREAD, "heads": 52}
    assert derive(mixture, tp_size=8)["problems"] == [
        "52 attention heads cannot be divided among 8 GPUs"
    ]
    assert derive(mixture, ep_size=1, tp_size=4)["tensor"] == 4
    assert derive({**mixture, "heads": 48}, tp_size=4)["problems"] == []
    assert derive({**mixture, "heads": 48}, tp_size=8)["problems"] is UNREAD


def test_fewer_gpus_that_hold_the_weights_are_told() -> None:
    said = derive(NVFP4, tp_size=8)
    assert (said["tensor"], said["fewest"], said["replicas"]) == (8, 4, 2)
    assert (said["would_do"], said["is_idle"]) == (True, False)
    half = derive(NVFP4, tp_size=4)
    assert (half["ranks"], half["idle"], half["copies"]) == (4, 4, 2)
    assert (half["is_idle"], half["would_do"]) == (True, False)
    shared = derive(NVFP4, tp_size=8, ep_size=8)
    assert (shared["fewest"], shared["fewest_expert"], shared["would_do"]) == (4, 4, True)
    assert derive(NVFP4, tp_size=8, ep_size=2)["fewest_expert"] == 2
    assert said["fewest_expert"] is None
    both = derive(NVFP4, tp_size=4, dp_size=2)
    assert (both["ranks"], both["is_idle"], both["is_too_many"]) == (8, False, False)


def test_weights_beyond_all_gpus_are_told() -> None:
    trillion = {**NVFP4, "weight_bytes": 547 * GB}
    assert derive(trillion, gpus=4)["is_too_small"] is True
    assert [derive(trillion, gpus=count)["is_hopeless"] for count in (4, 5, 6)] == [
        True,
        True,
        False,
    ]
    assert derive(trillion, gpus=6)["is_too_small"] is True
    assert derive({**trillion, "weight_bytes": UNREAD}, gpus=1)["is_hopeless"] is False
    assert derive(trillion, gpus=8)["is_too_small"] is False
    assert derive(trillion, gpus=8)["fewest"] == 8
    assert derive(trillion, gpus=8)["needed"] == 7
    beyond = derive({**trillion, "weight_bytes": 9_000 * GB})
    assert (beyond["fewest"], beyond["is_too_small"]) == (None, True)


def test_a_block_of_the_quantization_is_not_cut() -> None:
    said = derive(MOE, engine="vllm", tensor_parallel_size=8)
    assert said["problems"] == [
        (
            "an expert width of 1536 on 8 GPUs is 192 on each, "
            "not a multiple of 128 as its quantization needs"
        )
    ]
    assert (said["allowed"], said["tensor"], said["needs_expert"]) == ([1, 2, 4], 8, True)
    shared = derive(MOE, engine="vllm", tensor_parallel_size=8, enable_expert_parallel=True)
    assert shared["problems"] == []
    assert shared["tensor"] == 8


def test_experts_are_shared_where_nothing_else_holds_the_model() -> None:
    small = {"memory_bytes": 48 * GB}
    for engine in ("sglang", "vllm"):
        said = derive(MOE, engine=engine, hardware=small)
        assert (said["tensor"], said["expert"], said["needs_expert"]) == (8, 8, True)
    set_by_hand = derive(MOE, hardware=small, ep_size=2)
    assert (set_by_hand["needs_expert"], set_by_hand["tensor"]) == (False, 8)


def test_experts_are_shared_over_the_ranks_that_are_set() -> None:
    assert derive(MOE, tp_size=4)["needs_expert"] is False
    whole = derive(MOE, tp_size=8)
    assert (whole["needs_expert"], whole["expert"]) == (True, 8)
    other = derive({**MOE, "expert_width": 384}, tp_size=4)
    assert (other["needs_expert"], other["expert"]) == (True, 4)


def test_doubts_are_avoided_and_never_forbid() -> None:
    step = {**MOE, "expert_width": 1280, "shared_expert_width": 1280, "weight_bytes": 100 * GB}
    said = derive(step, hardware=H200, gpus=4, tp_size=4)
    assert "an expert width of 1280 on 4 GPUs is 320 on each" in said["problems"][0]
    doubtful = {**step, "expert_width": 2048}
    said = derive(doubtful, hardware=H200, gpus=4, tp_size=4)
    assert said["problems"] == []
    assert "a shared expert's width of 1280 on 4 GPUs is 320 on each" in said["doubts"][0]
    assert (said["allowed"], said["tensor"]) == ([1, 2, 4], 2)
    only = derive({**doubtful, "weight_bytes": 400 * GB}, hardware=H200, gpus=4)
    assert only["tensor"] == 4


@pytest.mark.parametrize(
    ("engine", "part", "value", "tensor", "problem"),
    [
        ("vllm", "heads", 52, 8, "52 attention heads cannot be divided among 8 GPUs"),
        ("sglang", "kv_heads", 6, 4, "6 key-value heads cannot be divided among 4 GPUs"),
        ("sglang", "kv_heads", 3, 4, "3 key-value heads cannot be repeated evenly on 4 GPUs"),
        ("vllm", "vocabulary", 100, 12, "a vocabulary of 128 cannot be divided among 12 GPUs"),
        ("sglang", "vocabulary", 100, 8, ""),
        ("sglang", "linear_key_heads", 6, 4,
         "6 heads of linear attention cannot be divided among 4 GPUs"),
        ("sglang", "expert_width", 1000, 16,
         "an expert width of 1000 cannot be divided among 16 GPUs"),
    ],
)  # fmt: skip
def test_problems(engine: str, part: str, value: int, tensor: int, problem: str) -> None:
    flag = {"sglang": "tp_size", "vllm": "tensor_parallel_size"}[engine]
    settings: dict[str, Any] = {flag: tensor}
    said = derive(
        {**NVFP4, "quantization": "none", "heads": 48, part: value}, engine=engine, **settings
    )
    assert problem in (said["problems"] or [""])


def test_latent_attention_has_no_key_heads_to_divide() -> None:
    mla = {**DENSE, "attention": "mla", "kv_heads": 1, "heads": 128}
    assert derive(mla, tp_size=8)["problems"] == []


def test_groups_of_attention_divide_the_ranks() -> None:
    few = {**DENSE, "heads": 4, "kv_heads": 4}
    assert derive(few, tp_size=8)["problems"]
    grouped = derive(few, tp_size=8, dp_size=8, enable_dp_attention=True)
    assert (grouped["problems"], grouped["ranks"]) == ([], 8)
    assert derive(few, tp_size=8, attn_dp_size=8)["problems"] == []
    assert derive(few, tp_size=8, attn_dp_size=3)["problems"][-1] == (
        "8 ranks cannot be shared by 3 groups"
    )


def test_groups_of_experts_divide_ranks_and_experts() -> None:
    assert derive(MOE, tp_size=8, ep_size=8)["problems"] == []
    assert derive(MOE, tp_size=4, ep_size=3)["problems"][:2] == [
        "4 ranks cannot be divided among 3 groups of experts",
        "256 experts cannot be divided among 3 groups",
    ]


def test_copies_of_vllm_share_the_width_of_experts() -> None:
    alone = derive(MOE, engine="vllm", tensor_parallel_size=4)
    assert alone["problems"] == []
    copies = derive(MOE, engine="vllm", tensor_parallel_size=4, data_parallel_size=2)
    assert "192 on each" in copies["problems"][0]


def test_ranks_are_counted_with_stages_copies_and_machines() -> None:
    assert derive(DENSE, tp_size=8, pp_size=2)["is_too_many"] is True
    assert derive(DENSE, tp_size=8, pp_size=2, nnodes=2)["is_too_many"] is False
    said = derive(DENSE, pp_size=2)
    assert said["tensor"] == 4
    local: dict[str, Any] = {
        "tensor_parallel_size": 8,
        "data_parallel_size": 4,
        "data_parallel_size_local": 1,
    }
    assert derive(DENSE, engine="vllm", **local)["ranks"] == 8


def test_marlin_pads_in_newer_releases() -> None:
    awkward = {**DENSE, "quantization": "awq", "quantization_group": 64, "intermediate_width": 1600}
    old = derive(awkward, engine="vllm", release="0.19.1", tensor_parallel_size=1)
    assert "not a multiple of 128" in old["doubts"][0]
    assert derive(awkward, engine="vllm", tensor_parallel_size=1)["doubts"] == []


def test_a_certain_row_is_not_inferred() -> None:
    rows = load_parallel().constraints
    assert not [row for row in rows if row.certain and row.source.kind == "inferred"]


COUNTS = st.none() | st.sampled_from([UNREAD, 0, -4, 1, 7, 8, 64, 1 << 40, True, "x", 2.5])


@given(
    checkpoint=st.fixed_dictionaries(dict.fromkeys(NVFP4, COUNTS)),
    engine=st.sampled_from(["sglang", "vllm"]),
    gpus=st.sampled_from(["none", "all", 1, 3, 8]),
    asked=COUNTS,
)
def test_absurd_models_give_an_answer(
    checkpoint: dict[str, Any], engine: str, gpus: Any, asked: Any
) -> None:
    settings = {"tp_size": asked, "tensor_parallel_size": asked, "ep_size": asked, "dp_size": asked}
    said = derive(checkpoint, engine=engine, gpus=gpus, **settings)
    tensor = said["tensor"]
    assert tensor is None or isinstance(tensor, Unknown) or 1 <= tensor <= 64


@given(learnt=st.frozensets(st.sampled_from(sorted(NVFP4))), tensor=st.integers(1, 16))
def test_learning_more_of_a_model_turns_no_verdict(learnt: frozenset[str], tensor: int) -> None:
    few = {part: value if part in learnt else UNREAD for part, value in NVFP4.items()}
    before = derive(few, tp_size=tensor)["problems"]
    after = derive(NVFP4, tp_size=tensor)["problems"]
    assert isinstance(before, Unknown) or bool(before) == bool(after)
