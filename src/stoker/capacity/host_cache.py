"""The cache in host memory: how many tokens, and how much of the machine it takes.

Called by :mod:`stoker.capacity.predict`. It is the reuse of prompts: its tokens are never added to
those that fit on the GPUs. Every rank has one of its own; a latent cache is the same on each, and
is kept on each nevertheless.
"""

from __future__ import annotations

from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import add, exact, rising, scale, subtract
from stoker.capacity.pool import Pool
from stoker.knowledge.capacity import load_sglang
from stoker.knowledge.host_cache import load_host_cache
from stoker.model.capacity import HostCache, Span


def size_host_cache(inputs: Inputs, pool: Pool) -> HostCache | None:
    """None where it is switched off, or the engine has none."""
    host = inputs.settings.parts.host
    rules = load_host_cache().find(inputs.engine, inputs.release)
    if not host.is_on or not (rules.cache.ratio or rules.cache.size) or pool.token_bytes <= 0:
        return None
    ranks = ranks_on_host(inputs) if rules.cache.by_rank else 1
    tokens = _count_tokens(inputs, pool)
    each = scale(tokens, pool.token_bytes)
    if pool.state_bytes is not None and rules.cache.state_again:
        each = add(each, _state_bytes(inputs, pool.state_bytes))
    total = scale(each, ranks)
    pinned = exact(float(host.weight_bytes * ranks_on_host(inputs)))
    available = _available(inputs)
    return HostCache(
        tokens=tokens,
        rank_bytes=each,
        total_bytes=total,
        ranks=ranks,
        remaining_bytes=None
        if available is None
        else subtract(exact(float(available)), total, pinned),
    )


def ranks_on_host(inputs: Inputs) -> int:
    """Processes of the engine on this machine."""
    ranks = inputs.ranks
    if ranks.on_host is not None:
        return ranks.on_host
    return ranks.tensor * max(1, ranks.pipeline) * max(1, ranks.replicas)


def find_problems(inputs: Inputs, cache: HostCache) -> list[str]:
    """What of the machine the cache does not fit into, as sentences."""
    rules = load_host_cache().find(inputs.engine, inputs.release)
    found = []
    available = _available(inputs)
    if available is None:
        found.append("how much memory the machine has free is not known: read it")
    elif cache.total_bytes.likely > available - rules.reserve_bytes:
        found.append(
            f"the cache in host memory takes {cache.total_bytes.likely / 1e9:.1f} GB in all, and "
            f"{max(0, available - rules.reserve_bytes) / 1e9:.1f} GB can be taken"
        )
    limit = inputs.host.pinned_limit_bytes
    if limit is not None and cache.rank_bytes.likely > limit:
        found.append(
            f"a process may lock {limit / 1e9:.1f} GB of memory, and the cache of one rank is "
            f"{cache.rank_bytes.likely / 1e9:.1f} GB"
        )
    return found


def _count_tokens(inputs: Inputs, pool: Pool) -> Span:
    host = inputs.settings.parts.host
    page = inputs.settings.page_tokens or load_sglang().usual.page_tokens

    def to_pages(tokens: float) -> float:
        # One page more than fits, as the engine does.
        return float((int(tokens) // page + 1) * page)

    if host.size_bytes:
        return exact(to_pages(host.size_bytes / pool.token_bytes))
    ratio = host.ratio or load_sglang().usual.host_ratio
    return rising(scale(pool.rank_tokens, ratio), to_pages)


def _state_bytes(inputs: Inputs, state_bytes: Span) -> Span:
    host = inputs.settings.parts.host
    if host.size_bytes:
        return exact(float(host.size_bytes))
    return scale(state_bytes, host.ratio or load_sglang().usual.host_ratio)


def _available(inputs: Inputs) -> int | None:
    known = [inputs.host.available_bytes, inputs.host.limit_bytes]
    return min((size for size in known if size is not None), default=None)
