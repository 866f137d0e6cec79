"""What a deployment would be with one setting changed: inputs to predict again.

Called by :mod:`stoker.capacity.options`. Which changes an engine has, and the values to try, is
data; here is what each change means for the inputs. Pure and total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from stoker.capacity.cells import find_number_type
from stoker.capacity.fraction import graph_requests
from stoker.capacity.free_memory import total_mib
from stoker.capacity.host_cache import find_available, ranks_on_host
from stoker.capacity.inputs import Batch, HostSettings, Inputs, Ranks, SettingsParts, StateSettings
from stoker.capacity.pool import Budget, Pool, Refusal
from stoker.capacity.predict import predict_newest, predict_pool
from stoker.capacity.request_table import context_tokens
from stoker.capacity.state_pools import slots_for_request
from stoker.capacity.weights import estimate_weights
from stoker.knowledge.capacity import MIB, load_sglang
from stoker.knowledge.capacity_flags import load_capacity_flags
from stoker.knowledge.capacity_options import OptionRow, load_options
from stoker.knowledge.host_cache import load_host_cache

#: Of a hundredth, so that 0.9 is not taken for a little less.
_ROUND = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks for: requests of ``context_tokens``, ``parallel`` of them at the same
    time (None: not asked), and the ``tensor_sizes`` that the model and the machine allow."""

    context_tokens: int | None = None
    parallel: int | None = None
    tensor_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The inputs after a change, the value in the flag's own unit, and the words for both.

    ``base``: what to compare with, where that is not the deployment as it is. ``context_tokens``
    that go with the value, where a row sets both. ``is_gain``: it gives what tokens do not count.
    """

    value: int | float | str | bool
    inputs: Inputs
    before: str = ""
    after: str = ""
    base: Inputs | None = None
    context_tokens: int | None = None
    is_gain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The deployment as it is, with its budget and its pool, and what is wished for."""

    inputs: Inputs
    wish: Wish
    budget: Budget
    pool: Pool


#: What a change tries; nothing where it does not fit a deployment.
Try = Callable[[OptionRow, Scene], Iterator[Trial]]


def set_scene(inputs: Inputs, wish: Wish) -> Scene | None:
    """None where nothing is predicted for these inputs."""
    found = predict_pool(inputs)
    if isinstance(found, Refusal):
        return None
    return Scene(inputs=inputs, wish=wish, budget=found[0], pool=found[1])


def change_share(inputs: Inputs, share: float) -> Inputs:
    """Another share of each GPU."""
    return replace(inputs, settings=replace(inputs.settings, memory_share=share))


def _change_batch(inputs: Inputs, batch: Batch) -> Inputs:
    return _change_parts(inputs, replace(inputs.settings.parts, batch=batch))


def _change_state(inputs: Inputs, state: StateSettings) -> Inputs:
    return _change_parts(inputs, replace(inputs.settings.parts, state=state))


def _change_host(inputs: Inputs, host: HostSettings) -> Inputs:
    return _change_parts(inputs, replace(inputs.settings.parts, host=host))


def _change_parts(inputs: Inputs, parts: SettingsParts) -> Inputs:
    return replace(inputs, settings=replace(inputs.settings, parts=parts))


def _change_ranks(inputs: Inputs, ranks: Ranks) -> Inputs | None:
    """Another division. Known weights change as the estimate of them does; None without one."""
    after = replace(inputs, ranks=ranks)
    old, new = (estimate_weights(each, 4) for each in (inputs, after))
    if old is None or new is None or old.likely <= 0:
        return None
    known = inputs.readings.weight_bytes or inputs.weight_bytes
    weights = None if known is None else int(known * new.likely / old.likely)
    readings = replace(
        inputs.readings, free_after_bytes=None, weight_bytes=None, missing_bytes=None
    )
    return replace(after, weight_bytes=weights, readings=readings)


