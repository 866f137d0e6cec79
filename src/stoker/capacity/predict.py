"""The whole answer for one deployment: tokens, maps of memory, the cache in host memory.

Called by the commands and by whoever scores predictions. Total: whatever the inputs, the answer is
a :class:`~stoker.model.capacity.Capacity`; where a figure would only pretend to be sure, there is
none and ``unknown`` says which reading settles it.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.capacity import llamacpp, sglang, vllm
from stoker.capacity.checks import find_doubts, find_obstacles, is_unknown_release
from stoker.capacity.host_cache import size_host_cache
from stoker.capacity.host_cache_limits import find_problems
from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import cover
from stoker.capacity.maps import gpu_maps, host_map
from stoker.capacity.pool import Budget, Pool, Refusal
from stoker.capacity.request_table import context_tokens
from stoker.capacity.weights import find_target_weights
from stoker.knowledge.capacity_turns import list_turns
from stoker.model.capacity import Capacity, Span


def predict(inputs: Inputs) -> Capacity:
    """What fits, where it lies, and what is not known."""
    found = predict_newest(inputs)
    if found.kv_tokens is None or not is_unknown_release(inputs):
        return found
    turns = (replace(inputs, release=each) for each in list_turns(inputs.engine))
    spans = [predict_newest(each).kv_tokens for each in turns]
    return replace(found, kv_tokens=cover(found.kv_tokens, spans))


def predict_newest(inputs: Inputs) -> Capacity:
    """The same where an unknown release is taken as the newest, and its bounds are of that alone:
    for whoever compares one setting with another."""
    inputs = _without_windows(inputs)
    obstacles = find_obstacles(inputs)
    if obstacles:
        return _refuse(inputs, obstacles)
    found = predict_pool(inputs)
    if isinstance(found, Refusal):
        return _refuse(inputs, found.reasons)
    budget, pool = found
    cache = size_host_cache(inputs, pool)
    unknown = [*find_doubts(inputs), *budget.notes, *pool.notes]
    if cache is not None:
        unknown += find_problems(inputs, cache)
    return Capacity(
        name=inputs.name,
        engine=inputs.engine,
        release=inputs.release,
        kv_tokens=pool.tokens,
        token_bytes=pool.token_bytes,
        context_tokens=context_tokens(inputs),
        state_requests=pool.state_requests,
        maps=(*gpu_maps(inputs, budget, pool), *host_map(inputs, cache)),
        host_cache=cache,
        unknown=tuple(unknown),
    )


def predict_pool(inputs: Inputs) -> tuple[Budget, Pool] | Refusal:
    """The budget and the pool alone, for inputs that :func:`find_obstacles` has nothing against."""
    inputs = _without_windows(inputs)
    weights = find_target_weights(inputs)
    if inputs.engine == "llamacpp":
        return _predict_llamacpp(inputs, weights)
    size_budget = sglang.size_budget if inputs.engine == "sglang" else vllm.size_budget
    size_pool = sglang.size_pool if inputs.engine == "sglang" else vllm.size_pool
    budget = size_budget(inputs, weights)
    if isinstance(budget, Refusal):
        return budget
    if budget.pools.likely <= 0:
        return Refusal(reasons=(_why_nothing_is_left(budget),))
    pool = size_pool(inputs, budget.pools)
    if isinstance(pool, Refusal):
        return pool
    if pool.tokens.likely <= 0:
        return Refusal(reasons=(_why_nothing_is_left(budget),))
    return budget, pool


def _without_windows(inputs: Inputs) -> Inputs:
    """The same where a setting makes sliding layers keep all tokens, as the others do."""
    shape = inputs.shape
    if inputs.engine == "llamacpp" or not inputs.settings.parts.keeps_all:
        return inputs
    kinds = tuple(replace(kind, window_tokens=None) for kind in shape.attention)
    return replace(inputs, shape=replace(shape, attention=kinds))


def _predict_llamacpp(inputs: Inputs, weights: Span | None) -> tuple[Budget, Pool] | Refusal:
    cache = llamacpp.size_cache(inputs)
    if isinstance(cache, Refusal):
        return cache
    pool = llamacpp.size_pool(cache)
    budget = Budget(
        free_before=llamacpp.free_before(inputs),
        weights=weights,
        pools=pool.pool_bytes,
    )
    return budget, pool


def _why_nothing_is_left(budget: Budget) -> str:
    share = budget.share
    if share is None or budget.free_before is None or budget.free_before.likely <= 0:
        return "the weights leave no room for a cache"
    least = share - budget.pools.likely / budget.free_before.likely
    if least >= 1:
        return "the weights do not fit on the GPUs: more of them, or smaller weights"
    return (
        f"the weights leave no room for a cache at a memory share of {share:.3f}: it begins at "
        f"about {least:.3f}"
    )


def _refuse(inputs: Inputs, reasons: tuple[str, ...]) -> Capacity:
    return Capacity(
        name=inputs.name,
        engine=inputs.engine,
        release=inputs.release,
        kv_tokens=None,
        token_bytes=None,
        context_tokens=context_tokens(inputs),
        unknown=reasons,
    )
