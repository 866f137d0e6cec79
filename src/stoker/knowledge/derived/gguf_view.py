"""A GGUF file's metadata in the words of a checkpoint.

Called by :mod:`stoker.knowledge.derived.checkpoint`. What the file does not say is Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.model.facts import Plain, Unknown

#: Part of a checkpoint -> name of the shape in the model probe.
_COUNTS = {
    "layers": "block_count",
    "heads": "head_count",
    "kv_heads": "head_count_kv",
    "head_width": "key_length",
    "hidden_width": "embedding_length",
    "intermediate_width": "feed_forward_length",
    "vocabulary": "vocabulary_size",
    "context_tokens": "context_length",
}
_MOST = 1_000_000_000
_FLOATS = frozenset({"F32", "F16", "BF16", "F64"})


def describe_gguf(value: Mapping[str, Plain]) -> dict[str, Plain]:
    """The parts of a checkpoint that a GGUF file tells, by the shape that the model probe read."""
    counts = {part: _count(value, name) for part, name in _COUNTS.items()}
    experts = _optional(value, "expert_count")
    is_moe = experts if isinstance(experts, Unknown) else experts is not None and experts > 1
    return {
        **counts,
        **_describe_experts(value, is_moe=is_moe),
        "class": None,
        "model_type": value.get("architecture") or Unknown(reason="the file names no architecture"),
        "attention": _attention(value, counts),
        "is_sparse_attention": bool(value.get("indexer_head_count")),
        **_describe_layers(value, counts["layers"]),
        **_describe_quantization(value),
        "dtype": None,
        "draft_layers": _or_zero(_optional(value, "nextn_predict_layers")),
        "has_own_code": False,
        "is_multimodal": False,
        "problems": [],
    }


def _count(value: Mapping[str, Plain], name: str) -> int | Unknown:
    found = value.get(name)
    if isinstance(found, (list, tuple)):
        kinds = {item for item in found if type(item) is int and item}
        if len(kinds) == 1:
            found = kinds.pop()
        else:
            return Unknown(reason=f"the file gives a {name} of its own for each layer")
    if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= _MOST:
        return found
    return Unknown(reason=f"the file gives no {name}" if found is None else f"its {name} cannot be")


def _optional(value: Mapping[str, Plain], name: str) -> int | Unknown | None:
    """A count that may be missing or zero; None for either."""
    return None if value.get(name) in (None, 0) else _count(value, name)


def _or_zero(count: int | Unknown | None) -> int | Unknown:
    return 0 if count is None else count


def _describe_experts(value: Mapping[str, Plain], *, is_moe: bool | Unknown) -> dict[str, Plain]:
    names = (
        "experts",
        "experts_per_token",
        "expert_width",
        "shared_experts",
        "shared_expert_width",
    )
    if is_moe is not True:
        answer = None if is_moe is False else is_moe
        return {"is_moe": is_moe, **dict.fromkeys(names, answer)}
    return {
        "is_moe": True,
        "experts": _count(value, "expert_count"),
        "experts_per_token": _count(value, "expert_used_count"),
        "expert_width": _count(value, "expert_feed_forward_length"),
        "shared_experts": _or_zero(_optional(value, "expert_shared_count")),
        "shared_expert_width": _optional(value, "expert_shared_feed_forward_length"),
    }


def _attention(value: Mapping[str, Plain], counts: Mapping[str, Plain]) -> Plain:
    if value.get("kv_lora_rank"):
        return "mla"
    heads, kv_heads = counts["heads"], counts["kv_heads"]
    if isinstance(heads, Unknown) or isinstance(kv_heads, Unknown):
        return heads if isinstance(heads, Unknown) else kv_heads
    return "mha" if heads == kv_heads else "gqa"


def _describe_layers(value: Mapping[str, Plain], layers: Plain) -> dict[str, Plain]:
    window = value.get("sliding_window")
    has_window = bool(window)
    has_state = bool(value.get("ssm_state_size"))
    per_layer = value.get("head_count_kv")
    linear = sum(1 for item in per_layer if not item) if isinstance(per_layer, Sequence) else None
    unsaid = Unknown(reason="the file does not say which of its layers attend to everything")
    has_any = has_window or has_state
    linear_layers: Plain = 0
    if has_state:
        linear_layers = linear if linear is not None else unsaid
    return {
        "has_linear_attention": has_state,
        "linear_attention": _name_state(value) if has_state else None,
        "has_sliding_window": has_window,
        "window_tokens": window if isinstance(window, int) and has_window else None,
        "full_layers": unsaid if has_any else layers,
        "sliding_layers": unsaid if has_window else 0,
        "linear_layers": linear_layers,
    }


def _name_state(value: Mapping[str, Plain]) -> str | Unknown:
    if value.get("ssm_time_step_rank") and value.get("ssm_group_count"):
        return "gdn" if value.get("full_attention_interval") else "mamba2"
    return Unknown(reason="the file does not say which linear attention its layers have")


def _describe_quantization(value: Mapping[str, Plain]) -> dict[str, Plain]:
    types = value.get("tensor_types")
    mixture = types if isinstance(types, Mapping) else {}
    packed = {name: size for name, size in mixture.items() if name not in _FLOATS}
    first = max(packed, key=lambda name: packed[name]) if packed else None
    word = "gguf" if packed or not mixture else "none"
    return {
        "quantization": word,
        "quantization_parts": sorted(mixture),
        "expert_quantization": word,
        "quantization_method": first,
        "quantization_bits": None,
        "quantization_group": None,
        "quantization_block": None,
        "quantization_activation": None,
        "quantization_ignored": [],
        "kv_cache_quantization": "none",
    }
