"""What a cache in host memory is held against: free memory, a group's limit, locked memory, nodes.

Called by :mod:`stoker.capacity.options` and by the command that shows them. Everything in bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.capacity.host_cache import ranks_on_host
from stoker.capacity.inputs import Inputs
from stoker.knowledge.host_cache import load_host_cache
from stoker.model.capacity import HostCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit: what is needed, and what may be taken (None: nobody told).

    ``reserve_bytes``: what the engine itself leaves to others, taken off already. ``is_hard``:
    nothing starts beyond it; NVIDIA's driver locks memory beyond a process's limit, while
    transfers between machines do not.
    """

    name: str
    title: str
    needed_bytes: float
    allowed_bytes: int | None
    reserve_bytes: int = 0
    is_hard: bool = True

    @property
    def is_kept(self) -> bool | None:
        """Whether the cache fits; None where the limit is not known."""
        return None if self.allowed_bytes is None else self.needed_bytes <= self.allowed_bytes


def list_limits(inputs: Inputs, cache: HostCache) -> tuple[Limit, ...]:
    """What the cache, with weights that stay in host memory, is held against.

    A group's limit and a limit on locked memory are left out where there are none.
    """
    host = inputs.host
    reserve = load_host_cache().find(inputs.engine, inputs.release).reserve_bytes
    weights = inputs.settings.parts.host.weight_bytes
    needed = cache.total_bytes.likely + weights * ranks_on_host(inputs)
    available = host.available_bytes
    found = [
        Limit(
            name="available",
            title="memory that is free",
            needed_bytes=needed,
            allowed_bytes=None if available is None else max(0, available - reserve),
            reserve_bytes=reserve,
        )
    ]
    if host.limit_bytes is not None:
        title = "limit of the control group"
        found.append(
            Limit(name="group", title=title, needed_bytes=needed, allowed_bytes=host.limit_bytes)
        )
    if host.pinned_limit_bytes is not None and cache.is_pinned:
        found.append(
            Limit(
                name="locked",
                title="memory that one process may lock",
                needed_bytes=cache.rank_bytes.likely,
                allowed_bytes=host.pinned_limit_bytes,
                is_hard=False,
            )
        )
    return tuple(found)


def tell_broken(limits: Sequence[Limit]) -> str:
    """What does not fit, as a sentence; empty where nothing hard speaks against it."""
    broken = [limit for limit in limits if limit.is_kept is False and limit.is_hard]
    return "; ".join(
        f"{limit.title}: {limit.needed_bytes / 1e9:.1f} GB are needed and "
        f"{(limit.allowed_bytes or 0) / 1e9:.1f} GB can be taken"
        for limit in broken
    )


def tell_nodes(cache: HostCache, nodes: Sequence[int | None]) -> str:
    """How the cache spreads over the machine's NUMA nodes, from the node of each rank's GPU."""
    counts = Counter(node for node in nodes if node is not None and node >= 0)
    if len(counts) < 2 or sum(counts.values()) != len(nodes):
        return ""
    each = cache.rank_bytes.likely / 1e9
    parts = [f"{count * each:.1f} GB near node {node}" for node, count in sorted(counts.items())]
    return (
        f"the GPUs lie on {len(counts)} NUMA nodes: {', '.join(parts)}; what each node has free "
        "is not read here, and a cache on the other node is slower"
    )
