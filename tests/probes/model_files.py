"""Writers of tiny model files, and their hostile variants."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

ALIGNMENT = 32
F32, Q4_0 = 0, 2
#: (name, dimensions, type number)
TensorRow = tuple[str, tuple[int, ...], int]

_BYTES = {F32: lambda elements: elements * 4, Q4_0: lambda elements: elements // 32 * 18}

TINY_METADATA: Mapping[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.file_type": 2,
    "llama.context_length": 2048,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": [2, 1],
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.tokens": ["<s>", "</s>", "a"],
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.chat_template": "{{ messages }}",
}
TINY_TENSORS: Sequence[TensorRow] = (
    ("token_embd.weight", (64, 3), Q4_0),
    ("output_norm.weight", (64,), F32),
)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """A value with its type number before it."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    items = [typed(item) for item in value]
    kind = items[0][:4] if items else struct.pack("<I", 4)
    return (
        struct.pack("<I", 9)
        + kind
        + struct.pack("<Q", len(items))
        + b"".join(item[4:] for item in items)
    )


def build_gguf(
    metadata: Mapping[str, Any] = TINY_METADATA,
    tensors: Sequence[TensorRow] = TINY_TENSORS,
    *,
    version: int = 3,
    magic: bytes = b"GGUF",
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A whole file; ``counts`` lies about how many tensors and keys it has."""
    tensor_count, key_count = counts or (len(tensors), len(metadata))
    header = magic + struct.pack("<IQQ", version, tensor_count, key_count)
    header += b"".join(text(key) + typed(value) for key, value in metadata.items())
    data = b""
    for name, dimensions, kind in tensors:
        header += text(name) + struct.pack("<I", len(dimensions))
        header += struct.pack(f"<{len(dimensions)}Q", *dimensions)
        header += struct.pack("<IQ", kind, len(data))
        elements = 1
        for dimension in dimensions:
            elements *= dimension
        data += _pad(bytes(_BYTES.get(kind, _BYTES[F32])(elements)))
    return _pad(header) + data


def build_safetensors(tensors: Mapping[str, tuple[str, tuple[int, ...], int]]) -> bytes:
    """A whole file from name -> (dtype, shape, bytes)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (kind, shape, size) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(end)


def _pad(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % ALIGNMENT)
