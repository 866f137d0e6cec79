"""How much memory llama.cpp's cache takes, which is set by the context and not by what is free.

Called by :mod:`stoker.capacity.predict`. Exact where the sizes are: the buffers are what the engine
allocates, to the byte before it rounds them for its log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.capacity.free_memory import free_before_bytes
from stoker.capacity.inputs import Attention, Inputs
from stoker.capacity.intervals import add, exact, spread
from stoker.capacity.llamacpp_context import Context, divide_context, pad
from stoker.capacity.pool import Pool, Refusal
from stoker.knowledge.capacity import MIB, NumberType, load_llamacpp, load_number_types
from stoker.knowledge.llamacpp_layers import load_llamacpp_layers
from stoker.model.capacity import Span

#: The words that switch flash attention off; then all layers' values are as wide as the widest.
_NO_FLASH = frozenset({"off", "0", "false", "disabled"})
_OUTPUT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Cells of the full and of the sliding layers, and the bytes of all of it.

    ``least_cells``: as many at least, where the engine chooses the context by what is free.
    """

    cells: int
    window_cells: int | None
    kv_bytes: float
    state_bytes: float
    sequences: int = 1
    least_cells: int | None = None
    notes: tuple[str, ...] = ()


def size_cache(inputs: Inputs) -> Cache | Refusal:
    """The cache of all sequences together."""
    context = divide_context(inputs)
    if context is None:
        return Refusal(reasons=("the context is not known: set it",))
    keys = _number(inputs.settings.kv_type)
    values = _number(inputs.settings.value_type)
    if keys is None or values is None:
        return Refusal(reasons=("the number format of the cache is not known",))
    if refused := _why_it_would_not_start(inputs.shape.attention, keys, values):
        return Refusal(reasons=(f"llama.cpp does not start with this cache: {refused}",))
    window = _window_cells(inputs, context)
    widest = _widest_values(inputs)
    total = 0.0
    for kind in inputs.shape.attention:
        held = context.cells if kind.window_tokens is None or window is None else window
        total += kind.layers * held * context.streams * _cell_bytes(kind, keys, values, widest)
    state = _state_bytes(inputs) * context.sequences
    least, notes = _find_least(inputs, context, total + state)
    return Cache(
        cells=context.tokens,
        window_cells=window,
        kv_bytes=total,
        state_bytes=state,
        sequences=context.sequences,
        least_cells=least,
        notes=notes,
    )


def size_pool(cache: Cache) -> Pool:
    """The same as a pool."""
    cells, least = float(cache.cells), cache.least_cells
    low = cells if least is None else min(cells, float(least))
    tokens = Span(low=low, likely=cells, high=cells)
    share = low / cells if cells else 1.0
    return Pool(
        tokens=tokens,
        rank_tokens=tokens,
        token_bytes=cache.kv_bytes / max(1, cache.cells),
        pool_bytes=Span(low=cache.kv_bytes * share, likely=cache.kv_bytes, high=cache.kv_bytes),
        state_bytes=exact(cache.state_bytes) if cache.state_bytes else None,
        state_requests=cache.sequences if cache.state_bytes else None,
        window_tokens=None if cache.window_cells is None else float(cache.window_cells),
        requests=cache.sequences,
        notes=cache.notes,
    )


def output_bytes(inputs: Inputs) -> int | None:
    """Of the buffer for what the model says: a row of the vocabulary for each sequence."""
    context = divide_context(inputs)
    if context is None:
        return None
    return context.sequences * inputs.shape.vocabulary * _OUTPUT_BYTES


def step_bytes(inputs: Inputs) -> Span | None:
    """Of what one step needs beside the cache: the output, the masks, and the layer's own work."""
    context, rule, shape = divide_context(inputs), load_llamacpp_layers().step, inputs.shape
    if context is None or not shape.hidden_width:
        return None
    window = _window_cells(inputs, context)
    masks = context.cells + (window or 0)
    widths = rule.hidden_widths * shape.hidden_width + rule.inner_widths * shape.intermediate_width
    work = context.step_tokens * widths * rule.element_bytes
    if not has_flash_attention(inputs):
        # Without it the scores of all heads are kept for a whole step.
        work += context.step_tokens * context.cells * shape.heads * rule.element_bytes
    mask = context.step_tokens * masks * rule.mask_bytes
    return add(spread(work + mask, rule.spread), exact(float(output_bytes(inputs) or 0)))


