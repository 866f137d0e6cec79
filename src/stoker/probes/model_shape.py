"""A model's shape in a few counts that both formats tell: layers, heads, widths.

Used by the model probe. What the keys of a config.json mean beyond these counts is knowledge, and
not judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Our name -> the name in a GGUF file behind the architecture, and in a config.json.
_SHAPE = {
    "context_length": ("context_length", "max_position_embeddings"),
    "block_count": ("block_count", "num_hidden_layers"),
    "embedding_length": ("embedding_length", "hidden_size"),
    "head_count": ("attention.head_count", "num_attention_heads"),
    "head_count_kv": ("attention.head_count_kv", "num_key_value_heads"),
    "key_length": ("attention.key_length", "head_dim"),
    "value_length": ("attention.value_length", "v_head_dim"),
    "sliding_window": ("attention.sliding_window", "sliding_window"),
    "vocabulary_size": ("vocab_size", "vocab_size"),
    "expert_count": ("expert_count", "num_experts"),
}
#: What a GGUF file alone tells in these words; our name -> the name behind the architecture.
_GGUF_ONLY = {
    "feed_forward_length": "feed_forward_length",
    "expert_used_count": "expert_used_count",
    "expert_shared_count": "expert_shared_count",
    "expert_feed_forward_length": "expert_feed_forward_length",
    "expert_shared_feed_forward_length": "expert_shared_feed_forward_length",
    "leading_dense_block_count": "leading_dense_block_count",
    "nextn_predict_layers": "nextn_predict_layers",
    "kv_lora_rank": "attention.kv_lora_rank",
    "sliding_key_length": "attention.key_length_swa",
    "sliding_value_length": "attention.value_length_swa",
    "shared_kv_layers": "attention.shared_kv_layers",
    "indexer_head_count": "attention.indexer.head_count",
    "full_attention_interval": "full_attention_interval",
    "rope_dimension_count": "rope.dimension_count",
    "short_conv_length": "shortconv.l_cache",
    "ssm_conv_kernel": "ssm.conv_kernel",
    "ssm_inner_size": "ssm.inner_size",
    "ssm_state_size": "ssm.state_size",
    "ssm_group_count": "ssm.group_count",
    "ssm_time_step_rank": "ssm.time_step_rank",
    "rope_original_context_length": "rope.scaling.original_context_length",
}
#: The language part's own table in the config of a model that also sees or hears.
_INNER = ("text_config", "llm_config", "language_config")

Value = dict[str, Any]


def gguf_shape(metadata: Mapping[str, Any], lengths: Mapping[str, int]) -> Value:
    """The shape from a GGUF file's metadata, with its ``architecture``, ``name``, ``basename``,
    ``file_type`` (a number of llama.cpp) and who made the numbers smaller (``quantized_by``)."""
    architecture = metadata.get("general.architecture")
    shape = {
        ours: counts(metadata.get(f"{architecture}.{name}")) for ours, (name, _) in _SHAPE.items()
    }
    if shape["vocabulary_size"] is None:
        shape["vocabulary_size"] = lengths.get("tokenizer.ggml.tokens")
    more = {
        ours: counts(metadata.get(f"{architecture}.{name}")) for ours, name in _GGUF_ONLY.items()
    }
    return {
        "architecture": words(architecture),
        "name": words(metadata.get("general.name")),
        "basename": words(metadata.get("general.basename")),
        "size_label": words(metadata.get("general.size_label")),
        "quantized_by": words(metadata.get("general.quantized_by")),
        "repository": words(metadata.get("general.repo_url")),
        "rope_scaling": words(metadata.get(f"{architecture}.rope.scaling.type")),
        "file_type": counts(metadata.get("general.file_type")),
        "sliding_window_pattern": marks(
            metadata.get(f"{architecture}.attention.sliding_window_pattern")
        ),
        **shape,
        **more,
    }


def config_shape(config: Value) -> Value:
    """The shape from a config.json, with its ``architecture``."""
    # A model that also sees or hears keeps the shape of its language part in a table of its own.
    tables = [config, *(table for table in map(config.get, _INNER) if isinstance(table, dict))]
    named = config.get("architectures")
    names = [*named, None] if isinstance(named, list) else [None]
    return {
        "architecture": words(names[0]) or words(config.get("model_type")),
        **{ours: _first_count(tables, name) for ours, (_, name) in _SHAPE.items()},
    }


def _first_count(tables: Iterable[Value], name: str) -> int | list[int] | None:
    found = (counts(table.get(name)) for table in tables)
    return next((count for count in found if count is not None), None)


def words(value: object) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


def marks(value: object) -> int | list[int] | None:
    """A whole number, or for each block whether it is meant, as 1 and 0; None for anything else."""
    is_list = isinstance(value, list) and all(isinstance(item, int) for item in value)
    return counts([int(item) for item in value] if is_list and isinstance(value, list) else value)


def counts(value: object) -> int | list[int] | None:
    """A whole number, or a list of one for each block; None for anything else."""
    if isinstance(value, list) and all(type(item) is int for item in value):
        return value
    return value if type(value) is int else None
