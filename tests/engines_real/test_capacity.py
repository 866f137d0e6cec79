"""What is predicted of an engine's memory is what the engine finds at its start.

Exact where the engine only computes; where it looks at what the machine has free, within the bounds
that were told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.capacity.llamacpp import output_bytes, step_bytes
from stoker.model.facts import Plain
from tests.engines.environment import ensure_environment, ensure_model
from tests.engines_real.starts import (
    Started,
    load_small_models,
    predict_only,
    read_start,
    start,
    write_small_model,
)

MIB, GIB = 1 << 20, 1 << 30
#: Logs have two decimals, and those of llama.cpp one line for each kind of layers.
_MIB_ROUNDING = 0.0051 * MIB
_GIB_ROUNDING = 0.0051 * GIB
_SMALL = load_small_models()

# --- llama.cpp ---


def of_llamacpp(model: Path, settings: Mapping[str, Plain]) -> dict[str, Plain]:
    return {
        "model": f"path:{model}",
        "engine.kind": "llamacpp",
        "engine.environment": f"path:{ensure_environment()}",
        "engine.settings": {"threads": 1, "verbosity": 4, **settings},
    }


def start_llamacpp(model: Path, settings: Mapping[str, Plain], *, until: str) -> Started:
    return start(of_llamacpp(model, settings), until=until, seconds=60.0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"parallel": 2},
        {"ctx-size": 0, "parallel": 4, "no-kv-unified": True},
        {"ctx-size": 1000},
        {"ctx-size": 1000, "parallel": 3},
        {"ctx-size": 4096, "parallel": 3, "kv-unified": True},
        {"ctx-size": 5000, "parallel": 2, "cache-type-k": "q8_0", "cache-type-v": "q8_0"},
        {"ctx-size": 4096, "parallel": 1, "cache-type-k": "q4_0", "ubatch-size": 128},
        {"ctx-size": 4096, "parallel": 1, "cache-type-k": "q5_1", "cache-type-v": "iq4_nl"},
        {"ctx-size": 2048, "cache-type-k": "f32", "cache-type-v": "bf16"},
        {"ctx-size": 300, "parallel": 1, "batch-size": 64},
        {"ctx-size": 4096, "flash-attn": "off"},
        {"ctx-size": 20000, "parallel": 2},
        {"ctx-size": 16384, "parallel": 64},
    ],
    ids=str,
)
def test_llamacpp_has_what_was_predicted(engines: Path, settings: Mapping[str, Plain]) -> None:
    found = start_llamacpp(ensure_model(), settings, until="load_model: initializing, n_slots")
    tokens = found.capacity.kv_tokens
    assert tokens is not None
    assert tokens.low == tokens.high == found.value("kv_tokens")
    assert found.capacity.context_tokens == found.value("context_tokens")
    assert found.pool.requests == found.value("max_running_requests")
    assert found.pool.pool_bytes.likely == pytest.approx(found.value("kv_bytes"), abs=_MIB_ROUNDING)
    assert found.inputs.weight_bytes == pytest.approx(
        found.value("weight_bytes"), abs=_MIB_ROUNDING
    )
    output = found.find(r"output buffer size = +([\d.]+) MiB") * MIB
    assert output_bytes(found.inputs) == pytest.approx(output, abs=_MIB_ROUNDING)
    step = step_bytes(found.inputs)
    assert step is not None
    assert step.low <= found.value("activation_bytes") + output <= step.high


@pytest.mark.parametrize(
    "settings",
    [
        {"ctx-size": 8192, "parallel": 2},
        {"ctx-size": 8192},
        {"ctx-size": 16384, "parallel": 3, "kv-unified": True, "ubatch-size": 64},
        {"ctx-size": 9000, "parallel": 2, "swa-full": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", _SMALL)
def test_llamacpp_keeps_of_each_layer_what_was_predicted(
    engines: Path, name: str, settings: Mapping[str, Plain], tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.gguf"
    write_small_model(_SMALL[name], path)
    found = start_llamacpp(path, {"fit": "off", **settings}, until="compute buffer size")
    assert not found.inputs.shape.unknown
    tokens = found.capacity.kv_tokens
    assert tokens is not None
    assert tokens.low == tokens.high == found.value("kv_tokens")
    told = found.value("kv_bytes") or 0
    assert found.pool.pool_bytes.likely == pytest.approx(told, abs=2 * _MIB_ROUNDING)
    state = found.pool.state_bytes.likely if found.pool.state_bytes is not None else 0.0
    assert state == pytest.approx(found.value("state_bytes") or 0, abs=_MIB_ROUNDING)
    window = [line for line in found.lines if "creating     SWA KV cache" in line]
    keeps_all = settings.get("swa-full") is True
    if window and not keeps_all:
        assert found.pool.window_tokens == found.find(r"creating +SWA KV cache, size = (\d+)")
    assert bool(window) == any(kind.window_tokens for kind in found.inputs.shape.attention)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gemma4", {"cache-type-k": "q8_0"}, "does not divide n_embd_head_k=16"),
        ("deepseek2", {"cache-type-k": "q8_0"}, "does not support different K"),
    ],
)
def test_llamacpp_does_not_start_where_that_was_said(
    engines: Path, name: str, settings: Mapping[str, Plain], words: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.gguf"
    write_small_model(_SMALL[name], path)
    changes = of_llamacpp(path, {"fit": "off", "ctx-size": 8192, **settings})
    found = predict_only(changes)
    assert found.kv_tokens is None
    assert "does not start" in found.unknown[0]
    assert words in "\n".join(read_start(changes, until="exiting due to", seconds=60.0))


# --- SGLang ---


def of_sglang(engines: Path, settings: Mapping[str, Plain], **more: Plain) -> dict[str, Plain]:
    package = "sglang-0.5.23"
    need(engines, package)
    return {
        "model": f"path:{engines / 'models' / 'smollm2-hf'}",
        "engine.kind": "sglang",
        "engine.environment": f"path:{engines / package}",
        "engine.settings": {"attention-backend": "torch_native", **settings},
        "engine.env": {
            "SGLANG_USE_CPU_ENGINE": "1",
            "SGLANG_CPU_OMP_THREADS_BIND": "0",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        **more,
    }


def need(engines: Path, package: str) -> None:
    if not (engines / package / ".built").is_file():
        pytest.skip(f"{package} is not built; `make test-engines` builds it")


def test_sglang_has_the_tokens_that_are_set_and_twice_as_many_in_host_memory(
    engines: Path,
) -> None:
    settings: dict[str, Plain] = {
        "max-total-tokens": 16391,
        "page-size": 16,
        "enable-hierarchical-cache": True,
    }
    changes = of_sglang(
        engines, settings, **{"serve.context_tokens": 2048, "serve.parallel_requests": 4}
    )
    # On a processor it goes no further: the host's pool is locked by CUDA.
    found = start(changes, until="GB host memory")
    assert_tokens(found, exactly=16384)
    assert found.pool.requests == found.value("max_running_requests") == 4
    assert found.value("kv_bytes") == pytest.approx(
        found.pool.pool_bytes.likely, abs=2 * _GIB_ROUNDING
    )
    cache = found.capacity.host_cache
    assert cache is not None
    assert cache.tokens.low == cache.tokens.high == found.value("host_cache_tokens") == 32784
    assert found.value("host_cache_bytes") == pytest.approx(cache.rank_bytes.likely, abs=0.006e9)
    assert any("locks the cache in host memory" in note for note in found.capacity.unknown)


def test_sglang_serves_half_as_many_requests_as_it_has_tokens(engines: Path) -> None:
    settings: dict[str, Plain] = {"max-total-tokens": 1001}
    found = start(
        of_sglang(engines, settings, **{"serve.context_tokens": 512}),
        until="max_total_num_tokens=",
    )
    assert_tokens(found, exactly=1001)
    assert found.pool.requests == found.value("max_running_requests") == 500


def test_sglang_finds_a_share_of_what_is_free(engines: Path) -> None:
    settings: dict[str, Plain] = {"mem-fraction-static": 0.2, "page-size": 64}
    found = start(
        of_sglang(engines, settings, **{"serve.context_tokens": 4096}),
        until="max_total_num_tokens=",
    )
    assert_tokens(found, exactly=None)
    assert found.value("kv_tokens") % 64 == 0
    assert found.pool.requests == found.value("max_running_requests")


def test_sglang_in_8_bit_is_told_to_need_what_few_processors_have(engines: Path) -> None:
    settings: dict[str, Plain] = {"max-total-tokens": 1024, "kv-cache-dtype": "fp8_e4m3"}
    found = predict_only(of_sglang(engines, settings))
    assert any("AMX" in note for note in found.unknown)


# --- vLLM ---


def of_vllm(
    engines: Path, settings: Mapping[str, Plain], *, space: str = "", **more: Plain
) -> dict[str, Plain]:
    package = "vllm-0.32.0"
    need(engines, package)
    given = {"VLLM_CPU_KVCACHE_SPACE": space} if space else {}
    return {
        "model": f"path:{engines / 'models' / 'smollm2-hf'}",
        "engine.kind": "vllm",
        "engine.environment": f"path:{engines / package}",
        "engine.settings": {"enforce-eager": True, **settings},
        "engine.env": {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", **given},
        **more,
    }


def test_vllm_has_the_cache_that_its_environment_sets(engines: Path) -> None:
    settings: dict[str, Plain] = {"kv-cache-memory-bytes": 1 << 29}
    changes = {**of_vllm(engines, settings, space="1"), "serve.context_tokens": 2048}
    found = start(changes, until="KV cache size: ")
    assert_tokens(found, exactly=46592)
    assert found.value("kv_bytes") == found.pool.pool_bytes.likely == GIB
    # No number of requests is set: the default of a processor's build.
    assert found.pool.requests == 128


def test_vllm_has_twice_the_tokens_in_8_bit(engines: Path) -> None:
    settings: dict[str, Plain] = {
        "kv-cache-memory-bytes": 1 << 29,
        "kv-cache-dtype": "fp8",
        "block-size": 32,
    }
    more: dict[str, Any] = {"serve.context_tokens": 3000, "serve.parallel_requests": 7}
    found = start(of_vllm(engines, settings, **more), until="KV cache size: ")
    assert_tokens(found, exactly=None)
    tokens = found.capacity.kv_tokens
    assert tokens is not None
    assert tokens.low == tokens.high == found.value("kv_tokens")
    assert found.pool.requests == found.value("max_running_requests") == 7


def test_vllm_finds_a_share_of_all_memory(engines: Path) -> None:
    settings: dict[str, Plain] = {"gpu-memory-utilization": 0.2}
    changes = {**of_vllm(engines, settings), "serve.context_tokens": 4096}
    found = start(changes, until="KV cache size: ")
    assert_tokens(found, exactly=None)


def test_vllm_that_asks_for_more_than_is_free_is_refused(engines: Path) -> None:
    found = predict_only(of_vllm(engines, {"gpu-memory-utilization": 1.0}))
    assert found.kv_tokens is None
    assert "does not start with less" in found.unknown[0]


def assert_tokens(found: Started, *, exactly: int | None) -> None:
    """The engine's tokens lie within the bounds that were told, or are the very figure."""
    tokens, told = found.capacity.kv_tokens, found.value("kv_tokens")
    assert tokens is not None
    assert tokens.low <= told <= tokens.high
    if exactly is not None:
        assert tokens.low == tokens.high == told == exactly
