"""The dimensions of a model as memory needs them, from its config.json.

Called by whoever builds :class:`~stoker.capacity.inputs.Inputs`. What the file leaves open, and
what is absurd in it, ends in ``Shape.unknown`` as a sentence; nothing is guessed silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stoker.capacity.expert_layers import find_count, read_experts
from stoker.capacity.inputs import (
    Attention,
    Extras,
    Quantization,
    Shape,
    State,
    Vision,
)
from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.derived.config_view import ConfigView, view_config
from stoker.knowledge.derived.layouts import read_kinds
from stoker.knowledge.model_dimensions import StateKeys, load_shape_keys
from stoker.model.facts import Plain, Unknown

#: Sizes beyond these are no model's.
_MOST_WIDTH, _MOST_COUNT = 1 << 20, 1 << 16
_NEEDED = ("hidden_width", "vocabulary", "heads")

Parts = Mapping[str, Plain]


def read_shape(config: Mapping[str, Plain]) -> Shape:
    """The dimensions that a config.json tells."""
    config = _with_pattern(config)
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
        intermediate_width=_find(view, load_shape_keys().experts.dense_width)
        or _number(parts, "intermediate_width"),
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
    return find_count(view, names, most=most)


def _with_pattern(config: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """With the kinds of the layers that the class has by itself, where the file lists none."""
    view = view_config(config)
    name = _name_class(config)
    layers = view.count("layers")
    rows = (row for row in load_shape_keys().pattern if name in row.classes)
    row = next((row for row in rows if not row.needs or view.has(row.needs)), None)
    if row is None or isinstance(layers, Unknown):
        return config
    config = {**{key: value for key, value in row.keys.items() if view.find(key) is None}, **config}
    if read_kinds(view) is not None:
        return config
    words = [row.words[place % len(row.words)] for place in range(layers)]
    return {**config, "layer_types": words}


def _name_class(config: Mapping[str, Plain]) -> str:
    named = config.get("architectures")
    first = named[0] if isinstance(named, (list, tuple)) and named else named
    return first if isinstance(first, str) else ""


def _read_attention(view: ConfigView, parts: Parts) -> tuple[tuple[Attention, ...], str]:
    layers = parts["layers"]
    if isinstance(layers, Unknown):
        return (), f"the layers are not known: {layers.reason}"
    if obstacle := _find_undescribed(view, parts):
        return (), obstacle
    full, sliding = parts["full_layers"], parts["sliding_layers"]
    if isinstance(full, Unknown) or isinstance(sliding, Unknown):
        linear = parts["linear_layers"]
        if isinstance(linear, Unknown):
            return (), f"which layers keep a cache is not known: {linear.reason}"
        # Engines treat layers that nobody lists alike: a window holds for all of them.
        full, sliding = _number(parts, "layers") - linear, 0
        if parts["has_sliding_window"] is True and not linear:
            full, sliding = sliding, full
    times = _count_times("attention", parts) or 1
    full, sliding = full * times, sliding * times
    full_kind = _read_full(view, parts, full)
    if full and (why := _why_no_heads(full_kind)):
        return (), why
    kinds = [full_kind] if full else []
    if sliding:
        kinds.append(_read_sliding(view, parts, sliding))
    return tuple(_share(view, parts, kinds)), ""


def _find_undescribed(view: ConfigView, parts: Parts) -> str:
    """Why the layers that keep a cache cannot be counted; empty where they can."""
    keys = load_shape_keys()
    for key in keys.undescribed.keys:
        value = view.find(key)
        if value and (value is True or value != 1):
            return f"the model has {key}, and how its layers then share caches is not described"
    if read_kinds(view) is not None:
        return ""
    if parts.get("class") in keys.listing.classes and not _list_blocks(view):
        return "which layers keep a cache and which a state is not in the config"
    if shared := _find(view, keys.heads.shared_layers):
        return f"of which kinds the last {shared} layers are, which keep nothing, is not known"
    return ""


def _list_blocks(view: ConfigView) -> Sequence[Parts]:
    """Layers that a file describes one by one, some of them without attention."""
    found = next(filter(None, map(view.find, load_shape_keys().heads.blocks)), None)
    rows = found if isinstance(found, (list, tuple)) else ()
    return [row for row in rows if isinstance(row, Mapping)]


def _lacks_attention(block: Parts) -> bool:
    part = block.get("attention")
    return not isinstance(part, Mapping) or part.get("no_op") is True


def _count_times(what: str, parts: Parts) -> int:
    rows = (row for row in load_shape_keys().times if row.what == what)
    return next((row.count for row in rows if parts.get("class") in row.classes), 0)


def _share(view: ConfigView, parts: Parts, kinds: Sequence[Attention]) -> Iterator[Attention]:
    """With how many of each kind keep nothing: the last, which use the cache of others, and those
    without attention."""
    lacking = sum(map(_lacks_attention, _list_blocks(view)))
    last = _find(view, load_shape_keys().heads.shared_layers)
    words = read_kinds(view)
    listed = list(words) if isinstance(words, (list, tuple)) else []
    for kind in kinds:
        name = "full" if kind.window_tokens is None else "sliding"
        layers = _number(parts, "layers")
        alike = listed[layers - last :].count(name) if listed and last < layers else 0
        yield replace(kind, shared_layers=alike if last else lacking)


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
        kv_heads=_find(view, keys.full_kv_heads, most=_MOST_COUNT) or _count_kv_heads(view, parts),
        key_width=width,
        value_width=_number(parts, "value_width") or width,
        latent_width=_number(parts, "latent_width"),
        rope_width=_number(parts, "rope_width") or _find_rotated(view, width),
        index_width=_find(view, keys.index_width),
    )


def _count_kv_heads(view: ConfigView, parts: Parts) -> int:
    """As many as there are heads, where the file does not speak of them."""
    known = _number(parts, "kv_heads")
    return known or (0 if view.names_any("kv_heads") else _number(parts, "heads"))


def _find_rotated(view: ConfigView, width: int) -> int:
    """The elements of each head that have a position, where not all of them have one, else 0."""
    told = next(
        (share for share in map(view.find, load_shape_keys().heads.rotated_share) if share), None
    )
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not 0 < told < 1:
        return 0
    return int(width * told)


def _read_sliding(view: ConfigView, parts: Parts, layers: int) -> Attention:
    keys = load_shape_keys().heads
    width = _find(view, keys.sliding_width) or _number(parts, "head_width")
    own_values = _find(view, keys.sliding_value_width)
    return Attention(
        layers=layers,
        kv_heads=_find(view, keys.sliding_kv_heads, most=_MOST_COUNT)
        or _count_kv_heads(view, parts),
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
        experts=read_experts(view, parts),
        vision=_read_vision(config, parts),
        is_multimodal=parts.get("is_multimodal") is True,
        is_tied=view.find("tie_word_embeddings") is True,
        query_latent_width=_find(view, keys.heads.query_latent_width),
        nope_width=_find(view, keys.heads.nope_width),
        draft_layers=_number(parts, "draft_layers"),
        table_elements=_count_table(view, parts),
        quantization=_read_quantization(parts),
        number_type=dtype if isinstance(dtype, str) else "",
    )


def _count_table(view: ConfigView, parts: Parts) -> int:
    keys = load_shape_keys().tables
    width, words = _find(view, keys.width), _find(view, keys.words)
    return width * _number(parts, "layers") * (words or _number(parts, "vocabulary"))


def _read_vision(config: Mapping[str, Plain], parts: Parts) -> Vision | None:
    keys = load_shape_keys().vision
    table = next((config[name] for name in keys.tables if config.get(name)), None)
    if not isinstance(table, Mapping):
        return None
    view = ConfigView(tables=(table,))
    return Vision(
        layers=_find(view, keys.layers, most=_MOST_COUNT),
        hidden_width=_find(view, keys.hidden_width),
        intermediate_width=_find(view, keys.intermediate_width),
        mergers=_count_times("merger", parts),
    )


def _read_quantization(parts: Parts) -> Quantization:
    word = parts.get("quantization")
    if isinstance(word, Unknown):
        # Nothing is counted as if it were stored in full.
        return Quantization(method="not known", bits=0)
    if not isinstance(word, str) or word == "none":
        return Quantization()
    method = parts.get("quantization_method")
    bits = _number(parts, "quantization_bits")
    words = [each for each in (word, method) if isinstance(each, str)]
    return Quantization(
        method=" ".join(words),
        bits=bits or 16,
        group=_number(parts, "quantization_group"),
        kept=_read_kept(parts),
    )


def _read_kept(parts: Parts) -> tuple[str, ...] | None:
    """Classes of tensors of which the file says that they are left as they were: in all layers by
    one pattern, or in most of them one by one."""
    ignored = parts.get("quantization_ignored")
    if not isinstance(ignored, (list, tuple)) or not ignored:
        return None
    most = _number(parts, "layers") // 2
    kept = []
    for row in load_shape_keys().kept:
        named = [str(each) for each in ignored if re.search(row.pattern, str(each))]
        if len(named) > most or any(not re.search(r"\.\d+\.", each) for each in named):
            kept.append(row.name)
    return tuple(kept)


def _find_absurd(parts: Parts) -> str:
    problems = parts.get("problems")
    if isinstance(problems, list) and problems:
        return f"the config cannot be right: {problems[0]}"
    return ""
