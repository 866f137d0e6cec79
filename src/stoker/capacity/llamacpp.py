"""How much memory llama.cpp's cache takes, which is set by the context and not by what is free.

Called by :mod:`stoker.capacity.predict`. Exact where the sizes are: the buffers are what the engine
allocates, to the byte before it rounds them for its log.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.capacity.free_memory import free_before_bytes
from stoker.capacity.inputs import Attention, Inputs
from stoker.capacity.intervals import exact
from stoker.capacity.pool import Pool, Refusal
from stoker.capacity.request_table import context_tokens
from stoker.knowledge.capacity import NumberType, load_llamacpp, load_number_types
from stoker.model.capacity import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Cells of the full and of the sliding layers, and the bytes of all of it."""

    cells: int
    window_cells: int | None
    kv_bytes: float
    state_bytes: float


def size_cache(inputs: Inputs) -> Cache | Refusal:
    """The cache of all sequences together."""
    context = context_tokens(inputs)
    if not context:
        return Refusal(reasons=("the context is not known: set it",))
    keys = _number(inputs.settings.kv_type)
    values = _number(inputs.settings.value_type or inputs.settings.kv_type)
    if keys is None or values is None:
        return Refusal(reasons=("the number format of the cache is not known",))
    llama = inputs.settings.parts.llama
    streams = 1 if llama.is_unified else max(1, llama.sequences)
    cells = _pad(-(-context // streams))
    window = _window_cells(inputs, cells, streams)
    total = 0.0
    for kind in inputs.shape.attention:
        held = cells if kind.window_tokens is None or window is None else window
        total += kind.layers * held * streams * _cell_bytes(kind, keys, values)
    return Cache(
        cells=cells * streams,
        window_cells=window,
        kv_bytes=total,
        state_bytes=_state_bytes(inputs) * max(1, llama.sequences),
    )


def size_pool(cache: Cache) -> Pool:
    """The same as a pool."""
    tokens = exact(float(cache.cells))
    return Pool(
        tokens=tokens,
        rank_tokens=tokens,
        token_bytes=cache.kv_bytes / max(1, cache.cells),
        pool_bytes=exact(cache.kv_bytes),
        state_bytes=exact(cache.state_bytes) if cache.state_bytes else None,
        window_tokens=None if cache.window_cells is None else float(cache.window_cells),
    )


def _cell_bytes(kind: Attention, keys: NumberType, values: NumberType) -> float:
    if kind.latent_width:
        return (kind.latent_width + kind.rope_width) * keys.element_bytes
    key_bytes = kind.kv_heads * kind.key_width * keys.element_bytes
    return key_bytes + kind.kv_heads * kind.value_width * values.element_bytes


def _number(word: str) -> NumberType | None:
    return load_number_types().get((word or load_llamacpp().cache.usual_type).lower())


def _pad(cells: int) -> int:
    padding = load_llamacpp().cache.padding_tokens
    return -(-cells // padding) * padding


def _window_cells(inputs: Inputs, cells: int, streams: int) -> int | None:
    windows = [kind.window_tokens for kind in inputs.shape.attention if kind.window_tokens]
    llama = inputs.settings.parts.llama
    if not windows or llama.keeps_all:
        return None
    sequences = max(1, llama.sequences) if streams == 1 else 1
    wanted = max(windows) * sequences + llama.micro_batch_tokens
    return min(cells, _pad(wanted))


def _state_bytes(inputs: Inputs) -> float:
    """Of one sequence, over all layers, in 32 bit."""
    element = load_llamacpp().state.element_bytes
    total = 0
    for state in inputs.shape.states:
        conv = (state.conv_tokens - 1) * state.conv_width
        total += state.layers * (conv + state.heads * state.key_width * state.value_width)
    return float(total * element)


def free_before(inputs: Inputs) -> Span | None:
    """Free memory of the GPUs together; None without GPUs or where nobody knows."""
    if not inputs.gpus:
        return None
    return free_before_bytes(inputs)
