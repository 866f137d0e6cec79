"""Models by their published dimensions: which layers keep what, and how many parameters there are.

Each file of ``shapes`` has a config.json in the keys that memory needs, and what the engine's own
class of the model makes of it: layers by kind with the bytes of one token in one of them (16 bit,
one rank), the bytes of one request's states (32 bit), and the published count of parameters. A
file with ``refused`` is a model of which no figure may be given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.capacity.cells import find_number_type, index_bytes, layer_bytes
from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import Gpu, Inputs, Ranks, Readings, Shape
from stoker.capacity.predict import predict
from stoker.capacity.state_pools import state_bytes
from stoker.capacity.weights import count_elements, estimate_weights

FILES = sorted((Path(__file__).parent / "shapes").glob("*.json"))
CASES = [(path.stem, json.loads(path.read_text("utf-8"))) for path in FILES]
KNOWN = [case for case in CASES if "refused" not in case[1]]
ALIKE = 0.01


def by_name(cases: list[tuple[str, Any]]) -> list[Any]:
    """Parameters that pytest shows by the model's name."""
    return [pytest.param(case, id=name) for name, case in cases]


def kinds_of(shape: Shape) -> list[dict[str, Any]]:
    """The layers as the files list them."""
    number = find_number_type("bfloat16", shape)
    assert number is not None
    return [
        {
            "layers": kind.layers,
            "window_tokens": kind.window_tokens,
            "bytes_of_one": layer_bytes(kind, 1, number) + index_bytes(kind),
        }
        for kind in shape.attention
    ]


def pool_of(shape: Shape, engine: str) -> Any:
    """What an engine's arithmetic makes of it on one large GPU."""
    pool = Readings(pool_bytes=40 << 30, free_before_bytes=80 << 30, free_after_bytes=60 << 30)
    gpu = Gpu(total_bytes=81559 << 20, key="h100")
    return predict(
        Inputs(name="m", engine=engine, release="", shape=shape, gpus=(gpu,), readings=pool)
    )


@pytest.mark.parametrize("case", by_name(KNOWN))
def test_layers_and_states(case: dict[str, Any]) -> None:
    shape = read_shape(case["config"])
    assert shape.unknown == ""
    assert kinds_of(shape) == case["layers"]
    per_token = sum(kind["layers"] * kind["bytes_of_one"] for kind in kinds_of(shape))
    assert per_token == case["bytes_per_token"]
    assert state_bytes(shape, Ranks(), "float32") == case.get("state_bytes", 0)
    assert [kind.shared_layers for kind in shape.attention] == case.get(
        "shared_layers", [0] * len(shape.attention)
    )


@pytest.mark.parametrize("case", by_name([each for each in KNOWN if "parameters" in each[1]]))
def test_parameters(case: dict[str, Any]) -> None:
    counted = sum(count for _, count in count_elements(read_shape(case["config"]), Ranks()))
    assert counted == pytest.approx(case["parameters"], rel=ALIKE)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("case", by_name([each for each in CASES if "refused" in each[1]]))
def test_what_is_not_described_is_refused(case: dict[str, Any], engine: str) -> None:
    found = pool_of(read_shape(case["config"]), engine)
    assert found.kv_tokens is None
    assert any(case["refused"] in sentence for sentence in found.unknown)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("case", by_name(KNOWN))
def test_what_is_described_has_a_figure(case: dict[str, Any], engine: str) -> None:
    assert pool_of(read_shape(case["config"]), engine).kv_tokens is not None


def test_every_file_says_where_its_figures_are_from() -> None:
    assert CASES
    assert all(case["source"] and case["model"] for _, case in CASES)


GB = 10**9
#: Bytes of published checkpoints, whose way of storing the config tells.
STORED: list[tuple[str, dict[str, Any], float, str]] = [
    ("gpt-oss-20b", {"quant_method": "mxfp4"}, 12.8 * (1 << 30), "the model card of gpt-oss"),
    ("gpt-oss-120b", {"quant_method": "mxfp4"}, 60.8 * (1 << 30), "the model card of gpt-oss"),
    (
        "kimi-k2",
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
            "config_groups": {
                "group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}
            },
        },
        594 * GB,
        "the model page of Kimi-K2-Thinking: 594 GB",
    ),
    (
        "deepseek-v3",
        {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
        (688.59 - 14.6) * GB,
        "model.safetensors.index.json of DeepSeek-V3, less the layer for drafting",
    ),
]  # fmt: skip


def weights_of(config: dict[str, Any]) -> Any:
    """The estimate of one rank."""
    shape = read_shape(config)
    return estimate_weights(Inputs(name="m", engine="vllm", release="", shape=shape, gpus=()), 2)


@pytest.mark.parametrize(("name", "stored", "size_bytes", "source"), STORED)
def test_bytes_of_stored_weights(
    name: str, stored: dict[str, Any], size_bytes: float, source: str
) -> None:
    config = dict(CASES)[name]["config"]
    found = weights_of({**config, "quantization_config": stored})
    assert found.likely == pytest.approx(size_bytes, rel=0.02), source
    assert found.low < size_bytes < found.high


def test_four_bits_of_a_group_of_128_are_less_than_of_32() -> None:
    config = dict(CASES)["llama-3-1-8b"]["config"]
    table = {"quant_method": "gptq", "bits": 4}
    coarse = weights_of({**config, "quantization_config": {**table, "group_size": 128}})
    fine = weights_of({**config, "quantization_config": {**table, "group_size": 32}})
    assert coarse.likely == pytest.approx(5.33 * (1 << 30), rel=0.02)  # 5.38 GiB in a log of vLLM
    assert fine.likely > coarse.likely


@pytest.mark.parametrize("kept", [(), ("re:.*self_attn.*",)])
def test_what_a_config_leaves_as_it_was_is_counted_so(kept: tuple[str, ...]) -> None:
    config = dict(CASES)["qwen3-8b"]["config"]
    table = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    found = weights_of({**config, "quantization_config": {**table, "ignore": ["lm_head", *kept]}})
    attention = 36 * 4096 * (32 * 128 * 2 + 8 * 128 * 2)
    other = 8190735360 - attention - 2 * 151936 * 4096
    wanted = 2 * 2 * 151936 * 4096 + other * 0.5625 + attention * (2.0 if kept else 0.5625)
    assert found.likely == pytest.approx(wanted, rel=0.01)


def test_a_mixture_that_is_not_told_has_no_estimate() -> None:
    config = dict(CASES)["qwen3-8b"]["config"]
    table = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}
    assert weights_of({**config, "quantization_config": table}) is None
