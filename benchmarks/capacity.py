"""What a forecast of memory costs: ``python benchmarks/capacity.py prediction|headers FOLDER``.

Called by `benchmarks/run.py` as a child, since that has to stay small itself. ``prediction`` times
one answer with all its options; ``headers`` writes a checkpoint of DeepSeek-V3's size, 100 shards
with real headers and no weights behind them, and times how the model probe reads it. Prints one
JSON object: seconds, and the bytes that were read.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import Gpu, Host, Inputs, Ranks, Settings
from stoker.capacity.options import add_options
from stoker.capacity.predict import predict
from stoker.hosts.local import LocalHost
from stoker.ports import ReadableHost
from stoker.probes.model import parse_model, read_model

_RUNS = 9
_SHARDS = 100
_GIB = 1 << 30
#: The published config.json of deepseek-ai/DeepSeek-V3, as far as sizes go.
_CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "v_head_dim": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1,
    "vocab_size": 129280,
    "tie_word_embeddings": False,
    "max_position_embeddings": 163840,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
_H = 7168
_BLOCK = 128


def time_prediction() -> dict[str, float]:
    """One answer with options, of a process that has read its tables, and of one that has not."""
    inputs = Inputs(
        name="bench",
        engine="sglang",
        release="0.5.17",
        shape=read_shape(_CONFIG),
        gpus=(Gpu(total_bytes=143771 << 20, key="h200"),) * 8,
        ranks=Ranks(tensor=8),
        settings=Settings(memory_share=0.88),
        host=Host(total_bytes=1024 * _GIB, available_bytes=900 * _GIB),
    )

    def answer() -> None:
        found = add_options(predict(inputs), inputs)
        if not found.options:
            raise SystemExit(f"there are no options: {found.unknown}")

    began = time.perf_counter()
    answer()
    first = time.perf_counter() - began
    return {"seconds": _median(answer), "first_seconds": first}


class CountingHost:
    """A host whose reads are counted; all else is the host's own."""

    def __init__(self, host: LocalHost) -> None:
        self._host = host
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        """Counted."""
        found = self._host.read_bytes(path, offset, length)
        self.read += len(found)
        return found

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """Counted."""
        found = self._host.read_text(path, limit_bytes)
        self.read += len(found.encode())
        return found


def time_headers(folder: Path) -> dict[str, float]:
    """The probe's reading and its understanding of all headers."""
    size = write_checkpoint(folder)
    host = CountingHost(LocalHost())

    def look() -> None:
        host.read = 0
        found = parse_model(read_model(cast("ReadableHost", host), str(folder)))
        if found.get("reason") or not found.get("complete", True):
            raise SystemExit(f"the checkpoint is not understood: {found}")

    return {"seconds": _median(look), "read_bytes": host.read, "weight_bytes": size}


def write_checkpoint(folder: Path) -> int:
    """The shards, the index and config.json; the bytes that the shards claim to have."""
    tensors = dict(list_tensors())
    most = sum(_size(kind, shape) for kind, shape in tensors.values()) / _SHARDS
    shards: list[dict[str, tuple[str, tuple[int, ...]]]] = [{}]
    filled = 0
    for name, (kind, shape) in tensors.items():
        if filled > most * len(shards):
            shards.append({})
        shards[-1][name] = (kind, shape)
        filled += _size(kind, shape)
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        places |= dict.fromkeys(shard, file)
        _write_shard(folder / file, shard)
    index = {"metadata": {"total_size": filled}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    (folder / "config.json").write_text(json.dumps(_CONFIG), "utf-8")
    return filled


def list_tensors() -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """Names, types and shapes as they stand in the published checkpoint, its drafting layer too."""
    yield "model.embed_tokens.weight", ("BF16", (129280, _H))
    for layer in range(62):
        start = f"model.layers.{layer}"
        yield from _list_attention(f"{start}.self_attn")
        yield f"{start}.input_layernorm.weight", ("BF16", (_H,))
        yield f"{start}.post_attention_layernorm.weight", ("BF16", (_H,))
        if layer < 3:
            yield from _list_mlp(f"{start}.mlp", 18432)
            continue
        yield f"{start}.mlp.gate.weight", ("BF16", (256, _H))
        yield f"{start}.mlp.gate.e_score_correction_bias", ("F32", (256,))
        yield from _list_mlp(f"{start}.mlp.shared_experts", 2048)
        for expert in range(256):
            yield from _list_mlp(f"{start}.mlp.experts.{expert}", 2048)
    yield "model.norm.weight", ("BF16", (_H,))
    yield "lm_head.weight", ("BF16", (129280, _H))


def _list_attention(start: str) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    yield from _quantized(f"{start}.q_a_proj", (1536, _H))
    yield from _quantized(f"{start}.q_b_proj", (24576, 1536))
    yield from _quantized(f"{start}.kv_a_proj_with_mqa", (576, _H))
    yield from _quantized(f"{start}.kv_b_proj", (32768, 512))
    yield from _quantized(f"{start}.o_proj", (_H, 16384))
    yield f"{start}.q_a_layernorm.weight", ("BF16", (1536,))
    yield f"{start}.kv_a_layernorm.weight", ("BF16", (512,))


def _list_mlp(start: str, width: int) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    yield from _quantized(f"{start}.gate_proj", (width, _H))
    yield from _quantized(f"{start}.up_proj", (width, _H))
    yield from _quantized(f"{start}.down_proj", (_H, width))


def _quantized(
    start: str, shape: tuple[int, int]
) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    yield f"{start}.weight", ("F8_E4M3", shape)
    blocks = (-(-shape[0] // _BLOCK), -(-shape[1] // _BLOCK))
    yield f"{start}.weight_scale_inv", ("F32", blocks)


def _size(kind: str, shape: tuple[int, ...]) -> int:
    size = {"F8_E4M3": 1, "BF16": 2, "F32": 4}[kind]
    for width in shape:
        size *= width
    return size


def _write_shard(path: Path, shard: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (kind, shape) in shard.items():
        begin, end = end, end + _size(kind, shape)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        # Nothing of it is written: the file has its size and no blocks behind the header.
        file.truncate(8 + len(text) + end)


def _median(call: Callable[[], None]) -> float:
    taken = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> None:
    """Measure what the first word names."""
    what = sys.argv[1]
    found = time_prediction() if what == "prediction" else time_headers(Path(sys.argv[2]))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
