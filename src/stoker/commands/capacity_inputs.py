"""From a resolved deployment, and what an engine told, to the inputs of a prediction.

Called by :mod:`stoker.commands.capacity` and where a plan is made. Pure: facts, settings and values
in, inputs out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.capacity.correction import describe_conditions
from stoker.capacity.dimensions import read_shape
from stoker.capacity.free_memory import find_row
from stoker.capacity.gguf_dimensions import read_gguf_shape
from stoker.capacity.inputs import (
    Gpu,
    Host,
    Inputs,
    NodeMemory,
    Processor,
    Ranks,
    Readings,
    Settings,
    Shape,
    Speculation,
)
from stoker.capacity.processor import read_processor
from stoker.capacity.settings import read_ranks, read_settings
from stoker.capacity.what_if import Wish
from stoker.commands.resolve import UNKNOWN_BUILD, Resolved
from stoker.knowledge.capacity_loading import load_loading
from stoker.knowledge.derived.devices import choose_gpus, may_use_gpus
from stoker.knowledge.derived.ranks import division_of, rank_bytes
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.describe import describe
from stoker.knowledge.gpus import find_gpu
from stoker.model.capacity_start import StartConditions
from stoker.model.facts import Facts, Plain, Unknown
from stoker.model.resolved import Resolved as Told

#: What an engine tells, by the part of the map that it is.
_PARTS = {
    "weights": ("weight_bytes",),
    "kv_pool": ("kv_bytes",),
    "state_pool": ("state_bytes",),
    "draft": ("draft_weight_bytes",),
    "graphs": ("graph_bytes",),
    "workspace": ("activation_bytes", "other_bytes"),
    "unused": ("free_bytes",),
    "host_cache": ("host_cache_bytes",),
}
#: What a driver takes of a GPU that nobody uses is less than this.
_IDLE_BYTES = 1 << 30
_POOLS = ("kv_bytes", "state_bytes")
_MOST_HEADER_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The inputs, the tensor sizes that nothing speaks against, and the NUMA node of each GPU.

    ``conditions``: what the figures of a start with these inputs depend on.
    """

    inputs: Inputs
    conditions: StartConditions
    tensor_sizes: tuple[int, ...] = ()
    nodes: tuple[int | None, ...] = ()

    def wish(self, context_tokens: int | None, parallel: int | None) -> Wish:
        """What a person asks for, of this deployment."""
        return Wish(
            context_tokens=context_tokens, parallel=parallel, tensor_sizes=self.tensor_sizes
        )


def describe_deployment(
    resolved: Resolved,
    own_pids: frozenset[int] = frozenset(),
    *,
    tree: Mapping[str, Any] | None = None,
) -> Described:
    """What a prediction needs of a deployment; ``own_pids`` give their GPU memory back.

    ``tree`` is what rules may ask about, where it was made already.
    """
    tree = tree if tree is not None else _describe(resolved)
    engine = resolved.table.kind
    flags = tree["settings"]
    ranks = read_ranks(engine, flags)
    present = _read_gpus(resolved)
    gpus = [_make_gpu(gpu, resolved.facts, own_pids) for gpu in present]
    needed = ranks.on_host or ranks.tensor * ranks.pipeline * ranks.replicas
    used = len(gpus) if engine == "llamacpp" else needed
    seen = _mapping(resolved.facts, "model")
    build = resolved.place.build
    inputs = Inputs(
        name=resolved.deployment.name,
        engine=engine,
        release="" if build == UNKNOWN_BUILD else build,
        shape=_read_shape(seen, resolved.facts),
        gpus=tuple(gpus[:used]),
        ranks=ranks,
        settings=_with_draft(read_settings(engine, flags), resolved.facts, ranks),
        weight_bytes=_weigh(seen, tree["checkpoint"], ranks, count=len(gpus)),
        host=_read_host(resolved.facts),
        processor=_read_processor(resolved),
    )
    allowed = tree["parallel"].get("allowed")
    sizes = allowed if isinstance(allowed, (list, tuple)) else ()
    driver = resolved.facts.read("gpus.driver_version") if gpus else ""
    return Described(
        inputs=inputs,
        conditions=describe_conditions(
            inputs,
            flags=_read_loading(resolved),
            driver=driver if isinstance(driver, str) else "",
        ),
        tensor_sizes=tuple(size for size in sizes if size <= len(gpus)),
        nodes=tuple(_find_node(gpu, resolved.facts) for gpu in present[:used]),
    )


