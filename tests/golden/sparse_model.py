"""Models of any size that take no room: real headers, and files that are holes.

``python -m tests.golden.sparse_model NAME FOLDER`` writes the model of a configuration beside this
file. Every tensor has the shape and type that the published model has, so that whoever reads
headers reads what it would read of the real one. Only this and `record.py` use it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4, "I64": 8}
#: A tensor: its name, type and shape.
Tensor = tuple[str, str, tuple[int, ...]]
Config = Mapping[str, Any]


def write_model(name: str, folder: Path, *, template: str = "") -> None:
    """All files of a model: configuration, index, shards of holes, a tokenizer's template."""
    config = json.loads((HERE / "configs" / f"{name}.json").read_text())
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    index: dict[str, str] = {}
    shards = list(make_shards(config))
    for number, tensors in enumerate(shards, 1):
        shard = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / shard, tensors)
        index.update({tensor[0]: shard for tensor in tensors})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def write_shard(path: Path, tensors: list[Tensor]) -> None:
    """A header that is true of a file whose data is a hole."""
    header, end = {}, 0
    for name, kind, shape in tensors:
        size = BYTES[kind] * math.prod(shape)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def make_shards(config: Config) -> Iterator[list[Tensor]]:
    """The tensors layer by layer, then those around the layers."""
    text = config.get("text_config", config)
    method = config.get("quantization_config") or text.get("quantization_config") or {}
    prefix = "language_model.model" if "text_config" in config else "model"
    for layer in range(text["num_hidden_layers"]):
        yield list(_layer(text, method, f"{prefix}.layers.{layer}", layer))
    width, words = text["hidden_size"], text["vocab_size"]
    around: list[Tensor] = [
        (f"{prefix}.embed_tokens.weight", "BF16", (words, width)),
        (f"{prefix}.norm.weight", "BF16", (width,)),
    ]
    if not text.get("tie_word_embeddings"):
        around.append(("lm_head.weight", "BF16", (words, width)))
    yield around


def _layer(text: Config, method: Config, prefix: str, layer: int) -> Iterator[Tensor]:
    width = text["hidden_size"]
    yield f"{prefix}.input_layernorm.weight", "BF16", (width,)
    kind = _kind(text, layer)
    if kind in ("attention", "linear", "mamba"):
        mixer = {"attention": _attention, "linear": _linear, "mamba": _mamba}[kind]
        yield from mixer(text, method, prefix)
    if "hybrid_override_pattern" in text and kind != "experts":
        return
    experts = _first(text, "num_experts", "n_routed_experts", "num_local_experts") or 0
    if experts and layer >= text.get("first_k_dense_replace", 0):
        yield from _experts(text, method, prefix, experts)
    else:
        yield from _mlp(f"{prefix}.mlp", method, width, text["intermediate_size"])


def _kind(text: Config, layer: int) -> str:
    if pattern := text.get("hybrid_override_pattern"):
        return {"M": "mamba", "E": "experts", "*": "attention"}[pattern[layer]]
    if types := text.get("layer_types"):
        return "linear" if types[layer] == "linear_attention" else "attention"
    interval = text.get("full_attention_interval")
    return "linear" if interval and (layer + 1) % interval else "attention"


def _attention(text: Config, method: Config, prefix: str) -> Iterator[Tensor]:
    width, heads = text["hidden_size"], text["num_attention_heads"]
    name = f"{prefix}.self_attn"
    all_fp8 = method if method.get("quant_method") == "fp8" else {}
    if rank := text.get("kv_lora_rank"):
        rope, nope = text["qk_rope_head_dim"], text["qk_nope_head_dim"]
        value, query = text["v_head_dim"], text["q_lora_rank"]
        if query:
            yield from _linear_layer(f"{name}.q_a_proj", all_fp8, query, width)
        yield from _linear_layer(f"{name}.q_b_proj", all_fp8, heads * (nope + rope), query or width)
        yield from _linear_layer(f"{name}.kv_a_proj_with_mqa", all_fp8, rank + rope, width)
        yield from _linear_layer(f"{name}.kv_b_proj", all_fp8, heads * (nope + value), rank)
        yield from _linear_layer(f"{name}.o_proj", all_fp8, width, heads * value)
        return
    size = text.get("head_dim") or width // heads
    kv = text["num_key_value_heads"]
    awq = method if method.get("quant_method") == "awq" else all_fp8
    for part, rows in (("q", heads * size), ("k", kv * size), ("v", kv * size)):
        yield from _linear_layer(f"{name}.{part}_proj", awq, rows, width)
    yield from _linear_layer(f"{name}.o_proj", awq, width, heads * size)


