"""Where the memory of each GPU, and of the machine, lies.

Called by :mod:`stoker.capacity.predict`. Every part has its bytes within bounds, or the reading
that would settle it; what the engine told of an earlier start stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.capacity import llamacpp, vllm
from stoker.capacity.free_memory import total_mib
from stoker.capacity.host_cache import join_ranks
from stoker.capacity.inputs import Gpu, Inputs
from stoker.capacity.intervals import add, at_least, exact, mebibytes, subtract
from stoker.capacity.pool import Budget, Pool
from stoker.capacity.request_table import request_table_bytes
from stoker.knowledge.capacity import MIB, find_row, load_sglang
from stoker.knowledge.llamacpp_layers import load_llamacpp_layers
from stoker.model.capacity import HostCache, MemoryMap, MemoryPart, Span
from stoker.model.finding import Source

_TITLES = {
    "weights": "weights of the model",
    "kv_pool": "keys and values of tokens",
    "state_pool": "recurrent states of requests",
    "draft": "the model that drafts tokens",
    "request_table": "table from requests to tokens",
    "graphs": "captured graphs",
    "workspace": "what a step needs",
    "others": "driver, libraries and other programs",
    "unused": "unused",
    "host_cache": "cache of prompts in host memory",
    "pinned_weights": "weights in host memory",
    "processes": "all other programs",
}
_RUN = "a start of the engine tells it in its log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A part's bytes and where that is from."""

    part: str
    size: Span | None
    source: Source | None = None


def gpu_maps(inputs: Inputs, budget: Budget, pool: Pool) -> tuple[MemoryMap, ...]:
    """One map for each rank; ranks that are alike have the same figures."""
    found = _list_parts(inputs, budget, pool)
    return tuple(
        _make_map(inputs, gpu, budget, rank=number, found=found)
        for number, gpu in enumerate(inputs.gpus)
    )


def _list_parts(inputs: Inputs, budget: Budget, pool: Pool) -> list[Found]:
    parts = [
        Found(part="weights", size=budget.weights),
        Found(part="kv_pool", size=_of_one_gpu(inputs, pool.pool_bytes)),
    ]
    if pool.state_bytes is not None:
        parts.append(Found(part="state_pool", size=_of_one_gpu(inputs, pool.state_bytes)))
    if pool.draft_bytes is not None:
        parts.append(Found(part="draft", size=pool.draft_bytes))
    return parts + _list_work(inputs, pool)


def _of_one_gpu(inputs: Inputs, size: Span | None) -> Span | None:
    """llama.cpp deals its layers out to the GPUs, whole ones, and each keeps its own cache."""
    count, layers = len(inputs.gpus), inputs.shape.layers
    if size is None or inputs.engine != "llamacpp" or count < 2 or layers < 1:
        return size
    # By free memory, so a GPU may have a layer less or more than its even part.
    fewest, most = max(0, layers // count - 1), min(layers, -(-layers // count) + 1)
    return Span(
        low=size.low * fewest / layers,
        likely=size.likely / count,
        high=size.high * most / layers,
    )


def _list_work(inputs: Inputs, pool: Pool) -> list[Found]:
    has_graphs = inputs.settings.parts.batch.has_graphs
    if inputs.engine == "sglang":
        row = find_row(load_sglang().work, inputs.release)
        if row is None:
            return []
        graphs = mebibytes(row.graphs_mib) if has_graphs else exact(0.0)
        size = request_table_bytes(inputs, pool.requests or 1)
        table = load_sglang().pools.request_table
        return [
            Found(
                part="request_table",
                size=None if size is None else exact(float(size)),
                source=table.source,
            ),
            Found(part="graphs", size=graphs, source=row.source),
            Found(part="workspace", size=mebibytes(row.workspace_mib), source=row.source),
        ]
    if inputs.engine == "vllm":
        graphs = vllm.graph_bytes(inputs) if has_graphs else exact(0.0)
        return [
            Found(part="graphs", size=graphs),
            Found(
                part="workspace", size=add(vllm.transient_bytes(inputs), vllm.beside_bytes(inputs))
            ),
        ]
    step = llamacpp.step_bytes(inputs)
    return [Found(part="workspace", size=step, source=load_llamacpp_layers().step.source)]


def _make_map(
    inputs: Inputs, gpu: Gpu, budget: Budget, *, rank: int, found: list[Found]
) -> MemoryMap:
    size = total_mib(gpu) if gpu.total_bytes is None else gpu.total_bytes / MIB
    total = None if size is None else int(size * MIB)
    resolved = dict(inputs.readings.resolved_parts)
    parts = [_make_part(each, resolved) for each in found]
    before = budget.free_before
    if total is not None and before is not None:
        others = at_least(subtract(exact(float(total)), before))
        parts.append(_make_part(Found(part="others", size=others), resolved))
    parts.append(_make_part(Found(part="unused", size=_unused(before, found)), resolved))
    title = f"GPU {rank}" + (f" ({gpu.key})" if gpu.key else "")
    return MemoryMap(title=title, total_bytes=total, rank=rank, parts=tuple(parts))


def _unused(before: Span | None, found: list[Found]) -> Span | None:
    known = [each.size for each in found if each.size is not None]
    if before is None or len(known) != len(found):
        return None
    # Pools grow with what is free, so the doubts of both are one.
    likely = before.likely - sum(size.likely for size in known)
    work = [each.size for each in found if each.part in ("graphs", "workspace", "request_table")]
    spans = [size for size in work if size is not None]
    less = sum(size.high - size.likely for size in spans)
    more = sum(size.likely - size.low for size in spans)
    return at_least(Span(low=likely - less, likely=likely, high=likely + more))


def _make_part(found: Found, resolved: dict[str, int]) -> MemoryPart:
    return MemoryPart(
        part=found.part,
        title=_TITLES[found.part],
        predicted_bytes=found.size,
        resolved_bytes=resolved.get(found.part),
        reason="" if found.size is not None else _RUN,
        source=found.source,
    )


def host_map(inputs: Inputs, cache: HostCache | None) -> tuple[MemoryMap, ...]:
    """The machine's own memory; none where nobody looked at it."""
    host = inputs.host
    if host.total_bytes is None and cache is None:
        return ()
    found = []
    if cache is not None:
        found.append(Found(part="host_cache", size=cache.total_bytes))
    weights = inputs.settings.parts.host.weight_bytes
    if weights:
        count = len(inputs.gpus)
        found.append(Found(part="pinned_weights", size=exact(float(weights * count))))
    used = None
    if host.total_bytes is not None and host.available_bytes is not None:
        used = exact(float(max(0, host.total_bytes - host.available_bytes)))
    found.append(Found(part="processes", size=used))
    left = None
    if host.total_bytes is not None and used is not None:
        sizes = [each.size for each in found if each.size is not None]
        left = at_least(subtract(exact(float(host.total_bytes)), *sizes))
    found.append(Found(part="unused", size=left))
    # Of what an engine told, only its cache lies here; the other parts are a GPU's.
    told = dict(inputs.readings.resolved_parts).get("host_cache")
    resolved = {} if told is None else {"host_cache": join_ranks(inputs, told)}
    parts = tuple(_make_part(each, resolved) for each in found)
    return (MemoryMap(title="host", total_bytes=host.total_bytes, parts=parts),)
