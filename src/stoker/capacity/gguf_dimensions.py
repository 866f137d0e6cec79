"""The dimensions of a model as memory needs them, from what a GGUF file's header tells.

Called by whoever builds :class:`~stoker.capacity.inputs.Inputs` for llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.capacity.inputs import Attention, Extras, Quantization, Shape, State
from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.model.facts import Plain, Unknown

_MOST = 1 << 40


def read_gguf_shape(seen: Mapping[str, Plain]) -> Shape:
    """The dimensions that the model probe read of a GGUF file."""
    parts = describe_checkpoint({**seen, "format": "gguf"})
    layers = parts["layers"]
    if isinstance(layers, Unknown):
        return _make(parts, (), (), f"the layers are not known: {layers.reason}")
    linear = _count_linear(seen, parts, layers)
    if isinstance(linear, Unknown):
        return _make(parts, (), (), f"which layers keep a state is not known: {linear.reason}")
    kinds, why = _read_attention(seen, parts, layers - linear)
    states = (_read_state(seen, parts, linear),) if linear else ()
    if not why and any(not state.conv_tokens or not state.heads for state in states):
        why = "the file does not give the sizes of its recurrent states"
    return _make(parts, kinds, states, why)


def _make(
    parts: Mapping[str, Plain],
    kinds: tuple[Attention, ...],
    states: tuple[State, ...],
    unknown: str,
) -> Shape:
    method = parts.get("quantization_method")
    return Shape(
        model_class="",
        layers=_number(parts, "layers"),
        hidden_width=_number(parts, "hidden_width"),
        intermediate_width=_number(parts, "intermediate_width"),
        vocabulary=_number(parts, "vocabulary"),
        heads=_number(parts, "heads"),
        context_tokens=_number(parts, "context_tokens") or None,
        attention=kinds,
        states=states,
        other=Extras(quantization=Quantization(method=method if isinstance(method, str) else "")),
        unknown=unknown,
    )


def _read_attention(
    seen: Mapping[str, Plain], parts: Mapping[str, Plain], layers: int
) -> tuple[tuple[Attention, ...], str]:
    latent, rope = _number(seen, "kv_lora_rank"), _number(seen, "rope_dimension_count")
    width = _number(parts, "head_width") or _divide(parts)
    kind = Attention(
        layers=layers,
        kv_heads=_number(parts, "kv_heads"),
        key_width=width,
        value_width=_number(seen, "value_length") or width,
        latent_width=latent,
        rope_width=rope if latent else 0,
    )
    if not (latent and rope) and not (kind.kv_heads and kind.key_width):
        return (), "the heads of the attention, or their width, are not known"
    if parts.get("has_sliding_window") is not True:
        return (kind,), ""
    return (), "the file does not say which of its layers have a window"


def _divide(parts: Mapping[str, Plain]) -> int:
    heads = _number(parts, "heads")
    return _number(parts, "hidden_width") // heads if heads else 0


def _count_linear(
    seen: Mapping[str, Plain], parts: Mapping[str, Plain], layers: int
) -> int | Unknown:
    counted = parts["linear_layers"]
    interval = _number(seen, "full_attention_interval")
    if isinstance(counted, Unknown):
        return layers - layers // interval if interval else counted
    return int(counted or 0)


def _read_state(seen: Mapping[str, Plain], parts: Mapping[str, Plain], layers: int) -> State:
    heads, inner = _number(seen, "ssm_time_step_rank"), _number(seen, "ssm_inner_size")
    width, groups = _number(seen, "ssm_state_size"), _number(seen, "ssm_group_count")
    name = parts.get("linear_attention")
    return State(
        mechanism=name if isinstance(name, str) else "",
        layers=layers,
        conv_width=inner + 2 * groups * width,
        conv_tokens=_number(seen, "ssm_conv_kernel"),
        heads=heads,
        key_width=width,
        value_width=inner // heads if heads else 0,
    )


def _number(table: Mapping[str, Plain], name: str) -> int:
    value = table.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST:
        return value
    return 0
