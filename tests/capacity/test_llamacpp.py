"""llama.cpp's buffers, as its logs print them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.gguf_dimensions import read_gguf_shape
from stoker.capacity.inputs import (
    Attention,
    Gpu,
    Host,
    Inputs,
    LlamaSettings,
    Settings,
    SettingsParts,
    Shape,
)
from stoker.capacity.llamacpp import Cache, size_cache
from stoker.capacity.predict import predict
from stoker.model.capacity import MemoryMap, Span
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


def cache_of(shape: Shape, *, context: int, kind: str = "", sequences: int | None = 1) -> Cache:
    """Of a start with these; ``sequences`` None for a server that is not told."""
    parts = SettingsParts(llama=LlamaSettings(sequences=sequences))
    settings = Settings(context_tokens=context, kv_type=kind, value_type=kind, parts=parts)
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


HYBRID: dict[str, Plain] = {
    **SMALL,
    "architecture": "qwen3next",
    "block_count": 16,
    "ssm_state_size": 128,
    "ssm_group_count": 16,
    "ssm_time_step_rank": 32,
    "ssm_inner_size": 4096,
    "ssm_conv_kernel": 4,
}


def test_states_are_for_each_sequence() -> None:
    found = cache_of(read_gguf_shape(HYBRID), context=4096, sequences=2)
    assert found.state_bytes == 2 * 12 * (3 * 8192 + 128 * 4096) * 4
    assert found.kv_bytes == 4 * 4096 * 2 * 3 * 64 * 2


def test_a_server_that_is_not_told_serves_four_in_one_cache() -> None:
    """Logged: n_parallel = 4, kv_unified = true."""
    shape = read_gguf_shape({**SMALL, "architecture": "gemma3", "sliding_window": 512})
    found = cache_of(shape, context=8192, sequences=None)
    assert (found.cells, found.window_cells, found.sequences) == (8192, 4 * 512 + 512, 4)
    assert cache_of(shape, context=8192, sequences=4).window_cells == 1024
    states = cache_of(read_gguf_shape(HYBRID), context=4096, sequences=None)
    assert states.state_bytes == cache_of(read_gguf_shape(HYBRID), context=4096).state_bytes * 4


def test_values_do_not_follow_keys() -> None:
    """Logged: K (q4_0) 12.66 MiB, V (f16) 45.00 MiB for 4,096 cells."""
    settings = Settings(context_tokens=4096, kv_type="q4_0")
    inputs = replace(plain(SMALL), settings=settings)
    found = size_cache(inputs)
    assert isinstance(found, Cache)
    assert found.kv_bytes / MIB == pytest.approx(12.65625 + 45)


def plain(seen: dict[str, Plain]) -> Inputs:
    """Nothing is set."""
    shape = read_gguf_shape(seen)
    return Inputs(name="x", engine="llamacpp", release="b1", shape=shape, gpus=())


def test_a_context_that_nobody_set() -> None:
    """Logged: without one the server has 8,192 cells, and for two requests 8,192 for each."""
    inputs = plain(SMALL)
    two = SettingsParts(llama=LlamaSettings(sequences=2))
    known = replace(inputs, weight_bytes=98 * MIB, host=Host(available_bytes=4096 * MIB))
    found = predict(replace(known, settings=Settings(parts=two)))
    assert found.kv_tokens is not None
    assert (found.kv_tokens.low, found.kv_tokens.high) == (16384, 16384)
    assert found.context_tokens == 8192
    assert not [note for note in found.unknown if "shortens" in note]
    full = predict(replace(known, host=Host(available_bytes=1100 * MIB)))
    assert full.kv_tokens is not None
    assert (full.kv_tokens.low, full.kv_tokens.high) == (4096, 8192)
    assert [note for note in full.unknown if "shortens" in note]


def test_one_request_is_no_longer_than_its_part_and_the_model() -> None:
    for context, sequences, expected in ((8192, 4, 2048), (20000, 2, 8192), (1000, None, 1024)):
        parts = SettingsParts(llama=LlamaSettings(sequences=sequences))
        settings = Settings(context_tokens=context, parts=parts)
        found = predict(replace(plain(SMALL), settings=settings))
        assert found.context_tokens == expected


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"architecture": "gemma2"}, {None: 15, 4096: 15}),
        ({"architecture": "gemma2", "sliding_window": 1024}, {None: 15, 1024: 15}),
        ({"architecture": "gemma3", "sliding_window": 512}, {None: 5, 512: 25}),
        ({"architecture": "gemma3"}, {None: 30}),
        (
            {"architecture": "gemma3", "sliding_window": 512, "sliding_window_pattern": 3},
            {None: 10, 512: 20},
        ),
        ({"architecture": "gpt-oss", "sliding_window": 128}, {None: 15, 128: 15}),
        ({"architecture": "llama4"}, {None: 7, 8192: 23}),
        ({"architecture": "llama4", "sliding_window": 0}, {None: 30}),
        ({"architecture": "smallthinker", "sliding_window": 9}, {None: 8, 4096: 22}),
        ({"architecture": "phi3", "sliding_window": 2047}, {None: 30}),
    ],
)
def test_windows_follow_the_architecture(
    changes: dict[str, Plain], windows: dict[int | None, int]
) -> None:
    shape = read_gguf_shape({**SMALL, **changes})
    assert not shape.unknown
    assert {kind.window_tokens: kind.layers for kind in shape.attention} == windows


def test_older_files_of_latent_models_keep_their_heads() -> None:
    latent: dict[str, Plain] = {
        **SMALL,
        "architecture": "deepseek2",
        "kv_lora_rank": 512,
        "rope_dimension_count": 64,
        "head_count_kv": 1,
        "key_length": 576,
        "value_length": 512,
    }
    (kind,) = read_gguf_shape(latent).attention
    assert kind.latent_width == 512
    older = {"head_count": 128, "head_count_kv": 128, "key_length": 192, "value_length": 128}
    (kind,) = read_gguf_shape({**latent, **older}).attention
    assert (kind.latent_width, kind.kv_heads, kind.key_width) == (0, 128, 192)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sliding_window": 1024}, "which layers of llama have a window"),
        ({"ssm_state_size": 16}, "which layers of llama keep a state"),
        ({"architecture": "jamba", "head_count_kv": [0, 3]}, "head_count_kv of layer 2"),
        ({"architecture": "mamba"}, "sizes of its recurrent states"),
        ({"architecture": "deepseek32", "indexer_head_count": 4}, "index of sparse attention"),
        ({"head_count_kv": (1 << 32) - 1}, "4294967295 heads of keys in layer 0 cannot be"),
        ({"head_count": [2, 4], "head_count_kv": 5}, "5 heads of keys"),
        ({"block_count": None}, "the layers are not known"),
        ({"block_count": 1 << 20}, "a model of"),
        ({"key_length": None, "embedding_length": None}, "heads of the attention"),
    ],
)
def test_what_is_not_described_is_refused(changes: dict[str, Plain], words: str) -> None:
    shape = read_gguf_shape({**SMALL, **changes})
    assert words in shape.unknown
    found = predict(replace(plain(SMALL), shape=shape))
    assert found.kv_tokens is None
    assert words in found.unknown[0]


def test_it_needs_no_gpu() -> None:
    shape = read_gguf_shape(SMALL)
    inputs = Inputs(name="x", engine="llamacpp", release="b1", shape=shape, gpus=())
    found = predict(inputs)
    assert found.kv_tokens is not None
    assert found.kv_tokens.likely == 8192
    assert predict(replace(inputs, shape=read_shape({}))).kv_tokens is None


def test_gpus_share_the_cache_by_whole_layers() -> None:
    gpu = Gpu(total_bytes=24 * 1024 * MIB, free_bytes=23 * 1024 * MIB)
    whole = predict(replace(plain(SMALL), gpus=(gpu,), weight_bytes=98 * MIB))
    parts = predict(replace(plain(SMALL), gpus=(gpu, gpu), weight_bytes=49 * MIB))
    assert whole.kv_tokens == parts.kv_tokens
    (one,) = (_pool(each) for each in whole.maps if each.rank is not None)
    first, second = (_pool(each) for each in parts.maps if each.rank is not None)
    assert first == second
    assert first.likely == one.likely / 2
    assert first.low == one.low * 14 / 30
    assert first.high == one.high * 16 / 30


def _pool(gpu_map: MemoryMap) -> Span:
    (size,) = (part.predicted_bytes for part in gpu_map.parts if part.part == "kv_pool")
    assert size is not None
    return size