def _read_processor(resolved: Resolved) -> Processor | None:
    """None where the deployment may use GPUs."""
    if may_use_gpus(resolved.deployment, resolved.table):
        return None
    settings = resolved.launch.settings
    environment = {each.name: each.value for each in settings if each.kind == "env"}
    return read_processor(resolved.table.kind, environment)


def _describe(resolved: Resolved) -> Mapping[str, Any]:
    return describe(
        Subject(
            deployment=resolved.deployment,
            facts=resolved.facts,
            table=resolved.table,
            build=resolved.place.build,
            settings=resolved.launch.settings,
        )
    )


def _read_loading(resolved: Resolved) -> dict[str, Plain]:
    """The flags beside the ranks that change what is loaded, where somebody set them."""
    row = load_loading().get(resolved.table.kind)
    names = row.flags if row is not None else ()
    catalogue = resolved.table.catalogue
    settings = {catalogue.identify(each.name): each for each in resolved.launch.settings}
    wanted = {name: catalogue.identify(catalogue.spell(name)) for name in names}
    found = {name: settings[each] for name, each in wanted.items() if each in settings}
    return {name: " ".join((each.value or "", *each.more)) for name, each in found.items()}


def _mapping(facts: Facts, path: str) -> Mapping[str, Plain]:
    found = facts.read(path)
    return found if isinstance(found, Mapping) else {}


