"""Single rules of the engines' pools."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Batch,
    Gpu,
    Inputs,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
    Shape,
    Speculation,
    StateSettings,
)
from stoker.capacity.predict import predict
from stoker.capacity.state_pools import size_state_pool, state_bytes
from tests.capacity.configs import GIB, H100, H200, HYBRID, LLAMA_8B, SPARSE, gemma


def tokens(inputs: Inputs) -> float:
    found = predict(inputs).kv_tokens
    assert found is not None
    return found.likely


def sglang(shape: Shape, release: str, **settings: object) -> Inputs:
    made = Inputs(
        name="x",
        engine="sglang",
        release=release,
        shape=shape,
        gpus=(H200,),
        settings=Settings(memory_share=0.8),
        readings=Readings(free_before_bytes=139 * GIB, free_after_bytes=100 * GIB),
    )
    return replace(made, settings=replace(made.settings, **settings))  # type: ignore[arg-type]


def test_more_ranks_than_heads_make_copies() -> None:
    inputs = sglang(read_shape(LLAMA_8B), "0.5.8")
    eight = replace(inputs, ranks=Ranks(tensor=8), gpus=(H200,) * 8)
    sixteen = replace(inputs, ranks=Ranks(tensor=16), gpus=(H200,) * 16)
    assert tokens(eight) == tokens(sixteen) == pytest.approx(8 * tokens(inputs), rel=1e-5)


def test_groups_have_tokens_of_their_own() -> None:
    whole = replace(
        sglang(read_shape({**SPARSE, "index_head_dim": None}), "0.5.8"),
        ranks=Ranks(tensor=8),
        gpus=(H200,) * 8,
    )
    grouped = replace(whole, ranks=Ranks(tensor=8, attention_groups=8))
    assert tokens(grouped) == pytest.approx(8 * tokens(whole), rel=1e-4)


def test_sparse_attention_in_8_bit_was_budgeted_too_low() -> None:
    """Planned 167.8 and allocated 186.77 GiB with 0.5.9: a factor of 788 / 708."""
    shape = read_shape(SPARSE)
    old = predict(sglang(shape, "0.5.9", kv_type="fp8_e4m3"))
    new = predict(sglang(shape, "0.5.17", kv_type="fp8_e4m3"))
    assert old.token_bytes == 708 * 78
    assert new.token_bytes == 788 * 78
    pool = next(part for part in old.maps[0].parts if part.part == "kv_pool").predicted_bytes
    assert pool is not None
    assert old.kv_tokens is not None
    assert pool.likely / (old.kv_tokens.likely * 708 * 78) == pytest.approx(788 / 708)


def test_four_bits_have_scales() -> None:
    inputs = sglang(read_shape(LLAMA_8B), "0.5.13")
    four = replace(inputs, settings=replace(inputs.settings, kv_type="fp4_e2m1"))
    assert tokens(four) / tokens(inputs) == pytest.approx(2 / 0.5625, rel=1e-4)


def test_sliding_layers_have_a_pool_where_the_class_is_listed() -> None:
    listed = sglang(gemma(full=5, sliding=25), "0.5.12", window_ratio=0.1)
    found = predict(listed)
    assert found.token_bytes == 20480 * 2  # one rank: twice the heads of two
    other = gemma(full=5, sliding=25, name="Gemma3ForConditionalGeneration")
    assert predict(replace(listed, shape=other)).token_bytes == 5 * 4096 + 25 * 8192


def test_sliding_layers_are_capped_by_requests_without_reuse() -> None:
    inputs = sglang(gemma(full=5, sliding=25), "0.5.17", has_prefix_reuse=False)
    parts = SettingsParts(batch=Batch(requests=4))
    capped = replace(inputs, settings=replace(inputs.settings, parts=parts))
    assert tokens(capped) > 5 * tokens(inputs)


def test_state_bytes_of_the_log() -> None:
    """3,015 slots of 1.24 and 53.02 GiB."""
    each = state_bytes(read_shape(HYBRID), Ranks(), "")
    assert 3015 * each / GIB == pytest.approx(54.26, abs=0.02)
    assert state_bytes(read_shape(HYBRID), Ranks(), "bfloat16") < 0.52 * each


def test_state_slots_by_release() -> None:
    shape = read_shape(HYBRID)
    drafted = SettingsParts(
        batch=Batch(requests=64),
        state=StateSettings(slots=64),
        speculation=Speculation(kind="dflash", tokens=16, layers=0),
    )
    pools = {
        release: size_state_pool(sglang(shape, release, parts=drafted), 90.0 * GIB)
        for release in ("0.5.6", "0.5.8", "0.5.13", "0.5.17")
    }
    each = state_bytes(shape, Ranks(), "")
    assert pools["0.5.6"].drafted_bytes == 64 * 16 * each
    assert pools["0.5.8"].drafted_bytes == 64 * 16 * each
    assert pools["0.5.13"].drafted_bytes == 64 // 5 * 16 * each
    assert pools["0.5.17"].drafted_bytes == (64 // 5 + 1) * 16 * each
    assert pools["0.5.17"].slots == 65


def test_the_draft_model_is_priced_since_0_5_14() -> None:
    drafted = SettingsParts(
        speculation=Speculation(kind="eagle", tokens=4, layers=1, weight_bytes=0)
    )
    old = sglang(read_shape(LLAMA_8B), "0.5.13", parts=drafted)
    new = replace(old, release="0.5.14")
    assert predict(old).token_bytes == 131_072
    assert predict(new).token_bytes == 131_072 * 33 / 32


def test_pictures_are_kept_room_for_since_0_5_18() -> None:
    shape = read_shape({**LLAMA_8B, "vision_config": {"depth": 2, "hidden_size": 64}})
    lost = tokens(sglang(shape, "0.5.17")) - tokens(sglang(shape, "0.5.18"))
    assert lost == pytest.approx(100 * 1024 * 1024 / 131_072, abs=1)


def test_vllm_groups_of_layers_draw_from_one_pool() -> None:
    """Logged with 0.20.0 and with a later build: 177,440 and 336,566 tokens."""
    shape = gemma(full=5, sliding=25)
    inputs = Inputs(
        name="x",
        engine="vllm",
        release="0.20.0",
        shape=shape,
        gpus=(Gpu(total_bytes=128 * GIB),),
        settings=Settings(context_tokens=8192, parts=SettingsParts(batch=Batch(batch_tokens=4096))),
        readings=Readings(pool_bytes=int(40.61 * GIB)),
    )
    assert tokens(inputs) == pytest.approx(177_440, rel=2e-4)
    later = replace(inputs, release="0.32.0")
    assert tokens(later) == pytest.approx(35.75 * 8192, rel=2e-3)


def test_vllm_has_room_for_what_a_step_needs() -> None:
    """Logged with 0.19.0 on H100: 418,688 tokens of Qwen3-8B's sizes at a share of 0.95."""
    config = {
        **LLAMA_8B,
        "num_hidden_layers": 36,
        "intermediate_size": 12288,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
    }
    inputs = Inputs(
        name="x",
        engine="vllm",
        release="0.19.0",
        shape=read_shape(config),
        gpus=(H100,),
        settings=Settings(memory_share=0.95, context_tokens=8192),
    )
    assert tokens(inputs) == pytest.approx(418_688, rel=0.005)


def test_a_given_pool_is_taken() -> None:
    inputs = Inputs(
        name="x",
        engine="vllm",
        release="0.32.0",
        shape=read_shape(LLAMA_8B),
        gpus=(H100,),
        settings=Settings(kv_bytes=131_072 * 16_000, context_tokens=8000),
    )
    assert tokens(inputs) == 16_000
