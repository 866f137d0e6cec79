"""Bytes of weights on each GPU, and the classes of tensors that they follow from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.derived.ranks import Division, division_of, rank_bytes, sum_classes
from stoker.knowledge.tensor_classes import OTHER, class_of, load_tensor_classes
from stoker.model.facts import Unknown

CLASSES = {
    "model.embed_tokens.weight": "vocabulary",
    "lm_head.weight": "vocabulary",
    "transformer.wte.weight": "vocabulary",
    "model.norm.weight": "norms",
    "backbone.norm_f.weight": "norms",
    "model.layers.*.input_layernorm.weight": "norms",
    "model.layers.*.self_attn.q_norm.weight": "norms",
    "model.layers.*.self_attn.q_proj.weight": "attention",
    "model.layers.*.self_attn.o_proj.weight_scale_inv": "attention",
    "model.layers.*.self_attn.sinks": "attention",
    "transformer.h.*.attn.c_attn.weight": "attention",
    "model.layers.*.self_attn.k_proj.bias": "keys",
    "language_model.model.layers.*.self_attn.v_proj.weight": "keys",
    "backbone.layers.*.mixer.k_proj.weight": "keys",
    "model.layers.*.self_attn.q_a_proj.weight": "latent",
    "model.layers.*.self_attn.kv_a_proj_with_mqa.weight_scale_inv": "latent",
    "model.layers.*.self_attn.kv_b_proj.weight": "attention",
    "backbone.layers.*.mixer.fc1_latent_proj.weight": "latent",
    "model.layers.*.self_attn.indexer.wk.weight": "indexer",
    "layers.*.attn.compressor.wgate.weight": "indexer",
    "model.layers.*.mlp.gate.weight": "routers",
    "model.layers.*.mlp.gate.e_score_correction_bias": "routers",
    "model.layers.*.mlp.router.weight": "routers",
    "model.layers.*.mlp.shared_expert_gate.weight": "routers",
    "model.layers.*.mlp.gate_proj.weight": "dense",
    "model.layers.*.mlp.gate_up_proj.weight": "dense",
    "model.layers.*.mlp.experts.*.gate_proj.weight": "experts",
    "model.layers.*.mlp.experts.gate_up_proj_blocks": "experts",
    "model.layers.*.block_sparse_moe.experts.*.w1.weight": "experts",
    "model.layers.*.mlp.shared_experts.down_proj.weight": "shared experts",
    "model.layers.*.mlp.shared_expert.gate_proj.weight": "shared experts",
    "backbone.layers.*.mixer.shared_experts.up_proj.weight": "shared experts",
    "model.layers.*.linear_attn.in_proj_qkvz.weight": "state",
    "model.layers.*.linear_attn.A_log": "state",
    "backbone.layers.*.mixer.in_proj.weight": "state",
    "model.layers.+.mlp.experts.*.down_proj.weight": "draft",
    "model.layers.+.eh_proj.weight": "draft",
    "mtp.layers.*.self_attn.q_proj.weight": "draft",
    "model.visual.blocks.*.attn.qkv.weight": "vision",
    "vision_tower.vision_model.encoder.layers.*.self_attn.k_proj.weight": "vision",
    "blk.*.ffn_gate_exps.weight": "experts",
    "blk.*.attn_q.weight": "attention",
    "token_embd.weight": "vocabulary",
    "zork.weight": "other",
}


@pytest.mark.parametrize("form", CLASSES)
def test_classes_by_name(form: str) -> None:
    assert class_of(form).name == CLASSES[form]


def test_every_class_has_an_example() -> None:
    assert {row.name for row in load_tensor_classes()} | {OTHER.name} == set(CLASSES.values())


def form(name: str, size: int) -> list[Any]:
    return [name, "BF16", 1, size]


MODEL = [
    form("model.embed_tokens.weight", 800),
    form("model.layers.*.self_attn.q_proj.weight", 1600),
    form("model.layers.*.self_attn.k_proj.weight", 400),
    form("model.layers.*.mlp.experts.*.up_proj.weight", 6400),
    form("model.layers.*.mlp.gate.weight", 10),
    form("model.layers.+.eh_proj.weight", 64),
]


def test_one_gpu_holds_all_but_the_draft() -> None:
    assert rank_bytes(MODEL, Division()) == 800 + 1600 + 400 + 6400 + 10
    assert rank_bytes(MODEL, Division(has_draft=True)) == 800 + 1600 + 400 + 6400 + 10 + 64


def test_what_is_split_and_what_is_not() -> None:
    assert rank_bytes(MODEL, Division(tensor=8)) == 100 + 200 + 50 + 800 + 10


def test_key_heads_are_repeated_where_there_are_too_few() -> None:
    assert rank_bytes(MODEL, Division(tensor=8, kv_heads=2)) == 100 + 200 + 200 + 800 + 10


def test_experts_are_dealt_out_whole() -> None:
    division = Division(tensor=4, expert=4, experts=64)
    assert rank_bytes(MODEL, division) == 200 + 400 + 100 + 1600 + 10
    # Of ten experts among four ranks one rank has three.
    uneven = Division(tensor=4, expert=4, experts=10)
    assert rank_bytes(MODEL, uneven) == 200 + 400 + 100 + 1920 + 10
    assert (
        rank_bytes(MODEL, Division(tensor=1, expert=8, experts=64)) == 800 + 1600 + 400 + 800 + 10
    )


def test_without_headers_nobody_can_tell() -> None:
    assert isinstance(rank_bytes(None, Division()), Unknown)
    assert isinstance(sum_classes(None), Unknown)


def test_sums_by_class_are_all_there_is() -> None:
    sums = sum_classes(MODEL)
    assert isinstance(sums, dict)
    assert list(sums) == ["experts", "attention", "vocabulary", "keys", "draft", "routers"]
    assert sum(sums.values()) == sum(size for *_, size in MODEL)


def test_a_division_takes_what_the_checkpoint_knows() -> None:
    known = division_of({"kv_heads": 8, "experts": 64}, tensor=4, expert=2)
    assert known == Division(tensor=4, expert=2, kv_heads=8, experts=64)
    unsaid = Unknown(reason="nobody knows")
    assert division_of({"kv_heads": unsaid, "experts": None}, tensor=4) == Division(tensor=4)


FORMS = st.lists(
    st.tuples(
        st.sampled_from(sorted(CLASSES)), st.just("BF16"), st.just(1), st.integers(0, 10**12)
    ),
    max_size=20,
)


@given(FORMS, st.integers(1, 64), st.integers(1, 64), st.integers(1, 16))
def test_no_rank_holds_less_than_its_share_nor_more_than_all(
    forms: list[Any], tensor: int, expert: int, kv_heads: int
) -> None:
    one = rank_bytes(forms, Division())
    division = Division(tensor=tensor, expert=expert, kv_heads=kv_heads, experts=128)
    held = rank_bytes(forms, division)
    assert isinstance(one, int)
    assert isinstance(held, int)
    assert one <= held * max(tensor, expert)
    assert held <= one


# What engines measured while they loaded real weights; they keep some more for themselves.

GIB = 1 << 30
LLAMA_8B = [
    form("model.embed_tokens.weight", 2 * 128256 * 4096),
    form("lm_head.weight", 2 * 128256 * 4096),
    form("model.layers.*.self_attn.q_proj.weight", 32 * 2 * 4096 * 4096),
    form("model.layers.*.self_attn.k_proj.weight", 32 * 2 * 4096 * 1024),
    form("model.layers.*.self_attn.v_proj.weight", 32 * 2 * 4096 * 1024),
    form("model.layers.*.self_attn.o_proj.weight", 32 * 2 * 4096 * 4096),
    form("model.layers.*.mlp.gate_proj.weight", 32 * 2 * 4096 * 14336),
    form("model.layers.*.mlp.up_proj.weight", 32 * 2 * 4096 * 14336),
    form("model.layers.*.mlp.down_proj.weight", 32 * 2 * 4096 * 14336),
    form("model.layers.*.input_layernorm.weight", 65 * 2 * 4096),
]
DEEPSEEK_R1 = [
    form("model.embed_tokens.weight", 2 * 129280 * 7168),
    form("lm_head.weight", 2 * 129280 * 7168),
    form("model.layers.*.self_attn.q_a_proj.weight", 61 * 7168 * 1536),
    form("model.layers.*.self_attn.q_b_proj.weight", 61 * 1536 * 128 * 192),
    form("model.layers.*.self_attn.kv_a_proj_with_mqa.weight", 61 * 7168 * 576),
    form("model.layers.*.self_attn.kv_b_proj.weight", 61 * 512 * 128 * 256),
    form("model.layers.*.self_attn.o_proj.weight", 61 * 128 * 128 * 7168),
    form("model.layers.*.mlp.gate_proj.weight", 3 * 3 * 7168 * 18432),
    form("model.layers.*.mlp.experts.*.gate_proj.weight", 58 * 256 * 3 * 7168 * 2048),
    form("model.layers.*.mlp.shared_experts.gate_proj.weight", 58 * 3 * 7168 * 2048),
    form("model.layers.*.mlp.gate.weight", 58 * 2 * 256 * 7168),
    form("model.layers.+.mlp.experts.*.gate_proj.weight", 256 * 3 * 7168 * 2048),
]
MEASURED = {
    "Llama 3.1 8B on one H200, SGLang 0.5.17": (LLAMA_8B, 1, 15.02),
    "Llama 3.1 8B on two H200, SGLang 0.5.17": (LLAMA_8B, 2, 7.54),
    "DeepSeek R1 in FP8 on sixteen GPUs, SGLang 0.5.10 or later": (DEEPSEEK_R1, 16, 41.72),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_sum_is_what_engines_measured_and_a_little_less(name: str) -> None:
    forms, tensor, measured_gib = MEASURED[name]
    held = rank_bytes(forms, Division(tensor=tensor, kv_heads=8 if forms is LLAMA_8B else 128))
    assert isinstance(held, int)
    assert 0.95 * measured_gib <= held / GIB <= measured_gib
