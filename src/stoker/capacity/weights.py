"""The bytes of the weights on one rank, estimated from dimensions where no header was read.

Called by :mod:`stoker.capacity.predict`. Elements are counted by classes of tensors; which of them
a way of storing leaves in 16 bit is data (``knowledge/data/capacity/weights.toml``). An estimate:
its bounds are wide where the files alone can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stoker.capacity.cells import attention_ranks, count_heads, stage_layers
from stoker.capacity.inputs import Attention, Inputs, Quantization, Ranks, Shape, State
from stoker.capacity.intervals import about, add, exact, spread
from stoker.knowledge.capacity import MIB, Stored, find_row, load_sglang, load_stored, load_vllm
from stoker.knowledge.capacity_copies import load_copies
from stoker.knowledge.model_dimensions import load_shape_keys
from stoker.model.capacity import Span

_FULL_BYTES = 2.0
#: Weights in memory against their files: some layers are padded, repacked, or on every rank.
_HEADER_SPREAD = (0.985, 1.06)
#: Elements by class: those that are divided among the ranks, and those that each rank has whole.
Elements = Mapping[str, float]
#: An image encoder that nobody described may have so many bytes.
_UNSEEN_VISION_BYTES = 1.2e9


def find_target_weights(inputs: Inputs) -> Span | None:
    """Of the model itself on the fullest rank: as a log told, from the headers, or estimated."""
    if inputs.readings.weight_bytes is not None:
        return exact(float(inputs.readings.weight_bytes))
    rope = load_sglang().rope if inputs.engine == "sglang" else load_vllm().rope
    if inputs.weight_bytes is not None:
        beside = exact(float(rope_bytes(inputs, rope.element_bytes)) + copied_bytes(inputs))
        return add(spread(float(inputs.weight_bytes), _HEADER_SPREAD), beside)
    return estimate_weights(inputs, rope.element_bytes)


def estimate_weights(inputs: Inputs, rope_element_bytes: int) -> Span | None:
    """Of the fullest rank; None where the dimensions do not suffice."""
    shape = inputs.shape
    if not (shape.hidden_width and shape.vocabulary and shape.layers):
        return None
    experts = shape.other.experts
    if experts is None and not shape.intermediate_width:
        return None
    if experts is not None and not (experts.count and experts.width):
        return None
    stored = _find_stored(shape.other.quantization, shape)
    if stored is None:
        return None
    kept = _find_kept(stored, shape.other.quantization)
    likely = 0.0
    for name, count in count_elements(shape, inputs.ranks):
        likely += count * (_FULL_BYTES if name in kept else _element_bytes(stored, shape))
    beside = exact(float(rope_bytes(inputs, rope_element_bytes)) + copied_bytes(inputs))
    unseen = about(0.0, more=_unseen_vision(shape))
    return add(spread(likely, stored.spread), beside, unseen, _leak(inputs, likely))


def count_elements(shape: Shape, ranks: Ranks) -> Iterator[tuple[str, float]]:
    """Classes of tensors and their elements on one rank."""
    ways = max(1, ranks.tensor)
    table = shape.vocabulary * shape.hidden_width / ways
    yield "embeddings", table
    if not shape.other.is_tied:
        yield "head", table
    yield "embeddings", shape.other.table_elements / ways
    for kind in shape.attention:
        layers = stage_layers(kind.layers, ranks)
        yield "attention", layers * _attention_elements(shape, kind, ranks)
        yield "norms", layers * 2.0 * shape.hidden_width
    for state in shape.states:
        layers = stage_layers(state.layers, ranks)
        yield "attention", layers * _state_elements(shape, state) / ways
    yield from _feed_elements(shape, ranks)
    vision = shape.other.vision
    if vision is not None and vision.layers and vision.hidden_width:
        inner = vision.intermediate_width or 4 * vision.hidden_width
        each = vision.hidden_width * (4 * vision.hidden_width + 2 * inner)
        merged = 4 * vision.hidden_width
        merging = vision.mergers * merged * (merged + shape.hidden_width)
        yield "vision", float(vision.layers * each + merging)


def _attention_elements(shape: Shape, kind: Attention, ranks: Ranks) -> float:
    ways, hidden = attention_ranks(ranks), shape.hidden_width
    heads = max(1, shape.heads // ways)
    if kind.latent_width:
        return _latent_elements(shape, kind, heads)
    keys = load_shape_keys().state
    gated = {row.mechanism for row in keys if row.gated_queries}
    twice = 2 if any(state.mechanism in gated for state in shape.states) else 1
    kv_heads = count_heads(kind, ways)
    queries = heads * kind.key_width * twice
    keys_and_values = kv_heads * (kind.key_width + kind.value_width)
    return float(hidden * (queries + keys_and_values + heads * kind.value_width))


def _latent_elements(shape: Shape, kind: Attention, heads: int) -> float:
    other, hidden = shape.other, shape.hidden_width
    width = other.nope_width + kind.rope_width
    latent = other.query_latent_width
    queries = hidden * latent + latent * heads * width if latent else hidden * heads * width
    down = hidden * (kind.latent_width + kind.rope_width)
    up = kind.latent_width * heads * (other.nope_width + kind.value_width)
    index = kind.index_width * (hidden + 32 * (latent or hidden)) if kind.index_width else 0
    return float(queries + down + up + heads * kind.value_width * hidden + index)


def _state_elements(shape: Shape, state: State) -> float:
    inner = state.heads * state.value_width
    into = state.conv_width + inner + 2 * state.heads
    return float(shape.hidden_width * (into + inner))


def _feed_elements(shape: Shape, ranks: Ranks) -> Iterator[tuple[str, float]]:
    ungated = shape.model_class in load_shape_keys().ungated.classes
    matrices = 2 if ungated else 3
    layers = stage_layers(_feed_layers(shape), ranks)
    experts, ways, hidden = shape.other.experts, max(1, ranks.tensor), shape.hidden_width
    if experts is None:
        yield "dense", layers * matrices * hidden * shape.intermediate_width / ways
        return
    dense = min(layers, experts.dense_layers)
    yield "dense", dense * matrices * hidden * shape.intermediate_width / ways
    layers -= dense
    inner = experts.latent_width or hidden
    yield "experts", layers * experts.count * matrices * inner * experts.width / ways
    yield "router", float(layers * 2 * hidden * experts.latent_width)
    yield "shared", layers * matrices * hidden * experts.shared_width / ways
    yield "router", float(layers * experts.count * hidden)


def _feed_layers(shape: Shape) -> int:
    """Models whose layers have one part each do not have one of these in every layer."""
    mixing = sum(kind.layers for kind in shape.attention) + sum(s.layers for s in shape.states)
    has_single_parts = any(state.mechanism == "mamba2" for state in shape.states)
    return shape.layers - mixing if has_single_parts and mixing < shape.layers else shape.layers


def _find_stored(quantization: Quantization, shape: Shape) -> Stored | None:
    is_latent = any(kind.latent_width for kind in shape.attention)
    for row in load_stored():
        if not re.search(row.method, quantization.method.lower()):
            continue
        if (row.needs and not is_latent) or (row.classes and shape.model_class not in row.classes):
            continue
        # Config files that give no bits leave sixteen.
        if row.bits in (0, quantization.bits) or quantization.bits == 16:
            return row
    return None


def _find_kept(stored: Stored, quantization: Quantization) -> frozenset[str]:
    """What stays in 16 bit: what the model says of classes that differ, else what is usual."""
    usual = frozenset(stored.kept)
    told = quantization.kept
    differing = {row.name for row in load_shape_keys().kept}
    return usual if told is None or not stored.kept else (usual - differing) | set(told)


def _element_bytes(stored: Stored, shape: Shape) -> float:
    group = shape.other.quantization.group or stored.group
    return stored.element_bytes + (stored.scale_bytes / group if group else 0.0)


def rope_bytes(inputs: Inputs, element_bytes: int) -> int:
    """The tables of rotary positions, one for each width of heads."""
    context = inputs.shape.context_tokens or 0
    return sum(context * width * element_bytes for width in _table_widths(inputs))


def _table_widths(inputs: Inputs) -> set[int]:
    return {kind.rope_width or kind.key_width for kind in inputs.shape.attention}


def copied_bytes(inputs: Inputs) -> float:
    """Of the up-projection of a latent attention, where the engine keeps it a second time."""
    shape, ranks = inputs.shape, inputs.ranks
    stored = _find_stored(shape.other.quantization, shape)
    if inputs.engine not in load_copies().latent.engines or stored is None:
        return 0.0
    is_full = "attention" in _find_kept(stored, shape.other.quantization)
    element = _FULL_BYTES if is_full else _element_bytes(stored, shape)
    heads = max(1, shape.heads // attention_ranks(ranks))
    return element * sum(
        stage_layers(kind.layers, ranks)
        * heads
        * kind.latent_width
        * (shape.other.nope_width + kind.value_width)
        for kind in shape.attention
    )


def held_table_bytes(inputs: Inputs) -> int:
    """Of the first table of positions, which a memory saver holds when a longer one is made.

    0 where the longest request is shorter than what the model was made for, so that none is made.
    """
    rule = load_copies().table
    made_for = inputs.shape.context_tokens or 0
    context = inputs.settings.context_tokens or made_for
    is_held = inputs.settings.parts.has_memory_saver and inputs.engine in rule.engines
    longer = -(-(context + rule.margin_tokens) // rule.align_tokens) * rule.align_tokens
    if not is_held or longer <= made_for:
        return 0
    element, step = load_sglang().rope.element_bytes, rule.step_mib * MIB
    return sum(-(-longer * width * element // step) * step for width in _table_widths(inputs))


def _unseen_vision(shape: Shape) -> float:
    is_seen = shape.other.vision is not None
    return (
        0.0
        if is_seen or not shape.model_class.endswith("ForConditionalGeneration")
        else (_UNSEEN_VISION_BYTES)
    )


def _leak(inputs: Inputs, likely: float) -> Span:
    row = find_row(load_sglang().leak, inputs.release) if inputs.release else None
    is_kept = row is not None and inputs.shape.model_class in row.classes
    if row is None or not is_kept or inputs.engine != "sglang":
        return exact(0.0)
    low, middle, high = (part * likely * inputs.ranks.tensor for part in row.share)
    return Span(low=low, likely=middle, high=high)
