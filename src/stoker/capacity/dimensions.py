"""The dimensions of a model as memory needs them, from its config.json.

Called by whoever builds :class:`~stoker.capacity.inputs.Inputs`. What the file leaves open, and
what is absurd in it, ends in ``Shape.unknown`` as a sentence; nothing is guessed silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.capacity.inputs import (
    Attention,
    Experts,
    Extras,
    Quantization,
    Shape,
    State,
    Vision,
)
from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.derived.config_view import ConfigView, view_config
from stoker.knowledge.model_dimensions import StateKeys, load_shape_keys
from stoker.model.facts import Plain, Unknown

#: Sizes beyond these are no model's.
_MOST_WIDTH, _MOST_COUNT = 1 << 20, 1 << 16
_NEEDED = ("hidden_width", "vocabulary", "heads")

Parts = Mapping[str, Plain]


def read_shape(config: Mapping[str, Plain]) -> Shape:
    """The dimensions that a config.json tells."""
    parts = describe_checkpoint({"config": config})
    view = view_config(config)
    attention, why = _read_attention(view, parts)
    states, missing = _read_states(view, parts)
    unknown = why or missing or _find_absurd(parts)
    name = parts.get("class")
    return Shape(
        model_class=name if isinstance(name, str) else "",
        layers=_number(parts, "layers"),
        hidden_width=_number(parts, "hidden_width"),
        intermediate_width=_number(parts, "intermediate_width"),
        vocabulary=_number(parts, "vocabulary"),
        heads=_number(parts, "heads"),
        context_tokens=_number(parts, "context_tokens") or None,
        attention=attention,
        states=states,
        other=_read_extras(view, config, parts),
        unknown=unknown,
    )


def _number(parts: Parts, name: str) -> int:
    value = parts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _find(view: ConfigView, names: Sequence[str], *, most: int = _MOST_WIDTH) -> int:
    """The first of some keys that is a sane count, else 0."""
    for name in names:
        value = view.find(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
    return 0


def _read_attention(view: ConfigView, parts: Parts) -> tuple[tuple[Attention, ...], str]:
    layers = parts["layers"]
    if isinstance(layers, Unknown):
        return (), f"the layers are not known: {layers.reason}"
    full, sliding = parts["full_layers"], parts["sliding_layers"]
    if isinstance(full, Unknown) or isinstance(sliding, Unknown):
        # Engines treat layers that nobody lists alike.
        linear = parts["linear_layers"]
        if isinstance(linear, Unknown):
            return (), f"which layers keep a cache is not known: {linear.reason}"
        full, sliding = _number(parts, "layers") - linear, 0
    shared = _find(view, load_shape_keys().heads.shared_layers)
    if shared:
        return (), f"the last {shared} layers share the cache of others, which is not described"
    full_kind = _read_full(view, parts, full)
    if full and (why := _why_no_heads(full_kind)):
        return (), why
    kinds = [full_kind] if full else []
    if sliding:
        kinds.append(_read_sliding(view, parts, sliding))
    return tuple(kinds), ""


def _why_no_heads(kind: Attention) -> str:
    if kind.latent_width and not kind.rope_width:
        return "the width of the rotated part of the latent attention is not known"
    if not kind.latent_width and not (kind.kv_heads and kind.key_width):
        return "the heads of the attention, or their width, are not known"
    return ""


def _read_full(view: ConfigView, parts: Parts, layers: int) -> Attention:
    keys = load_shape_keys().heads
    width = _find(view, keys.full_width) or _number(parts, "head_width")
    return Attention(
        layers=layers,
        kv_heads=_find(view, keys.full_kv_heads, most=_MOST_COUNT) or _number(parts, "kv_heads"),
        key_width=width,
        value_width=_number(parts, "value_width") or width,
        latent_width=_number(parts, "latent_width"),
        rope_width=_number(parts, "rope_width"),
        index_width=_find(view, keys.index_width),
    )


def _read_sliding(view: ConfigView, parts: Parts, layers: int) -> Attention:
    keys = load_shape_keys().heads
    width = _find(view, keys.sliding_width) or _number(parts, "head_width")
    own_values = _find(view, keys.sliding_value_width)
    return Attention(
        layers=layers,
        kv_heads=_find(view, keys.sliding_kv_heads, most=_MOST_COUNT) or _number(parts, "kv_heads"),
        key_width=width,
        value_width=own_values or _number(parts, "value_width") or width,
        latent_width=_number(parts, "latent_width"),
        rope_width=_number(parts, "rope_width"),
        window_tokens=_number(parts, "window_tokens") or None,
    )


def _read_states(view: ConfigView, parts: Parts) -> tuple[tuple[State, ...], str]:
    layers = parts["linear_layers"]
    if isinstance(layers, Unknown):
        return (), f"which layers keep a state is not known: {layers.reason}"
    if not layers:
        return (), ""
    mechanism = parts["linear_attention"]
    rows = [row for row in load_shape_keys().state if row.mechanism == mechanism]
    if not rows:
        shown = mechanism if isinstance(mechanism, str) else "an unnamed mechanism"
        return (), f"the state of {shown} is not described"
    state = _read_state(view, rows[0], layers)
    if not (state.heads and state.key_width and state.value_width and state.conv_tokens):
        return (), f"the sizes of the {mechanism} state are not in the config"
    return (state,), ""


def _read_state(view: ConfigView, row: StateKeys, layers: int) -> State:
    heads = _find(view, row.heads, most=_MOST_COUNT)
    key_heads = _find(view, row.key_heads, most=_MOST_COUNT)
    key_width, value_width = _find(view, row.key_width), _find(view, row.value_width)
    # Keys and queries pass the convolution, and so do the values.
    conv_width = 2 * key_heads * key_width + heads * value_width
    kind = next((word for word in map(view.find, row.number_type) if isinstance(word, str)), "")
    return State(
        mechanism=row.mechanism,
        layers=layers,
        conv_width=conv_width,
        conv_tokens=_find(view, row.conv_tokens),
        heads=heads,
        key_width=key_width,
        value_width=value_width,
        state_type=kind,
    )


def _read_extras(view: ConfigView, config: Mapping[str, Plain], parts: Parts) -> Extras:
    keys = load_shape_keys()
    dtype = parts.get("dtype")
    return Extras(
        experts=_read_experts(view, parts),
        vision=_read_vision(config),
        is_multimodal=parts.get("is_multimodal") is True,
        is_tied=view.find("tie_word_embeddings") is True,
        query_latent_width=_find(view, keys.heads.query_latent_width),
        nope_width=_find(view, keys.heads.nope_width),
        draft_layers=_number(parts, "draft_layers"),
        quantization=_read_quantization(parts),
        number_type=dtype if isinstance(dtype, str) else "",
    )


def _read_experts(view: ConfigView, parts: Parts) -> Experts | None:
    if parts.get("is_moe") is not True:
        return None
    is_beside = any(view.has(key) for key in load_shape_keys().beside.keys)
    beside = _number(parts, "intermediate_width") if is_beside else 0
    return Experts(
        count=_number(parts, "experts"),
        width=_number(parts, "expert_width") or _number(parts, "intermediate_width"),
        used=_number(parts, "experts_per_token"),
        shared_width=_number(parts, "shared_expert_width") + beside,
        dense_layers=_number(parts, "dense_layers"),
    )


def _read_vision(config: Mapping[str, Plain]) -> Vision | None:
    keys = load_shape_keys().vision
    table = next((config[name] for name in keys.tables if config.get(name)), None)
    if not isinstance(table, Mapping):
        return None
    view = ConfigView(tables=(table,))
    return Vision(
        layers=_find(view, keys.layers, most=_MOST_COUNT),
        hidden_width=_find(view, keys.hidden_width),
        intermediate_width=_find(view, keys.intermediate_width),
    )


def _read_quantization(parts: Parts) -> Quantization:
    word = parts.get("quantization")
    if not isinstance(word, str) or word == "none":
        return Quantization()
    method = parts.get("quantization_method")
    bits = _number(parts, "quantization_bits")
    words = [each for each in (word, method) if isinstance(each, str)]
    return Quantization(
        method=" ".join(words), bits=bits or 16, group=_number(parts, "quantization_group")
    )


def _find_absurd(parts: Parts) -> str:
    problems = parts.get("problems")
    if isinstance(problems, list) and problems:
        return f"the config cannot be right: {problems[0]}"
    return ""
