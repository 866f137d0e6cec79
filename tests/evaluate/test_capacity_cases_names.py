"""Flags and GPUs as people and logs write them."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.evaluate.capacity_flags import read_flags
from stoker.evaluate.capacity_gpus import read_gpu

MIB = 1 << 20


@pytest.mark.parametrize(
    ("engine", "entries", "wanted"),
    [
        ("vllm", ["--max-model-len 32k"], {"max-model-len": 32000}),
        ("vllm", ["--max_model_len=8K"], {"max-model-len": 8192}),
        ("vllm", ["-tp 8 -dcp 4"], {"tensor-parallel-size": 8, "decode-context-parallel-size": 4}),
        (
            "vllm",
            ["max_model_len=8192 enable_prefix_caching=False"],
            {"max-model-len": 8192, "no-enable-prefix-caching": True},
        ),
        (
            "vllm",
            ["--enforce-eager", "--enable-prefix-caching"],
            {"enforce-eager": True, "no-enable-prefix-caching": False},
        ),
        (
            "vllm",
            ['--speculative-config {"method": "mtp", "num_speculative_tokens": 3}'],
            {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}},
        ),
        (
            "vllm",
            ['-tp 2 --speculative-config=\'{"method": "eagle"}\' --enforce-eager'],
            {
                "tensor-parallel-size": 2,
                "speculative-config": {"method": "eagle"},
                "enforce-eager": True,
            },
        ),
        (
            "sglang",
            ["speculative DFLASH max running 64 --max-mamba-cache-size 64"],
            {"max-mamba-cache-size": 64},
        ),
        (
            "sglang",
            ["--tp=8 --mem_fraction_static=0.9"],
            {"tp-size": 8, "mem-fraction-static": 0.9},
        ),
        (
            "sglang",
            ["--disable-radix-cache is set", {"page-size": 64}],
            {"disable-radix-cache": True, "page-size": 64},
        ),
        (
            "llamacpp",
            ["-c 32768 -ctk q8_0 -np 4"],
            {"ctx-size": 32768, "cache-type-k": "q8_0", "parallel": 4},
        ),
    ],
)
def test_flags(engine: str, entries: list[Any], wanted: dict[str, Any]) -> None:
    found = read_flags(engine, entries)
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("entries", [None, 3, [], [None, 3], "defaults", ["--x {"], ["=" * 10]])
def test_what_says_nothing(entries: Any) -> None:
    assert "max-model-len" not in read_flags("vllm", entries)


def test_an_engine_that_nobody_knows_has_no_flags() -> None:
    assert read_flags("tgi", ["--max-model-len 5"]) == {}


@pytest.mark.parametrize(
    ("word", "size_gb", "key", "total_mib"),
    [
        ("NVIDIA H100 80GB HBM3", None, "h100", 81559),
        ("H100 SXM", 80, "h100", 81559),
        ("H100", None, "h100", 81559),
        ("NVIDIA H100 NVL", 94, "h100", 95830),
        ("A100-SXM4-80GB", None, "a100", 81920),
        ("NVIDIA A100-PCIE-40GB", 40, "a100", 40960),
        ("A100", 40, "a100", 40960),
        ("H20", 96, "h20", 97871),
        ("H20", 141, "h20", 143771),
        ("8x H200", 141, "h200", 143771),
        ("B200 180GB", None, "b200", 183359),
        ("GB200", 192, "gb200", 189471),
        ("GH200 480GB", None, "gh200", 97871),
        ("DGX Spark", 128, "gb10", 122502),
        ("NVIDIA GB10", None, "gb10", 122502),
        ("AMD Instinct MI300X OAM", 192, "mi300x", 196592),
        ("RTX4090", 24, "rtx-4090", 24564),
        ("NVIDIA GeForce RTX 3090", None, "rtx-3090", 24576),
        ("RTX 5090", 32, "rtx-5090", 32607),
        ("RTX PRO 6000 Blackwell Workstation Edition", 96, "rtx-pro-6000-blackwell", 97887),
        ("RTXPRO6000", None, "rtx-pro-6000-blackwell", 97887),
        ("NVIDIA RTX 6000 Ada Generation", 48, "rtx-ada", 49140),
        ("A6000", 48, "rtx-a6000", 49140),
        ("Tesla T4", 16, "t4", 15360),
        ("Tesla V100-SXM2-32GB", None, "v100", 32768),
        ("L40S", 48, "l40s", 46068),
    ],
)
def test_gpus(word: str, size_gb: float | None, key: str, total_mib: int) -> None:
    found = read_gpu(word, size_gb)
    assert found is not None
    assert found.total_bytes is not None
    assert (found.key, found.total_bytes // MIB) == (key, total_mib)


@pytest.mark.parametrize("word", ["RTX 3080 Ti", "RTX 4000 Ada", "Hygon DCU"])
def test_a_card_of_a_family_is_not_taken_for_another(word: str) -> None:
    found = read_gpu(word, None)
    assert found is not None
    assert (found.key, found.total_bytes) == (word, None)


def test_a_card_that_is_not_listed_has_the_size_that_is_told() -> None:
    found = read_gpu("Hygon DCU 144GB", None)
    assert found is not None
    assert found.total_bytes == 144 << 30


def test_no_name_is_no_gpu() -> None:
    assert read_gpu(" ", 80) is None