def _try_share(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    share, free = scene.budget.share, scene.budget.free_before
    is_shared = any(gpu.is_shared_memory for gpu in scene.inputs.gpus)
    if share is None or free is None or is_shared or scene.inputs.settings.kv_bytes is not None:
        return
    left = find_unused(scene.inputs)
    if left is None:
        return
    bounds = load_options().bounds
    most = share + (left - bounds.least_free_mib * MIB) / max(1.0, free.likely)
    most = min(bounds.most_share, math.floor(most * 100) / 100)
    steps = [math.floor((share + step) * 100 + _ROUND) / 100 for step in row.values]
    for each in dict.fromkeys([*(step for step in steps if step < most), most]):
        if each > share:
            yield Trial(
                value=each,
                inputs=change_share(scene.inputs, each),
                before=f"{share:.3g}",
                after=f"{each:.3g}",
            )


def find_unused(inputs: Inputs) -> float | None:
    """What is likely left of a GPU when all is allocated, in bytes; None where unknown."""
    maps = predict_newest(inputs).maps
    sizes = (
        [part.predicted_bytes for part in maps[0].parts if part.part == "unused"] if maps else []
    )
    return sizes[0].likely if sizes and sizes[0] is not None else None


def _try_kv_type(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    settings, shape = scene.inputs.settings, scene.inputs.shape
    now = find_number_type(settings.kv_type, shape)
    for word in row.words:
        wanted = find_number_type(word, shape)
        if now is None or wanted is None or wanted.element_bytes >= now.element_bytes:
            continue
        before = settings.kv_type or shape.other.number_type or "the model's own format"
        after = replace(scene.inputs, settings=replace(settings, kv_type=word))
        yield Trial(value=word, inputs=after, before=before, after=word)


def _try_host_ratio(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    settings, host = scene.inputs.settings, scene.inputs.settings.parts.host
    if not settings.has_prefix_reuse or (host.is_on and host.size_bytes is not None):
        return
    now = (host.ratio or load_sglang().usual.host_ratio) if host.is_on else 0.0
    for ratio in row.values:
        if ratio > now:
            changed = replace(host, is_on=True, ratio=ratio)
            value = int(ratio) if ratio.is_integer() else ratio
            yield Trial(value=value, inputs=_change_host(scene.inputs, changed), after=f"{ratio:g}")


def _try_host_size(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    """A share of what the machine has free, in whole units of the flag."""
    inputs, host = scene.inputs, scene.inputs.settings.parts.host
    room = find_available(inputs)
    if room is None or host.is_on or not inputs.settings.has_prefix_reuse:
        return
    rules, ranks = load_host_cache().find(inputs.engine, inputs.release), ranks_on_host(inputs)
    unit = load_capacity_flags()[inputs.engine].bytes["host_size"]
    # One size is for each rank, or for all ranks of a copy of the model together.
    caches = ranks if rules.cache.by_rank else max(1, inputs.ranks.replicas)
    each = (room - rules.reserve_bytes - host.weight_bytes * ranks) // max(1, caches)
    held = scene.pool.pool_bytes.likely * ranks / caches
    for share in row.values:
        whole = int(each * share) // unit
        if whole >= 1 and whole * unit > held:
            changed = replace(host, is_on=True, ratio=None, size_bytes=whole * unit)
            yield Trial(value=whole, inputs=_change_host(inputs, changed), after=str(whole))


def _try_pages(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    now = scene.inputs.settings.page_tokens or load_sglang().usual.page_tokens
    for value in row.values:
        if value < now:
            settings = replace(scene.inputs.settings, page_tokens=int(value))
            yield _count(replace(scene.inputs, settings=settings), int(value), now)


def _count(inputs: Inputs, value: int, before: int | None) -> Trial:
    """A trial of a count."""
    shown = "" if before is None else f"{before:,}"
    return Trial(value=value, inputs=inputs, before=shown, after=f"{value:,}")


def _try_requests(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    now, batch = scene.pool.requests, scene.inputs.settings.parts.batch
    wanted = [scene.wish.parallel] if scene.wish.parallel else [int(each) for each in row.values]
    for value in wanted:
        if now is not None and value < now:
            changed = _change_batch(scene.inputs, replace(batch, requests=value))
            yield _count(changed, value, now)


def _try_context(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    del row
    now = context_tokens(scene.inputs)
    if now is None:
        return
    asked = scene.wish.context_tokens
    value = asked if asked is not None and asked < now else now // 2
    settings = replace(scene.inputs.settings, context_tokens=value)
    yield _count(replace(scene.inputs, settings=settings), value, now)


def _try_graph_requests(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    batch = scene.inputs.settings.parts.batch
    sizes = [total_mib(gpu) for gpu in scene.inputs.gpus]
    if not batch.has_graphs or not sizes or sizes[0] is None:
        return
    now = graph_requests(scene.inputs, sizes[0])
    for value in row.values:
        if value < now:
            changed = _change_batch(scene.inputs, replace(batch, graph_requests=int(value)))
            yield _count(changed, int(value), now)


def _try_no_graphs(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    del row
    batch = scene.inputs.settings.parts.batch
    if batch.has_graphs:
        changed = _change_batch(scene.inputs, replace(batch, has_graphs=False))
        yield Trial(value=True, inputs=changed)


def _try_groups(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    del row
    ranks = scene.inputs.ranks
    if ranks.tensor == 1 or ranks.attention_groups > 1 or ranks.replicas > 1:
        return
    changed = _change_ranks(scene.inputs, replace(ranks, attention_groups=ranks.tensor))
    if changed is not None:
        yield _count(changed, ranks.tensor, 1)


def _try_tensor(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    del row
    inputs, ranks = scene.inputs, scene.inputs.ranks
    base = _change_ranks(inputs, ranks)
    for size in scene.wish.tensor_sizes:
        is_other = size > ranks.tensor and size % ranks.attention_groups == 0
        if base is None or not is_other or ranks.on_host is not None:
            continue
        changed = _change_ranks(inputs, replace(ranks, tensor=size))
        needed = size * ranks.pipeline * ranks.replicas
        if changed is None or not inputs.gpus:
            continue
        gpus = inputs.gpus + (inputs.gpus[0],) * (needed - len(inputs.gpus))
        trial = _count(replace(changed, gpus=gpus), size, ranks.tensor)
        yield replace(trial, base=base)


def _try_window_ratio(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    settings = scene.inputs.settings
    if scene.pool.window_tokens is None:
        return
    now = settings.window_ratio or load_sglang().usual.window_ratio
    for value in row.values:
        if value < now:
            changed = replace(scene.inputs, settings=replace(settings, window_ratio=value))
            yield Trial(value=value, inputs=changed, before=f"{now:g}", after=f"{value:g}")


def _try_slots(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    del row
    asked, running = scene.wish.parallel, scene.pool.state_requests
    if not scene.inputs.shape.states or asked is None or running is None or asked >= running:
        return
    each = slots_for_request(scene.inputs)
    value = asked * each * max(1, scene.inputs.ranks.attention_groups)
    state = replace(scene.inputs.settings.parts.state, slots=value)
    yield _count(_change_state(scene.inputs, state), value, running * each)


def _try_state_type(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    state, states = scene.inputs.settings.parts.state, scene.inputs.shape.states
    if not states:
        return
    now = state.number_type or states[0].state_type or "float32"
    for word in row.words:
        if word != now:
            changed = _change_state(scene.inputs, replace(state, number_type=word))
            yield Trial(value=word, inputs=changed, before=now, after=word)


def _try_draft_tokens(row: OptionRow, scene: Scene) -> Iterator[Trial]:
    parts = scene.inputs.settings.parts
    drafting = parts.speculation
    if drafting is None or drafting.tokens is None or drafting.kind not in row.words:
        return
    for value in row.values:
        if value < drafting.tokens:
            shorter = replace(drafting, tokens=int(value))
            changed = _change_parts(scene.inputs, replace(parts, speculation=shorter))
            yield _count(changed, int(value), drafting.tokens)


#: What each change that a row may name tries; llama.cpp has others of its own.
CHANGES: Mapping[str, Try] = {
    "memory_share": _try_share,
    "kv_type": _try_kv_type,
    "host_ratio": _try_host_ratio,
    "host_size": _try_host_size,
    "page_tokens": _try_pages,
    "requests": _try_requests,
    "context_tokens": _try_context,
    "graph_requests": _try_graph_requests,
    "has_graphs": _try_no_graphs,
    "attention_groups": _try_groups,
    "tensor": _try_tensor,
    "window_ratio": _try_window_ratio,
    "state_slots": _try_slots,
    "state_type": _try_state_type,
    "draft_tokens": _try_draft_tokens,
}
