"""llama.cpp's buffers, as its logs print them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.gguf_dimensions import read_gguf_shape
from stoker.capacity.inputs import (
    Attention,
    Inputs,
    LlamaSettings,
    Settings,
    SettingsParts,
    Shape,
)
from stoker.capacity.llamacpp import Cache, size_cache
from stoker.capacity.predict import predict
from stoker.model.facts import Plain

MIB = 1 << 20
SMALL: dict[str, Plain] = {
    "format": "gguf",
    "architecture": "llama",
    "block_count": 30,
    "head_count": 9,
    "head_count_kv": 3,
    "key_length": 64,
    "value_length": 64,
    "embedding_length": 576,
    "feed_forward_length": 1536,
    "vocabulary_size": 49152,
    "context_length": 8192,
}


def cache_of(shape: Shape, *, context: int, kind: str = "", sequences: int = 1) -> Cache:
    parts = SettingsParts(llama=LlamaSettings(sequences=sequences))
    settings = Settings(context_tokens=context, kv_type=kind, parts=parts)
    inputs = Inputs(
        name="x", engine="llamacpp", release="b1", shape=shape, gpus=(), settings=settings
    )
    found = size_cache(inputs)
    assert isinstance(found, Cache)
    return found


def test_four_sequences_in_4_bit() -> None:
    """Logged: 50.62 MiB, 2,048 cells for each of four."""
    found = cache_of(read_gguf_shape(SMALL), context=8192, kind="q4_0", sequences=4)
    assert found.kv_bytes / MIB == pytest.approx(50.625)
    assert found.cells == 8192


def test_a_latent_cache_has_keys_alone() -> None:
    """Published: 1,166.62 MiB for 61 layers at 32,768 tokens in q8_0."""
    latent = Attention(
        layers=61, kv_heads=128, key_width=192, value_width=128, latent_width=512, rope_width=64
    )
    shape = replace(read_gguf_shape(SMALL), attention=(latent,))
    found = cache_of(shape, context=32768, kind="q8_0")
    assert found.kv_bytes / MIB == pytest.approx(1166.62, abs=0.01)


def test_cells_are_padded() -> None:
    assert cache_of(read_gguf_shape(SMALL), context=1000).cells == 1024


def test_sliding_layers_keep_less() -> None:
    wide = Attention(layers=2, kv_heads=1, key_width=64, value_width=64)
    slim = replace(wide, layers=10, window_tokens=1024)
    shape = replace(read_gguf_shape(SMALL), attention=(wide, slim))
    found = cache_of(shape, context=65536)
    assert found.window_cells == 1536
    assert found.kv_bytes == (2 * 65536 + 10 * 1536) * 256


def test_states_are_for_each_sequence() -> None:
    seen = {
        **SMALL,
        "head_count_kv": [0, 0, 0, 2] * 4,
        "block_count": 16,
        "full_attention_interval": 4,
        "ssm_state_size": 128,
        "ssm_group_count": 16,
        "ssm_time_step_rank": 32,
        "ssm_inner_size": 4096,
        "ssm_conv_kernel": 4,
    }
    found = cache_of(read_gguf_shape(seen), context=4096, sequences=2)
    assert found.state_bytes == 2 * 12 * (3 * 8192 + 128 * 4096) * 4


def test_a_file_that_tells_too_little() -> None:
    assert read_gguf_shape({**SMALL, "sliding_window": 1024}).unknown
    assert read_gguf_shape({"format": "gguf"}).unknown


def test_it_needs_no_gpu() -> None:
    shape = read_gguf_shape(SMALL)
    inputs = Inputs(name="x", engine="llamacpp", release="b1", shape=shape, gpus=())
    found = predict(inputs)
    assert found.kv_tokens is not None
    assert found.kv_tokens.likely == 8192
    assert predict(replace(inputs, shape=read_shape({}))).kv_tokens is None
