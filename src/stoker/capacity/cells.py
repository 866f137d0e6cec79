"""Bytes that one token takes on one GPU.

Called by the arithmetic of each engine. Heads are never divided below one, so more ranks than
heads make copies; a latent vector is the same on every rank.
"""

from __future__ import annotations

from stoker.capacity.inputs import Attention, Ranks, Shape
from stoker.knowledge.capacity import NumberType, load_number_types

#: A sparse attention's key has a scale of so many bytes for each block of its elements.
_INDEX_BLOCK, _INDEX_SCALE_BYTES = 128, 4


def find_number_type(word: str, shape: Shape) -> NumberType | None:
    """The format of a cache by the engine's word; None for a word that is not known."""
    types = load_number_types()
    found = types.get(word.lower())
    if found is None or not found.follows_model:
        return found
    own = types.get(shape.other.number_type.lower())
    return own if own is not None and own.bytes >= found.bytes else found


def attention_ranks(ranks: Ranks) -> int:
    """The ranks that divide the heads of one group's attention."""
    return max(1, ranks.tensor // max(1, ranks.attention_groups))


def count_heads(kind: Attention, ways: int) -> int:
    """The key heads of one rank."""
    return max(1, kind.kv_heads // max(1, ways))


def layer_bytes(kind: Attention, ways: int, number: NumberType) -> float:
    """Of one token in one layer of this kind, without what a sparse attention keeps beside it."""
    if kind.latent_width:
        return (kind.latent_width + kind.rope_width) * number.element_bytes
    return count_heads(kind, ways) * (kind.key_width + kind.value_width) * number.element_bytes


def index_bytes(kind: Attention) -> int:
    """Of one token in one layer: the key of a sparse attention, in 8 bit with its scale."""
    if not kind.index_width:
        return 0
    return kind.index_width + kind.index_width // _INDEX_BLOCK * _INDEX_SCALE_BYTES


def stage_layers(layers: int, ranks: Ranks) -> int:
    """The layers of the stage that has most of them."""
    return -(-layers // max(1, ranks.pipeline))
