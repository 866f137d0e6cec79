"""The cache in host memory: how many tokens, and how much of the machine it takes.

Called by :mod:`stoker.capacity.predict`. It is the reuse of prompts: its tokens are never added to
those that fit on the GPUs. Where every rank has one of its own, a latent cache is the same on each,
and is kept on each nevertheless.
"""

from __future__ import annotations

from stoker.capacity.cells import index_bytes, stage_layers
from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import add, exact, rising, scale, subtract
from stoker.capacity.pool import Pool
from stoker.capacity.state_pools import slots_for_request, state_bytes
from stoker.knowledge.capacity import load_sglang
from stoker.knowledge.capacity_host import find_host_row, load_host_rules
from stoker.knowledge.host_cache import load_host_cache
from stoker.model.capacity import HostCache, Span

#: Blocks of a shared region begin at whole pages of the kernel.
_ALIGNMENT_BYTES = 4096


def size_host_cache(inputs: Inputs, pool: Pool) -> HostCache | None:
    """None where it is switched off, or the engine has none."""
    host = inputs.settings.parts.host
    rules = load_host_cache().find(inputs.engine, inputs.release)
    if not host.is_on or not (rules.cache.ratio or rules.cache.size) or pool.token_bytes <= 0:
        return None
    if not rules.cache.by_rank:
        return _size_together(inputs, pool)
    ranks = ranks_on_host(inputs)
    tokens, each = _size_of_rank(inputs, pool)
    return _make(inputs, tokens=tokens, each=each, total=scale(each, ranks), ranks=ranks)


def ranks_on_host(inputs: Inputs) -> int:
    """Processes of the engine on this machine."""
    ranks = inputs.ranks
    if ranks.on_host is not None:
        return ranks.on_host
    return ranks.tensor * max(1, ranks.pipeline) * max(1, ranks.replicas)


def find_available(inputs: Inputs) -> int | None:
    """What can be taken of the machine before it or a limit ends it; None where nobody looked."""
    known = [inputs.host.available_bytes, inputs.host.limit_bytes]
    return min((size for size in known if size is not None), default=None)


def join_ranks(inputs: Inputs, told_bytes: int) -> int:
    """What all ranks of this machine have, from what one process of the engine told."""
    by_rank = load_host_cache().find(inputs.engine, inputs.release).cache.by_rank
    return told_bytes * (ranks_on_host(inputs) if by_rank else max(1, inputs.ranks.replicas))


def _make(inputs: Inputs, *, tokens: Span, each: Span, total: Span, ranks: int) -> HostCache:
    weights = inputs.settings.parts.host.weight_bytes
    pinned = exact(float(weights * ranks_on_host(inputs)))
    available = find_available(inputs)
    remaining = None if available is None else subtract(exact(float(available)), total, pinned)
    return HostCache(
        tokens=tokens, rank_bytes=each, total_bytes=total, ranks=ranks, remaining_bytes=remaining
    )


# --- every rank has one of its own ---


def _size_of_rank(inputs: Inputs, pool: Pool) -> tuple[Span, Span]:
    """Tokens and bytes of one rank."""
    states = _device_states(inputs, pool)
    size = inputs.settings.parts.host.size_bytes
    if size:
        return _size_by_budget(inputs, pool, states, size_bytes=size)
    ratio = find_ratio(inputs, pool)
    tokens = rising(scale(pool.rank_tokens, ratio), lambda each: _to_pages(inputs, each))
    each = scale(tokens, pool.token_bytes)
    return tokens, each if states is None else add(each, scale(states, ratio))