def _whole(facts: Facts, path: str) -> int | None:
    found = facts.read(path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _read_gpus(resolved: Resolved) -> Sequence[Mapping[str, Any]]:
    if not may_use_gpus(resolved.deployment, resolved.table):
        return ()
    found = choose_gpus(resolved.deployment.gpus, resolved.facts)
    return () if isinstance(found, Unknown) else found


def _make_gpu(gpu: Mapping[str, Any], facts: Facts, own_pids: frozenset[int]) -> Gpu:
    total, used = gpu.get("memory_total_bytes"), gpu.get("memory_used_bytes")
    row = find_gpu(str(gpu.get("name") or ""))
    made = Gpu(
        total_bytes=total,
        free_bytes=_find_free(gpu, own_pids) if total is not None and used is not None else None,
        key=row.key if row is not None else "",
        is_slice=_find_joined(gpu, facts).get("is_divided") is True,
        node=_find_node(gpu, facts),
    )
    described = find_row(made)
    is_shared = described is not None and described.shared
    return replace(made, is_shared_memory=is_shared)


def _find_free(gpu: Mapping[str, Any], own_pids: frozenset[int]) -> int | None:
    """What the driver says is free, with what ``own_pids`` hold.

    None where much is used and nobody is named who does: in a container the driver names no
    process, and then it may well be ourselves.
    """
    total, used = gpu["memory_total_bytes"], gpu["memory_used_bytes"]
    processes = gpu.get("processes") or ()
    if own_pids and not processes and used > _IDLE_BYTES:
        return None
    ours = sum(each.get("used_bytes") or 0 for each in processes if each.get("pid") in own_pids)
    return int(min(total, total - used + ours))


def _find_joined(gpu: Mapping[str, Any], facts: Facts) -> Mapping[str, Any]:
    """What the topology probe says of the same GPU."""
    listed = facts.read("topology.gpus")
    rows = listed if isinstance(listed, (list, tuple)) else ()
    return next((row for row in rows if row.get("index") == gpu.get("index")), {})


def _find_node(gpu: Mapping[str, Any], facts: Facts) -> int | None:
    node = _find_joined(gpu, facts).get("numa_node")
    return node if isinstance(node, int) else None


def _read_shape(seen: Mapping[str, Plain], facts: Facts) -> Shape:
    if seen.get("format") == "gguf":
        return read_gguf_shape(seen)
    config = seen.get("config")
    if isinstance(config, Mapping):
        return read_shape(config)
    found = facts.read("model")
    reason = found.reason if isinstance(found, Unknown) else str(seen.get("reason") or "")
    if seen.get("format") == "missing":
        reason = "the model's files are not here yet"
    return replace(
        read_shape({}),
        unknown=f"the model's dimensions are not known: {reason or 'no config.json'}",
    )


def _weigh(
    seen: Mapping[str, Plain], checkpoint: Mapping[str, Plain], ranks: Ranks, *, count: int
) -> int | None:
    """Bytes on the fullest rank; None where not all headers could be read."""
    if seen.get("format") == "gguf":
        whole = _weigh_tensors(seen, checkpoint.get("weight_bytes"))
        return whole // max(1, count) if isinstance(whole, int) and whole > 0 else None
    division = division_of(checkpoint, tensor=ranks.tensor, expert=ranks.expert)
    found = rank_bytes(seen.get("forms"), division)
    if isinstance(found, Unknown) or found <= 0:
        return None
    return -(-found // max(1, ranks.pipeline))


def _weigh_tensors(seen: Mapping[str, Plain], file_bytes: Plain) -> Plain:
    """Of the tensors of GGUF files; of the files where the types of some are not known."""
    types = seen.get("tensor_types")
    sizes = types.values() if isinstance(types, Mapping) else ()
    whole = sum(size for size in sizes if isinstance(size, int))
    # A file has a header, with its vocabulary, beside them.
    is_whole = isinstance(file_bytes, int) and 0 <= file_bytes - whole <= _MOST_HEADER_BYTES
    return whole if whole and is_whole else file_bytes


def _with_draft(settings: Settings, facts: Facts, ranks: Ranks) -> Settings:
    """The same with what the draft model's own files tell."""
    speculation = settings.parts.speculation
    seen = _mapping(facts, "draft")
    config = seen.get("config")
    if speculation is None or not isinstance(config, Mapping):
        return settings
    shape = read_shape(config)
    known = not shape.unknown and bool(shape.attention)
    weights = rank_bytes(seen.get("forms"), division_of({}, tensor=ranks.tensor))
    draft = Speculation(
        kind=speculation.kind,
        tokens=speculation.tokens,
        shape=shape if known else None,
        weight_bytes=weights if isinstance(weights, int) and weights > 0 else None,
    )
    return replace(settings, parts=replace(settings.parts, speculation=draft))


def _read_host(facts: Facts) -> Host:
    total, limit = _whole(facts, "memory.total_bytes"), _whole(facts, "memory.limit_bytes")
    # The service manager's own answer goes before what the caller of Stoker may lock.
    sandbox = facts.read("service_sandbox.memory_lock_bytes")
    path = "limits" if isinstance(sandbox, Unknown) else "service_sandbox"
    return Host(
        total_bytes=total,
        available_bytes=_whole(facts, "memory.usable_bytes"),
        limit_bytes=limit if limit is not None and total is not None and limit < total else None,
        pinned_limit_bytes=_whole(facts, f"{path}.memory_lock_bytes"),
        nodes=tuple(_read_nodes(facts)),
        shared_bytes=_whole(facts, "shm.free_bytes"),
    )


def _read_nodes(facts: Facts) -> Iterator[NodeMemory]:
    """The NUMA nodes with processors; one without any may be the memory of a GPU."""
    listed = facts.read("memory.nodes")
    for row in listed if isinstance(listed, (list, tuple)) else ():
        number, available = row.get("node"), row.get("available_bytes")
        if isinstance(number, int) and isinstance(available, int) and row.get("has_cpus") is True:
            yield NodeMemory(node=number, available_bytes=available)


def told_count(told: Told, name: str) -> int | None:
    """A value of an engine's own figures as a whole number."""
    value = told.values.get(name)
    figure = value.value if value is not None else None
    return int(figure) if isinstance(figure, (int, float)) and figure >= 0 else None


def told_parts(told: Told) -> tuple[tuple[str, int], ...]:
    """Parts of a GPU's memory as the engine told them."""
    found = []
    for part, names in _PARTS.items():
        sizes = [told_count(told, name) for name in names]
        known = [size for size in sizes if size is not None]
        if known:
            found.append((part, sum(known)))
    return tuple(found)


def read_readings(told: Told, *, parts: tuple[tuple[str, int], ...] = ()) -> Readings:
    """What an earlier start told that holds for other settings too; ``parts`` stand beside maps."""
    return Readings(
        free_before_bytes=told_count(told, "free_before_weights_bytes"),
        free_after_bytes=told_count(told, "free_after_weights_bytes"),
        weight_bytes=told_count(told, "weight_bytes"),
        resolved_parts=parts,
    )


def told_pool_bytes(told: Told) -> int | None:
    """All pools of one GPU together, as the engine told."""
    sizes = [told_count(told, name) for name in _POOLS]
    return sum(size or 0 for size in sizes) if sizes[0] is not None else None
