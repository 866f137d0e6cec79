"""Ways to more of llama.cpp: its cache is as long as it is told to be, and divided among slots.

Called by :mod:`stoker.capacity.options`. The context is that of all slots together, as the engine's
own flag counts it. Pure and total.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from stoker.capacity.host_cache import find_available
from stoker.capacity.inputs import Inputs, Settings
from stoker.capacity.llamacpp import has_flash_attention, step_bytes
from stoker.capacity.llamacpp_context import Context, divide_context, pad
from stoker.capacity.pool import Pool, Refusal
from stoker.capacity.predict import predict_pool
from stoker.capacity.what_if import Scene, Trial, Try
from stoker.knowledge.capacity import MIB
from stoker.knowledge.capacity_options import OptionRow, load_options

#: A slot of less is of no use to anybody.
_LEAST_SLOT_TOKENS = 1024


def _try_more_context(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    """Shares of what is free, no longer than all slots can use."""
    room, price = _find_room(scene), _find_price(scene)
    if room is None or price is None:
        return
    now = scene.pool.tokens.likely
    wanted = [_fit(scene.inputs, now + share * room / price) for share in row.values]
    for value in dict.fromkeys(each for each in wanted if each is not None and each > now):
        yield _count_tokens(_change_context(scene.inputs, value), value, now)


def _try_packed_context(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    """Keys and values; values in blocks need flash attention."""
    if has_flash_attention(scene.inputs):
        for word in row.words:
            packed = replace(scene.inputs.settings, kv_type=word, value_type=word)
            yield from _try_packed(word, packed, scene)


def _try_packed_keys(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    for word in row.words:
        packed = replace(scene.inputs.settings, kv_type=word)
        yield from _try_packed(word, packed, scene)


def _try_packed(word: str, settings: Settings, scene: Scene) -> Iterator[Trial]:
    """Fewer bytes for a token, and so many more of them in the bytes that it has now."""
    now, packed = scene.pool.tokens.likely, replace(scene.inputs, settings=settings)
    pool = _find_pool(packed)
    if pool is None or not 0 < pool.token_bytes < scene.pool.token_bytes:
        return
    value = _fit(packed, now * scene.pool.token_bytes / pool.token_bytes)
    if value is not None and value > now:
        trial = _count_tokens(_change_context(packed, value), value, now)
        yield replace(trial, after=word)


def _try_fewer_slots(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    """Each of them longer."""
    now, before = scene.inputs.settings.parts.llama.sequences, divide_context(scene.inputs)
    if now is None or before is None:
        return
    total = scene.inputs.settings.context_tokens or before.tokens
    for count in _list_counts(row, scene, now):
        if 1 <= count < now:
            yield from _compare(scene.inputs, count, total, must_be_longer=True)


def _try_more_slots(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    """Each as long as now where memory is free for them; shorter where so many were asked for."""
    now, before = scene.inputs.settings.parts.llama.sequences, divide_context(scene.inputs)
    if now is None or before is None:
        return
    is_asked = _is_asked(scene, now)
    total = scene.inputs.settings.context_tokens or before.tokens
    for count in _list_counts(row, scene, now):
        if count > now and (is_asked or before.streams > 1 or now == 1):
            yield from _try_more(count, scene, before, total, is_asked=is_asked)


def _is_asked(scene: Scene, now: int) -> bool:
    return scene.wish.parallel not in (None, now)


def _list_counts(row: OptionRow, scene: Scene, now: int) -> list[int]:
    wish = scene.wish.parallel
    if wish is not None and _is_asked(scene, now):
        return [wish]
    return [int(now * share) for share in row.values]


def _try_more(
    count: int, scene: Scene, before: Context, total: int, *, is_asked: bool
) -> Iterator[Trial]:
    room, price = _find_room(scene), _find_price(scene)
    # Slots that share one cache, or have more of it than a request can use, need no longer one.
    is_shared = before.streams == 1 and before.sequences > 1
    has_enough = is_shared or before.tokens // count >= before.slot_tokens
    longer = before.slot_tokens * count
    needed = None if price is None else (longer - before.tokens) * price
    fits = room is not None and needed is not None and needed <= room
    if has_enough or fits or is_asked:
        new = longer if fits and not has_enough else total
        yield from _compare(scene.inputs, count, new)


def _compare(
    inputs: Inputs, count: int, total: int, *, must_be_longer: bool = False
) -> Iterator[Trial]:
    """Another number of slots, none of them too short for anything."""
    changed = _change_context(_change_slots(inputs, count), total)
    before, after = divide_context(inputs), divide_context(changed)
    if before is None or after is None or total < _LEAST_SLOT_TOKENS * count:
        return
    if not must_be_longer or after.slot_tokens > before.slot_tokens:
        yield Trial(
            value=count,
            inputs=changed,
            before=_tell_slots(before),
            after=_tell_slots(after),
            context_tokens=total,
            is_gain=True,
        )


def _try_unified(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    del row
    llama = replace(scene.inputs.settings.parts.llama, is_unified=True)
    parts = replace(scene.inputs.settings.parts, llama=llama)
    inputs = replace(scene.inputs, settings=replace(scene.inputs.settings, parts=parts))
    before, after = divide_context(scene.inputs), divide_context(inputs)
    if before is None or after is None or before.streams == 1:
        return
    if after.slot_tokens > before.slot_tokens:
        yield Trial(
            value=True,
            inputs=inputs,
            before=f"{before.slot_tokens:,}",
            after=f"{after.slot_tokens:,}",
            is_gain=True,
        )


def _tell_slots(context: Context) -> str:
    word = "slot" if context.sequences == 1 else "slots"
    return f"{context.sequences:,} {word} of up to {context.slot_tokens:,} tokens"


def _change_slots(inputs: Inputs, count: int) -> Inputs:
    parts = inputs.settings.parts
    changed = replace(parts, llama=replace(parts.llama, sequences=count))
    return replace(inputs, settings=replace(inputs.settings, parts=changed))


def _change_context(inputs: Inputs, tokens: int) -> Inputs:
    return replace(inputs, settings=replace(inputs.settings, context_tokens=tokens))


def _count_tokens(inputs: Inputs, value: int, now: float) -> Trial:
    return Trial(value=value, inputs=inputs, before=f"{int(now):,}", after=f"{value:,}")


def _fit(inputs: Inputs, wanted: float) -> int | None:
    """In whole steps of all slots, and no longer than the model was made for in each of them."""
    made_for, slots = inputs.shape.context_tokens, inputs.settings.parts.llama.sequences or 1
    if not made_for:
        return None
    step = pad(1) * slots
    return made_for * slots if wanted >= made_for * slots else int(wanted) // step * step


def _find_pool(inputs: Inputs) -> Pool | None:
    found = predict_pool(inputs)
    return None if isinstance(found, Refusal) else found[1]


def _find_price(scene: Scene) -> float | None:
    """Bytes of one more token: its keys and values, and what a step then needs for it."""
    now = int(scene.pool.tokens.likely)
    twice = _change_context(scene.inputs, 2 * now)
    pool = _find_pool(twice)
    if pool is None or pool.tokens.likely <= now:
        return None
    more = _held_bytes(twice, pool) - _held_bytes(scene.inputs, scene.pool)
    return more / (pool.tokens.likely - now) if more > 0 else None


def _held_bytes(inputs: Inputs, pool: Pool) -> float:
    states, step = pool.state_bytes, step_bytes(inputs)
    return pool.pool_bytes.likely + sum(each.likely for each in (states, step) if each is not None)


def _find_room(scene: Scene) -> float | None:
    """What is free for a longer cache, of all GPUs together, else of the machine; None: unknown."""
    inputs, weights = scene.inputs, scene.inputs.weight_bytes
    if inputs.readings.weight_bytes is not None:
        weights = inputs.readings.weight_bytes
    free = scene.budget.free_before.likely if scene.budget.free_before is not None else None
    if not inputs.gpus:
        available = find_available(inputs)
        free = None if available is None else float(available)
    on_gpus = inputs.settings.parts.llama.gpu_layers
    # With a part of the layers elsewhere, a part of the cache is there too.
    is_split = bool(inputs.gpus) and on_gpus is not None and on_gpus < inputs.shape.layers
    if free is None or weights is None or is_split:
        return None
    kept = load_options().bounds.least_free_mib * MIB
    count = max(1, len(inputs.gpus))
    return max(0.0, count * (free - weights - kept) - _held_bytes(inputs, scene.pool))


#: What each change that a row of this engine may name tries.
CHANGES: Mapping[str, Try] = {
    "more_context": _try_more_context,
    "packed_context": _try_packed_context,
    "packed_keys": _try_packed_keys,
    "fewer_slots": _try_fewer_slots,
    "more_slots": _try_more_slots,
    "unified_cache": _try_unified,
}