def has_flash_attention(inputs: Inputs) -> bool:
    """Whether it is not switched off; left alone, the engine takes it where the device can."""
    return inputs.settings.backend.lower() not in _NO_FLASH


def free_before(inputs: Inputs) -> Span | None:
    """Free memory of the GPUs together; None without GPUs or where nobody knows."""
    if not inputs.gpus:
        return None
    return free_before_bytes(inputs)


def _find_least(
    inputs: Inputs, context: Context, cache_bytes: float
) -> tuple[int | None, tuple[str, ...]]:
    """The least context that the engine may choose, with the sentence that says so."""
    if not context.is_chosen:
        return None, ()
    served = load_llamacpp_layers().served
    room = _find_room(inputs)
    step = step_bytes(inputs)
    needed = cache_bytes + (inputs.weight_bytes or 0) + (step.high if step is not None else 0)
    is_known = room is not None and inputs.weight_bytes is not None
    if is_known and needed + served.spare_mib * MIB <= (room or 0):
        return None, ()
    note = (
        "the context is not set, so the engine shortens it to what fits into free memory: set it, "
        "or read its log"
    )
    return pad(served.least_context_tokens) * context.streams, (note,)


def _find_room(inputs: Inputs) -> float | None:
    if inputs.gpus:
        free = free_before(inputs)
        return None if free is None else free.low * len(inputs.gpus)
    known = [inputs.host.available_bytes, inputs.host.limit_bytes]
    return min((size for size in known if size is not None), default=None)


def _why_it_would_not_start(
    kinds: Iterable[Attention], keys: NumberType, values: NumberType
) -> str:
    """What its own check of the number formats says; empty where it says nothing."""
    for kind in kinds:
        if kind.latent_width:
            if keys != values:
                return "keys and values of a latent attention have one number format"
            continue
        for number, width in ((keys, kind.key_width), (values, kind.value_width)):
            if number.block and width % number.block:
                return f"a head of {width} cannot be kept in blocks of {number.block}"
    return ""


def _cell_bytes(kind: Attention, keys: NumberType, values: NumberType, widest: int) -> float:
    if kind.latent_width:
        return (kind.latent_width + kind.rope_width) * keys.element_bytes
    value_elements = widest or kind.kv_heads * kind.value_width
    return kind.kv_heads * kind.key_width * keys.element_bytes + (
        value_elements * values.element_bytes
    )


def _widest_values(inputs: Inputs) -> int:
    """Elements of the widest layer's values, where those of all layers are as wide; else 0."""
    if has_flash_attention(inputs):
        return 0
    return max((kind.kv_heads * kind.value_width for kind in inputs.shape.attention), default=0)


def _number(word: str) -> NumberType | None:
    return load_number_types().get((word or load_llamacpp().cache.usual_type).lower())


def _window_cells(inputs: Inputs, context: Context) -> int | None:
    windows = [kind.window_tokens for kind in inputs.shape.attention if kind.window_tokens]
    if not windows or inputs.settings.parts.llama.keeps_all:
        return None
    sequences = context.sequences if context.streams == 1 else 1
    wanted = max(windows) * sequences + context.step_tokens
    return pad(min(context.cells, wanted))


def _state_bytes(inputs: Inputs) -> float:
    """Of one sequence, over all layers, in 32 bit."""
    element = load_llamacpp().state.element_bytes
    total = 0
    for state in inputs.shape.states:
        conv = (state.conv_tokens - 1) * state.conv_width
        total += state.layers * (conv + state.heads * state.key_width * state.value_width)
    return float(total * element)
