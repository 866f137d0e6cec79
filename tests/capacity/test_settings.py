"""Flags become settings by meaning."""

from __future__ import annotations

from stoker.capacity.inputs import Ranks
from stoker.capacity.settings import read_ranks, read_settings


def test_sglang() -> None:
    found = read_settings(
        "sglang",
        {
            "mem-fraction-static": 0.88,
            "context-length": 32768,
            "kv-cache-dtype": "auto",
            "disable-radix-cache": True,
            "enable-hierarchical-cache": True,
            "hicache-size": 45,
            "cpu-offload-gb": 2,
            "speculative-algorithm": "EAGLE",
            "speculative-num-draft-tokens": 4,
            "max-running-requests": "many",
        },
    )
    assert found.memory_share == 0.88
    assert found.kv_type == ""
    assert not found.has_prefix_reuse
    assert found.parts.host.is_on
    assert found.parts.host.size_bytes == 45 * 10**9
    assert found.parts.host.weight_bytes == 2 << 30
    assert found.parts.batch.requests is None
    assert found.parts.speculation is not None
    assert found.parts.speculation.kind == "eagle"
    assert found.parts.speculation.tokens == 4


def test_vllm() -> None:
    found = read_settings(
        "vllm",
        {
            "gpu-memory-utilization": 0.95,
            "kv-offloading-size": 10,
            "enforce-eager": True,
            "speculative-config": '{"method": "mtp", "num_speculative_tokens": 3}',
        },
    )
    assert found.memory_share == 0.95
    assert found.parts.host.is_on
    assert found.parts.host.size_bytes == 10 << 30
    assert not found.parts.batch.has_graphs
    assert found.parts.speculation is not None
    assert found.parts.speculation.tokens == 3


def test_llamacpp() -> None:
    found = read_settings("llamacpp", {"ctx-size": 4096, "cache-type-k": "q8_0", "parallel": 4})
    assert found.context_tokens == 4096
    assert found.kv_type == "q8_0"
    assert found.parts.llama.sequences == 4


def test_groups_of_attention_are_no_copies() -> None:
    flags = {"tp-size": 8, "dp-size": 4, "enable-dp-attention": True}
    assert read_ranks("sglang", flags) == Ranks(tensor=8, attention_groups=4)
    assert read_ranks("sglang", {"tp-size": 8, "dp-size": 2}) == Ranks(tensor=8, replicas=2)
    assert read_ranks("sglang", {"tp-size": 16, "nnodes": 2}) == Ranks(tensor=16, on_host=8)
    assert read_ranks("another", {}) == Ranks()
