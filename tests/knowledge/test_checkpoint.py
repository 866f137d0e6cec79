"""What the files of a model say: well-known families, unheard-of ones, and nonsense."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.derived.config_view import view_config
from stoker.knowledge.derived.quantization import derive_quantization
from stoker.knowledge.model_types import load_model_types, load_quantization_words
from stoker.model.facts import Unknown
from tests.knowledge import model_configs as configs

SEEN: Mapping[str, Any] = {"format": "safetensors", "path": "/m/q", "size_bytes": 1}


def describe(config: Any, **seen: Any) -> dict[str, Any]:
    return describe_checkpoint({**SEEN, "config": config, **seen})


def pick(config: Any, *names: str) -> tuple[Any, ...]:
    parts = describe(config)
    return tuple(parts[name] for name in names)


KIND = ("attention", "is_sparse_attention", "linear_attention", "has_sliding_window", "is_moe")
COUNTS = ("full_layers", "sliding_layers", "linear_layers")

FAMILIES = {
    "plain": (configs.PLAIN, ("gqa", False, None, False, False), (4, 0, 0)),
    "latent and sparse": (configs.LATENT, ("mla", True, None, False, True), (4, 0, 0)),
    "gated delta": (configs.GATED_DELTA, ("gqa", False, "gdn", False, True), (2, 0, 6)),
    "mamba": (configs.MAMBA, ("gqa", False, "mamba2", False, True), (1, 0, 3)),
    "windowed": (configs.WINDOWED, ("gqa", False, None, True, True), (2, 2, 0)),
    "kimi": (configs.DELTA_KIMI, ("mla", False, "kda", False, False), (1, 0, 3)),
    "lightning": (configs.LIGHTNING, ("gqa", False, "lightning", False, False), (1, 0, 3)),
    "gemma": (configs.GEMMA, ("gqa", False, None, True, False), (1, 5, 0)),
    "chunked": (configs.CHUNKED, ("gqa", False, None, True, False), (1, 3, 0)),
    "switched off": (configs.SWITCHED_OFF, ("gqa", False, None, False, False), (4, 0, 0)),
    "searched": (configs.SEARCHED, ("gqa", False, None, False, False), (4, 0, 0)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_told_by_their_keys(name: str) -> None:
    config, kind, counts = FAMILIES[name]
    assert pick(config, *KIND) == kind
    assert pick(config, *COUNTS) == counts
    assert pick(config, "problems", "unknown_parts") == ([], [])


def test_a_model_of_states_alone_has_no_attention() -> None:
    parts = describe(configs.PURE_STATE)
    assert (parts["attention"], parts["heads"], parts["kv_heads"]) == (None, None, None)
    assert parts["linear_attention"] == "mamba2"


def test_the_language_part_speaks_for_a_model_that_sees() -> None:
    parts = describe(configs.GATED_DELTA)
    assert (parts["is_multimodal"], parts["layers"], parts["hidden_width"]) == (True, 8, 1024)
    assert (parts["class"], parts["model_type"]) == (
        "Qwen3_5MoeForConditionalGeneration",
        "qwen3_5_moe",
    )
    assert parts["text_model_type"] == "qwen3_5_moe_text"
    assert not describe(configs.PLAIN)["is_multimodal"]


def test_experts_and_their_widths() -> None:
    names = ("experts", "experts_per_token", "expert_width", "shared_expert_width", "dense_layers")
    assert pick(configs.LATENT, *names) == (256, 8, 2048, 2048, 3)
    assert pick(configs.MAMBA, *names) == (128, 6, 1856, 3712, 0)
    assert pick(configs.WINDOWED, *names) == (32, 4, 3072, None, 0)
    assert pick(configs.PLAIN, *names) == (None, None, None, None, None)


def test_widths_of_a_head() -> None:
    names = ("head_width", "value_width", "latent_width", "rope_width")
    assert pick(configs.LATENT, *names) == (192, 128, 512, 64)
    assert pick(configs.PLAIN, *names) == (128, None, None, None)


def test_an_unheard_of_family_is_described_and_the_rest_is_named() -> None:
    parts = describe(configs.UNHEARD_OF)
    assert (parts["class"], parts["attention"], parts["kv_heads"]) == ("ZorkForCausalLM", "gqa", 8)
    assert isinstance(parts["is_moe"], Unknown)
    assert parts["unknown_parts"] == [
        'is_moe and experts (config.json gives "num_zork_experts", which is not known)'
    ]


def without(*keys: str, **changes: Any) -> dict[str, Any]:
    kept = {key: value for key, value in configs.PLAIN.items() if key not in keys}
    return {**kept, **changes}


ABSURD = {
    "missing": (without("num_key_value_heads"), "config.json gives no num_key_value_heads"),
    "zero": (without(num_key_value_heads=0), "num_key_value_heads = 0, which cannot be"),
    "negative": (without(num_key_value_heads=-8), "num_key_value_heads = -8, which cannot be"),
    "words": (without(num_key_value_heads="8"), 'num_key_value_heads = "8", which cannot be'),
    "beyond": (without(num_key_value_heads=10**30), "= a number beyond all measure"),
    "a list": (without(num_key_value_heads=[8, 4]), "num_key_value_heads = a list"),
    "a table": (without(num_key_value_heads={}), "num_key_value_heads = a table"),
    "true": (without(num_key_value_heads=True), "num_key_value_heads = True"),
    "half": (without(num_key_value_heads=1.5), "num_key_value_heads = 1.5"),
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_count_is_unknown_with_the_reason(name: str) -> None:
    config, reason = ABSURD[name]
    parts = describe(config)
    assert reason in parts["kv_heads"].reason
    assert parts["attention"] == parts["kv_heads"]
    assert parts["layers"] == 4
    assert any("kv_heads (" in told for told in parts["unknown_parts"])


def test_whole_floats_and_equal_lists_are_counts() -> None:
    assert pick(without(num_hidden_layers=4.0, intermediate_size=[512] * 4), "layers") == (4,)
    assert pick(without(intermediate_size=[512] * 4), "intermediate_width") == (512,)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_attention_heads": 30}, "30 attention heads cannot be shared by 8 key-value heads"),
        (
            {"head_dim": None, "hidden_size": 1000},
            "a hidden_size of 1000 cannot be shared by 16 attention heads",
        ),
        (
            {"num_experts": 4, "num_experts_per_tok": 8},
            "8 experts for each token are more than the 4 that there are",
        ),
        (
            {"layer_types": ["full_attention"] * 3},
            "the kinds of 3 layers are listed, and there are 4",
        ),
    ],
)
def test_contradictions_are_told(changes: dict[str, Any], sentence: str) -> None:
    assert describe(without(**changes))["problems"] == [sentence]


def test_a_layer_of_an_unknown_kind_leaves_its_counts_open() -> None:
    parts = describe(without(layer_types=["full_attention", "zork_attention"] * 2))
    assert "zork_attention" in parts["has_linear_attention"].reason
    assert isinstance(parts["full_layers"], Unknown)


def test_a_window_whose_layers_are_not_listed() -> None:
    parts = describe(without(sliding_window=4096))
    assert (parts["has_sliding_window"], parts["window_tokens"]) == (True, 4096)
    assert isinstance(parts["sliding_layers"], Unknown)


@pytest.mark.parametrize(
    ("scaling", "tokens"),
    [
        (None, 40960),
        ({"rope_type": "yarn", "factor": 4.0}, 163840),
        ({"type": "linear", "factor": 2}, 81920),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10240}, 40960),
        ({"rope_type": "llama3", "factor": 8.0}, 40960),
        ({"rope_type": "yarn", "factor": float("nan")}, 40960),
        ("nonsense", 40960),
    ],
)
def test_a_stretched_context(scaling: Any, tokens: int) -> None:
    assert pick(without(rope_scaling=scaling), "context_tokens") == (tokens,)


DRAFT_FORMS = [["model.layers.*.mlp.up_proj.weight", "BF16", 4, 8], ["mtp.fc.weight", "BF16", 1, 2]]


def test_the_weights_decide_whether_there_are_draft_layers() -> None:
    said = without(num_nextn_predict_layers=1)
    assert describe(said)["draft_layers"] == 1
    assert describe(said, forms=DRAFT_FORMS[:1])["draft_layers"] == 0
    assert describe(configs.PLAIN, forms=DRAFT_FORMS)["draft_layers"] == 1
    assert describe(configs.PLAIN)["draft_layers"] == 0


def group(bits: int, kind: str = "float", **more: Any) -> dict[str, Any]:
    return {"group_0": {"weights": {"num_bits": bits, "type": kind, **more}, "targets": ["Linear"]}}


def compressed(groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": groups, **more}


INT_ON_FLOAT = {
    "group_0": {
        "weights": {"num_bits": 4, "type": "int", "group_size": 128},
        "input_activations": {"num_bits": 8, "type": "float"},
    }
}
QUANTIZED: dict[str, tuple[Any, str, str]] = {
    "fp8": ({"quant_method": "fp8"}, "fp8", "fp8"),
    "fp8 in blocks": (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        "fp8-block",
        "fp8",
    ),
    "modelopt nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        "nvfp4",
        "modelopt_fp4",
    ),
    "modelopt by producer": (
        {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}},
        "fp8",
        "modelopt_fp8",
    ),
    "modelopt mixture": (
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4"}},
        },
        "nvfp4",
        "modelopt_mixed",
    ),
    "counted mixture": (
        {"quant_algo": "MIXED_PRECISION", "quantized_layer_counts": {"W4A8_AWQ": 5, "FP8": 2}},
        "w4afp8",
        "w4afp8",
    ),
    "fp8 with nvfp4 experts": (
        {
            "quant_method": "fp8",
            "quant_algo": "MIXED_PRECISION",
            "moe_quant_algo": "NVFP4",
            "weight_block_size": [128, 128],
        },
        "nvfp4",
        "fp8",
    ),
    "compressed nvfp4": (compressed(group(4, group_size=16)), "nvfp4", "compressed-tensors"),
    "compressed mxfp4": (compressed(group(4, group_size=32)), "mxfp4", "compressed-tensors"),
    "compressed fp8": (compressed(group(8, strategy="channel")), "fp8", "compressed-tensors"),
    "compressed blocks": (
        compressed(group(8, strategy="block")),
        "fp8-block",
        "compressed-tensors",
    ),
    "compressed int4": (compressed(group(4, "int", group_size=32)), "int4", "compressed-tensors"),
    "compressed int8": (compressed(group(8, "int")), "int8", "compressed-tensors"),
    "int on float": (compressed(INT_ON_FLOAT), "w4afp8", "compressed-tensors"),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", "awq"),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq", "gptq"),
    "mxfp4": ({"quant_method": "mxfp4"}, "mxfp4", "mxfp4"),
    "bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        "bitsandbytes",
        "bitsandbytes",
    ),
    "quark": (
        {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}},
        "mxfp4",
        "quark",
    ),
    "auto-round": (
        {"quant_method": "auto-round", "bits": 4, "group_size": 128},
        "int4",
        "auto-round",
    ),
    "torchao": (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}},
        "fp8",
        "torchao",
    ),
    "w4afp8": ({"quant_method": "w4afp8"}, "w4afp8", "w4afp8"),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantizations_have_one_word(name: str) -> None:
    table, word, method = QUANTIZED[name]
    found = derive_quantization(view_config({"quantization_config": table}))
    assert (found["quantization"], found["quantization_method"]) == (word, method)
    assert word in found["quantization_parts"]


def test_the_numbers_of_a_quantization() -> None:
    names = (
        "quantization_group",
        "quantization_bits",
        "quantization_block",
        "quantization_activation",
    )
    assert pick(configs.LATENT, *names) == (None, None, [128, 128], "dynamic")
    awq = without(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128})
    assert pick(awq, *names) == (128, 4, None, None)


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"quant_method": "fp8"}, "none"),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "fp8"),
        (compressed(group(8), kv_cache_scheme={"num_bits": 8, "type": "float"}), "fp8"),
    ],
)
def test_what_the_cache_is_kept_in(table: Any, word: str) -> None:
    assert pick(without(quantization_config=table), "kv_cache_quantization") == (word,)


def test_a_file_beside_the_config_tells_the_quantization() -> None:
    beside = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4", "group_size": 16},
    }
    parts = describe(configs.PLAIN, quantization_file=beside)
    assert (parts["quantization"], parts["quantization_group"]) == ("nvfp4", 16)


PARAMS = {
    "dim": 5120,
    "n_layers": 40,
    "n_heads": 32,
    "n_kv_heads": 8,
    "head_dim": 128,
    "hidden_dim": 32768,
    "vocab_size": 131072,
    "max_position_embeddings": 262144,
    "moe": {"num_experts": 8, "num_experts_per_tok": 2, "expert_hidden_dim": 4096},
    "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"},
}


def test_the_words_of_mistral_say_the_same() -> None:
    parts = describe(None, params=PARAMS, is_mistral_format=True)
    names = ("layers", "kv_heads", "hidden_width", "experts", "expert_width", "quantization")
    assert [parts[name] for name in names] == [40, 8, 5120, 8, 4096, "fp8"]
    assert (parts["class"], parts["unknown_parts"]) == (None, [])


def test_what_was_left_as_it_was() -> None:
    left = {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", 7]}
    assert pick(without(quantization_config=left), "quantization_ignored") == (["lm_head"],)
    table = compressed(
        {
            "a": {
                "weights": {"num_bits": 8, "type": "float"},
                "input_activations": {"dynamic": True},
            }
        },
        ignore=["lm_head"],
    )
    names = ("quantization_ignored", "quantization_activation")
    assert pick(without(quantization_config=table), *names) == (["lm_head"], "dynamic")


def test_experts_may_be_packed_otherwise() -> None:
    config = {**configs.LATENT, "expert_dtype": "fp4"}
    assert pick(config, "quantization", "expert_quantization") == ("fp8-block", "mxfp4")


def test_an_mlx_table_needs_no_method() -> None:
    config = without(quantization={"group_size": 64, "bits": 4})
    assert pick(config, "quantization") == ("mlx",)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"quant_method": "zork"}, 'its quant_method "zork" is not known'),
        ({"quant_algo": "ZORK8"}, 'its quant_algo "ZORK8" is not known'),
        ({"quant_algo": "MIXED_PRECISION"}, "it is a mixture, and the files do not say of what"),
        ({}, "its table names no quant_method"),
        ("fp8", 'config.json gives quantization_config = "fp8", which is no table'),
        ([], "config.json gives quantization_config = a list, which is no table"),
        (compressed(group(5)), "the numbers of its groups are not known"),
    ],
)
def test_an_unknown_quantization_is_unknown_with_the_reason(table: Any, reason: str) -> None:
    (found,) = pick(without(quantization_config=table), "quantization")
    assert found.reason == reason


def test_a_model_that_is_not_here_has_names_alone() -> None:
    missing = {
        "format": "missing",
        "path": "/data/models/x",
        "reason": "/data/models/x does not exist",
    }
    commit = "0123456789" * 4
    for seen in (missing, Unknown(reason="no probe named model has looked")):
        parts = describe_checkpoint(seen, reference=f"hf:nvidia/Kimi-K2.5-NVFP4@{commit}")
        assert parts.pop("names") == ["nvidia/Kimi-K2.5-NVFP4"]
        assert (parts.pop("commit"), parts.pop("named_quantization")) == (commit, "nvfp4")
        assert parts.pop("base_names") == []
        assert all(isinstance(part, Unknown) for part in parts.values())


def test_all_formats_give_the_same_parts() -> None:
    names = set(describe(configs.PLAIN))
    for seen in (
        {"format": "gguf", "path": "/m/a.gguf"},
        {"format": "missing", "path": "/m"},
        {"format": "unknown", "path": "/m", "reason": "odd"},
        {"format": "pickle", "path": "/m", "config": dict(configs.PLAIN)},
    ):
        assert set(describe_checkpoint(seen)) == names


HUB = "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/" + "ab" * 20


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (HUB, ["Qwen/Qwen3-8B"]),
        ("/srv/models/Qwen/Qwen3-8B", ["Qwen/Qwen3-8B", "Qwen3-8B"]),
        ("/srv/models/Qwen3-8B", ["Qwen3-8B"]),
        ("/m/Qwen3-8B-Q4_K_M.gguf", ["m/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M"]),
    ],
)
def test_names_from_the_path(path: str, names: list[str]) -> None:
    assert describe(None, path=path)["names"] == names


def test_names_from_config_and_card() -> None:
    config = without(_name_or_path="Qwen/Qwen3-8B-Base")
    parts = describe(config, card={"base_models": ["Qwen/Qwen3-8B"], "license": "mit"})
    assert parts["names"] == ["Qwen/Qwen3-8B-Base", "m/q", "q"]
    assert (parts["base_names"], parts["license"]) == (["Qwen/Qwen3-8B"], "mit")


GGUF: Mapping[str, Any] = {
    "format": "gguf",
    "path": "/m/a.gguf",
    "size_bytes": 10,
    "architecture": "qwen3moe",
    "block_count": 4,
    "head_count": 32,
    "head_count_kv": 4,
    "embedding_length": 2048,
    "context_length": 40960,
    "expert_count": 128,
    "expert_used_count": 8,
    "tensor_types": {"q4_k": 100, "f32": 5, "q6_k": 20},
    "has_chat_template": True,
}


def test_a_gguf_file_in_the_same_words() -> None:
    parts = describe_checkpoint(GGUF)
    assert (parts["attention"], parts["is_moe"], parts["experts"]) == ("gqa", True, 128)
    assert (parts["quantization"], parts["quantization_method"]) == ("gguf", "q4_k")
    assert (parts["full_layers"], parts["model_type"]) == (4, "qwen3moe")
    assert isinstance(parts["expert_width"], Unknown)
    assert parts["unknown_parts"] == []


def test_an_adapter_is_told_from_what_was_merged() -> None:
    adapter = {"base": "Qwen/Qwen3-8B", "kind": "LORA"}
    assert describe(None, adapter=adapter)["is_adapter"] is True
    assert describe(configs.PLAIN, adapter=adapter)["is_adapter"] is False


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["fp8", "full_attention", "MIXED_PRECISION", "yarn"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=6,
)
TYPES = load_model_types()
KEYS = sorted(
    {
        *(name for count in TYPES.counts.values() for name in count.names),
        *(layout.key for layout in TYPES.layouts),
        *(key for row in TYPES.mechanisms for key in row.needs),
        *TYPES.nested,
        *TYPES.multimodal,
        *TYPES.sparse,
        *("architectures", "model_type", "quantization_config", "rope_scaling", "auto_map"),
        *("quant_method", "quant_algo", "config_groups", "block_configs", "expert_dtype"),
    }
)
ANY_TABLE = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8)


@settings(max_examples=100, deadline=None)
@given(ANY_TABLE, ANY_TABLE, st.sampled_from(["text_config", "quantization_config", "x"]))
def test_any_config_is_described_and_never_raises(
    config: dict[str, Any], inner: dict[str, Any], key: str
) -> None:
    parts = describe({**configs.PLAIN, **config, key: inner})
    assert set(parts) == set(describe(configs.PLAIN))
    for part in parts.values():
        assert isinstance(part, (Unknown, str, int, float, list, dict, bool)) or part is None
    assert all(isinstance(told, str) for told in parts["unknown_parts"])


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from([*GGUF, "kv_lora_rank", "ssm_state_size"]), JSON))
def test_any_gguf_shape_is_described_and_never_raises(shape: dict[str, Any]) -> None:
    types = {"tensor_types": {"q4_k": 1}, "format": "gguf", "path": "/m/a.gguf"}
    assert set(describe_checkpoint({**GGUF, **shape, **types})) == set(describe_checkpoint(GGUF))


def test_a_claim_of_endless_layers_costs_nothing() -> None:
    for layers in (10**30, 10**6):
        assert isinstance(describe(without(num_hidden_layers=layers))["layers"], Unknown)
    assert describe(without(layer_types=["full_attention"] * 10**6))["problems"]


def test_the_words_of_the_data_are_those_that_are_documented() -> None:
    words = load_quantization_words()
    assert {*words.algorithms.values()} <= {*words.methods.values(), *words.blocks.values(), "int4"}


# The corpus: abbreviated configs of models that people serve.

CORPUS = Path(os.environ.get("STOKER_CORPUS", "/nowhere")) / "models"
MODELS = sorted(CORPUS.glob("*.json"))


def read_corpus(name: str) -> dict[str, Any]:
    data = json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8"))
    table = data.pop("quantization", None)
    return {**data, **({"quantization_config": table} if table else {})}


EXPECTED = {
    "deepseek-ai__DeepSeek-V3.2": ("mla", True, None, False, "fp8-block"),
    "Qwen__Qwen3-Next-80B-A3B-Instruct": ("gqa", False, "gdn", False, "none"),
    "Qwen__Qwen3.5-397B-A17B": ("gqa", False, "gdn", False, "none"),
    "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4": ("gqa", False, "mamba2", False, "nvfp4"),
    "nvidia__Nemotron-H-56B-Base-8K": ("gqa", False, "mamba2", False, "none"),
    "openai__gpt-oss-120b": ("gqa", False, None, True, "mxfp4"),
    "moonshotai__Kimi-K2.5": ("mla", False, None, False, "int4"),
    "moonshotai__Kimi-K3": ("mla", False, "kda", False, "mxfp4"),
    "zai-org__GLM-5-FP8": ("mla", True, None, False, "fp8-block"),
    "nvidia__GLM-5.2-NVFP4": ("mla", True, None, False, "nvfp4"),
    "MiniMaxAI__MiniMax-M2.7": ("gqa", False, None, False, "fp8-block"),
    "google__gemma-3-27b-it": ("gqa", False, None, True, "none"),
    "google__gemma-4-26B-A4B": ("gqa", False, None, True, "none"),
    "deepseek-ai__DeepSeek-V4-Flash": ("mla", True, None, True, "fp8-block"),
    "deepseek-ai__DeepSeek-R1": ("mla", False, None, False, "fp8-block"),
    "XiaomiMiMo__MiMo-V2-Flash": ("gqa", False, None, True, "fp8-block"),
    "meta-llama__Llama-4-Scout-17B-16E-Instruct": ("gqa", False, None, True, "none"),
    "meta-llama__Llama-3.3-70B-Instruct": ("gqa", False, None, False, "none"),
    "codellama__CodeLlama-7b-hf": ("mha", False, None, False, "none"),
}


@pytest.mark.skipif(not MODELS, reason="STOKER_CORPUS names no corpus of models")
@pytest.mark.parametrize("name", EXPECTED)
def test_models_of_the_corpus(name: str) -> None:
    names = (*KIND[:4], "quantization")
    assert pick(read_corpus(name), *names) == EXPECTED[name]


#: Configs of the corpus that leave out what their makers' files give.
ABBREVIATED = {
    "google__gemma-4-12B-it",
    "google__gemma-4-E4B-it",
    "nvidia__NVIDIA-Nemotron-3-Nano-4B-BF16",
    "openbmb__MiniCPM-SALA",
    "openbmb__MiniCPM5-1B",
    "nvidia__Llama-3_3-Nemotron-Super-49B-v1",
    "nvidia__MiniMax-M3-NVFP4",
    "nvidia__NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4",
    "nvidia__Qwen3.6-27B-NVFP4",
    "nvidia__Qwen3.6-35B-A3B-NVFP4",
}


@pytest.mark.skipif(not MODELS, reason="STOKER_CORPUS names no corpus of models")
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_model_of_the_corpus_is_classified(path: Path) -> None:
    parts = describe(read_corpus(path.stem))
    assert parts["problems"] == []
    assert bool(parts["unknown_parts"]) == (path.stem in ABBREVIATED), parts["unknown_parts"]