def _to_pages(inputs: Inputs, tokens: float) -> float:
    """One page more than fits, as the engine does."""
    page = inputs.settings.page_tokens or load_sglang().usual.page_tokens
    return float((int(tokens) // page + 1) * page)


def _size_by_budget(
    inputs: Inputs, pool: Pool, states: Span | None, *, size_bytes: int
) -> tuple[Span, Span]:
    """A size in bytes buys tokens; a sparse attention's own keys come on top of it."""
    row = find_host_row(load_host_rules().size, inputs.engine, inputs.release)
    is_shared = row is None or row.pools == "all"
    beside = _index_bytes(inputs)
    price = max(1.0, pool.token_bytes - beside)
    share = 1.0
    if states is not None and is_shared:
        own = pool.rank_tokens.likely * price
        share = own / max(1.0, own + states.likely)
    tokens = _to_pages(inputs, size_bytes * share / price)
    each = tokens * pool.token_bytes
    if states is not None:
        each += size_bytes * (1 - share) if is_shared else size_bytes
    elif pool.window_tokens is not None and not is_shared:
        # The pool of the sliding layers is given the whole size once more.
        return exact(tokens), Span(low=each, likely=2 * each, high=2 * each)
    return exact(tokens), exact(each)


def find_ratio(inputs: Inputs, pool: Pool) -> float:
    """How many times the GPU's pools it is: as set, else as the engine fits it to what is free."""
    host, usual = inputs.settings.parts.host, load_sglang().usual.host_ratio
    row = find_host_row(load_host_rules().fitting, inputs.engine, inputs.release)
    available = find_available(inputs)
    if host.ratio is not None or row is None or host.share is None or available is None:
        return host.ratio if host.ratio is not None else usual
    reserve = load_host_cache().find(inputs.engine, inputs.release).reserve_bytes
    states = _device_states(inputs, pool)
    device = pool.rank_tokens.likely * pool.token_bytes + (states.likely if states else 0.0)
    room = max(0, available - reserve) / max(1, ranks_on_host(inputs)) * host.share
    return max(0.0, min(row.most_ratio, room * row.filled_share / max(1.0, device)))


def _device_states(inputs: Inputs, pool: Pool) -> Span | None:
    """The states on one GPU that have a place in host memory: not those of drafted tokens."""
    if pool.state_bytes is None:
        return None
    if inputs.settings.parts.speculation is None or pool.state_requests is None:
        return pool.state_bytes
    each = state_bytes(inputs.shape, inputs.ranks, inputs.settings.parts.state.number_type)
    slots = float(pool.state_requests * slots_for_request(inputs) * each)
    return Span(
        low=min(slots, pool.state_bytes.low),
        likely=min(slots, pool.state_bytes.likely),
        high=pool.state_bytes.high,
    )


def _index_bytes(inputs: Inputs) -> float:
    """Of one token on one rank: the keys of a sparse attention."""
    kinds = inputs.shape.attention
    return float(sum(stage_layers(kind.layers, inputs.ranks) * index_bytes(kind) for kind in kinds))


# --- one cache for all ranks of a copy ---


def _size_together(inputs: Inputs, pool: Pool) -> HostCache | None:
    """A size for all ranks of one copy of the model; every copy has one of its own."""
    size = inputs.settings.parts.host.size_bytes
    if not size:
        return None
    ranks, copies = inputs.ranks, max(1, inputs.ranks.replicas)
    world = max(1, ranks.tensor * max(1, ranks.pipeline))
    page = inputs.settings.page_tokens or 1

    def count(kept: int) -> float:
        block = page * pool.token_bytes * kept
        aligned = -(-block // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES if page > 1 else block
        return float(int(size / max(1.0, aligned)) * page)

    few, many = count(world), count(1)
    row = find_host_row(load_host_rules().latent, inputs.engine, inputs.release)
    word = row.copies if row is not None and _is_the_same(inputs) else "each"
    tokens = exact(many if word == "one" else few)
    if word == "either":
        tokens = Span(low=few, likely=few, high=many)
    local = copies if ranks.on_host is None else max(1, ranks.on_host // world)
    return _make(
        inputs,
        tokens=tokens,
        each=exact(size / world),
        total=exact(float(size * local)),
        ranks=ranks_on_host(inputs),
    )


def _is_the_same(inputs: Inputs) -> bool:
    """Whether every rank of one copy has the very same cache."""
    ranks, kinds = inputs.ranks, inputs.shape.attention
    is_latent = bool(kinds) and all(kind.latent_width for kind in kinds)
    is_alone = ranks.pipeline == ranks.context == 1 and ranks.on_host is None
    return is_latent and not inputs.shape.states and ranks.tensor > 1 and is_alone