def _linear(text: Config, method: Config, prefix: str) -> Iterator[Tensor]:
    """A gated delta net, unquantised as published."""
    width, name = text["hidden_size"], f"{prefix}.linear_attn"
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
    yield f"{name}.in_proj_qkv.weight", "BF16", (2 * keys + values, width)
    yield f"{name}.in_proj_z.weight", "BF16", (values, width)
    yield f"{name}.out_proj.weight", "BF16", (width, values)
    yield f"{name}.conv1d.weight", "BF16", (2 * keys + values, 1, text["linear_conv_kernel_dim"])


def _mamba(text: Config, method: Config, prefix: str) -> Iterator[Tensor]:
    width, name = text["hidden_size"], f"{prefix}.mixer"
    inner = text["mamba_num_heads"] * text["mamba_head_dim"]
    states = text["n_groups"] * text["ssm_state_size"]
    yield (
        f"{name}.in_proj.weight",
        "BF16",
        (2 * inner + 2 * states + text["mamba_num_heads"], width),
    )
    yield f"{name}.out_proj.weight", "BF16", (width, inner)


def _experts(text: Config, method: Config, prefix: str, experts: int) -> Iterator[Tensor]:
    width = text.get("moe_latent_size") or text["hidden_size"]
    inner = text.get("moe_intermediate_size") or text["intermediate_size"]
    yield f"{prefix}.mlp.gate.weight", "BF16", (experts, text["hidden_size"])
    if method.get("quant_method") == "mxfp4":
        name = f"{prefix}.mlp.experts"
        for part, rows, columns in (("gate_up", 2 * inner, width), ("down", width, inner)):
            yield f"{name}.{part}_proj_blocks", "U8", (experts, rows, columns // 32, 16)
            yield f"{name}.{part}_proj_scales", "U8", (experts, rows, columns // 32)
        return
    # Nemotron's experts have no gate: their activation is a squared ReLU.
    parts = ("up", "down") if "hybrid_override_pattern" in text else ("gate", "up", "down")
    for expert in range(experts):
        yield from _mlp(f"{prefix}.mlp.experts.{expert}", method, width, inner, parts)
    shared = _first(text, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    shared = shared or inner * text.get("n_shared_experts", 0)
    if shared:
        kept = method if method.get("quant_method") == "fp8" else {}
        yield from _mlp(f"{prefix}.mlp.shared_experts", kept, text["hidden_size"], shared)


def _mlp(
    name: str,
    method: Config,
    width: int,
    inner: int,
    parts: tuple[str, ...] = ("gate", "up", "down"),
) -> Iterator[Tensor]:
    for part in parts:
        rows, columns = (width, inner) if part == "down" else (inner, width)
        yield from _linear_layer(f"{name}.{part}_proj", method, rows, columns)


def _linear_layer(name: str, method: Config, rows: int, columns: int) -> Iterator[Tensor]:
    """The tensors of one linear layer as its quantization keeps them."""
    match method.get("quant_method"):
        case "fp8":
            blocks = (math.ceil(rows / 128), math.ceil(columns / 128))
            yield f"{name}.weight", "F8_E4M3", (rows, columns)
            yield f"{name}.weight_scale_inv", "F32", blocks
        case "modelopt":
            yield f"{name}.weight", "U8", (rows, columns // 2)
            yield f"{name}.weight_scale", "F8_E4M3", (rows, columns // 16)
            yield f"{name}.weight_scale_2", "F32", ()
            yield f"{name}.input_scale", "F32", ()
        case "compressed-tensors":
            yield f"{name}.weight_packed", "I32", (rows, columns // 8)
            yield f"{name}.weight_scale", "BF16", (rows, columns // 32)
            yield f"{name}.weight_shape", "I64", (2,)
        case "awq":
            yield f"{name}.qweight", "I32", (columns, rows // 8)
            yield f"{name}.qzeros", "I32", (columns // 128, rows // 8)
            yield f"{name}.scales", "F16", (columns // 128, rows)
        case _:
            yield f"{name}.weight", "BF16", (rows, columns)


def _first(text: Config, *names: str) -> int | None:
    return next((text[name] for name in names if text.get(name)), None)


if __name__ == "__main__":
    write_model(sys.argv[1], Path(sys.argv[2]))
