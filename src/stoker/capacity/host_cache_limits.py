"""What a cache in host memory is held against: free memory, a group's limit, locked memory, nodes.

Called by :mod:`stoker.capacity.options` and by the command that shows them. Everything in bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.capacity.host_cache import ranks_on_host
from stoker.capacity.inputs import Inputs
from stoker.knowledge.capacity import GIB
from stoker.knowledge.capacity_host import find_host_row, load_host_rules
from stoker.knowledge.host_cache import load_host_cache
from stoker.model.capacity import HostCache

_TRANSFERS = "less; transfers between machines keep to it"
_ANOTHER_NODE = "less; the rest comes from another node, which is slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit: what is needed, and what may be taken (None: nobody told).

    ``reserve_bytes``: what the engine itself leaves to others, taken off already. ``is_hard``:
    nothing starts beyond it. Else ``beyond`` says what it means: NVIDIA's driver pins memory beyond
    what a process may lock, while transfers between machines do not.
    """

    name: str
    title: str
    needed_bytes: float
    allowed_bytes: int | None
    reserve_bytes: int = 0
    is_hard: bool = True
    beyond: str = _TRANSFERS

    @property
    def is_kept(self) -> bool | None:
        """Whether the cache fits; None where the limit is not known."""
        return None if self.allowed_bytes is None else self.needed_bytes <= self.allowed_bytes


def list_limits(inputs: Inputs, cache: HostCache) -> tuple[Limit, ...]:
    """What the cache, with weights that stay in host memory, is held against.

    A group's limit, shared memory and a limit on locked memory are left out where there are none.
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
    if host.shared_bytes is not None and _is_in_shared_memory(inputs):
        found.append(
            Limit(
                name="shared",
                title="shared memory that is free (/dev/shm)",
                needed_bytes=cache.total_bytes.likely,
                allowed_bytes=host.shared_bytes,
            )
        )
    if host.pinned_limit_bytes is not None and cache.is_pinned:
        found.append(
            Limit(
                name="locked",
                title="memory that one process may lock",
                needed_bytes=cache.rank_bytes.likely,
                allowed_bytes=host.pinned_limit_bytes,
                is_hard=load_host_rules().pinning.is_counted,
            )
        )
    return tuple(found)


def list_node_limits(inputs: Inputs, cache: HostCache) -> tuple[Limit, ...]:
    """What the ranks near each NUMA node need, against what that node has free.

    Empty where the machine has one node, or nobody knows which rank is near which. Hard only where
    the engine binds each rank to its node.
    """
    nodes, free = (
        rank_nodes(inputs),
        {each.node: each.available_bytes for each in inputs.host.nodes},
    )
    if len(free) < 2 or not nodes:
        return ()
    each = cache.rank_bytes.likely + inputs.settings.parts.host.weight_bytes
    is_strict = _binds_strictly(inputs)
    return tuple(
        Limit(
            name=f"node-{node}",
            title=f"memory that is free on NUMA node {node}, for {count} ranks",
            needed_bytes=count * each,
            allowed_bytes=free.get(node),
            is_hard=is_strict,
            beyond=_ANOTHER_NODE,
        )
        for node, count in sorted(Counter(nodes).items())
    )


def rank_nodes(inputs: Inputs) -> tuple[int, ...]:
    """The NUMA node of each rank on this machine; empty where one of them is not known."""
    ranks, wanted = ranks_on_host(inputs), inputs.settings.parts.host.nodes
    if len(wanted) >= ranks:
        return wanted[:ranks]
    nodes = [gpu.node for gpu in inputs.gpus[:ranks]]
    known = tuple(node for node in nodes if node is not None and node >= 0)
    return known if len(known) == ranks else ()


def _binds_strictly(inputs: Inputs) -> bool:
    host = inputs.settings.parts.host
    row = find_host_row(load_host_rules().binding, inputs.engine, inputs.release)
    if row is None or host.binds is False:
        return False
    return row.is_strict and bool(host.binds or host.nodes or row.by_itself)


def _is_in_shared_memory(inputs: Inputs) -> bool:
    row = find_host_row(load_host_rules().latent, inputs.engine, inputs.release)
    return row is not None and row.is_shared


def find_problems(inputs: Inputs, cache: HostCache) -> list[str]:
    """What of the machine the cache does not fit into, as sentences."""
    limits = (*list_limits(inputs, cache), *list_node_limits(inputs, cache))
    found = []
    if inputs.host.available_bytes is None and inputs.host.limit_bytes is None:
        found.append("how much memory the machine has free is not known: read it")
    for limit in limits:
        if limit.is_kept is not False:
            continue
        needed, allowed = limit.needed_bytes / 1e9, (limit.allowed_bytes or 0) / 1e9
        if limit.is_hard:
            found.append(
                f"the cache in host memory does not fit: {limit.title}: {needed:.1f} GB are needed "
                f"and {allowed:.1f} GB can be taken"
            )
        elif limit.name == "locked":
            found.append(
                f"a process may lock {allowed:.1f} GB of memory and the cache of one rank is "
                f"{needed:.1f} GB: NVIDIA's driver pins it all the same, transfers between "
                "machines do not"
            )
        else:
            found.append(
                f"{limit.title}: {allowed:.1f} GB of the {needed:.1f} GB that the cache takes; the "
                "rest comes from another node and is slower"
            )
    return found


def tell_broken(limits: Sequence[Limit]) -> str:
    """What does not fit, as a sentence; empty where nothing hard speaks against it."""
    broken = [limit for limit in limits if limit.is_kept is False and limit.is_hard]
    return "; ".join(
        f"{limit.title}: {limit.needed_bytes / 1e9:.1f} GB are needed and "
        f"{(limit.allowed_bytes or 0) / 1e9:.1f} GB can be taken"
        for limit in broken
    )


def tell_soft(limits: Sequence[Limit]) -> str:
    """What is less than wanted and forbids nothing; empty for nothing."""
    soft = [limit for limit in limits if limit.is_kept is False and not limit.is_hard]
    return "; ".join(
        f"{limit.title}: {(limit.allowed_bytes or 0) / GIB:.2f} GiB here, {limit.beyond}"
        for limit in soft
    )


def tell_nodes(cache: HostCache, nodes: Sequence[int | None]) -> str:
    """How the cache spreads over the machine's NUMA nodes, from the node of each rank's GPU."""
    counts = Counter(node for node in nodes if node is not None and node >= 0)
    if len(counts) < 2 or sum(counts.values()) != len(nodes):
        return ""
    each = cache.rank_bytes.likely / 1e9
    parts = [f"{count * each:.1f} GB near node {node}" for node, count in sorted(counts.items())]
    return (
        f"the GPUs lie on {len(counts)} NUMA nodes: {', '.join(parts)}; a cache on the other node "
        "is slower"
    )
