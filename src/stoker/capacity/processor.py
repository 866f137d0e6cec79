"""What SGLang and vLLM find in the machine's memory where they compute on its processors.

Called by the arithmetic of those engines. The rules by release are data
(``knowledge/data/capacity/processor.toml``); free memory moves with all other programs, so what is
made of it is told within bounds, and what is set outright is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stoker.capacity.fraction import default_share
from stoker.capacity.inputs import Inputs, Processor
from stoker.capacity.intervals import about, at_least, exact, mebibytes, scale, subtract
from stoker.capacity.pool import Budget, Refusal
from stoker.knowledge.capacity import GIB, MIB, find_row, load_number_types, need_row
from stoker.knowledge.capacity import load_vllm as load_vllm_rules
from stoker.knowledge.capacity_processor import SglangProcessor, VllmProcessor, load_processor
from stoker.model.capacity import Span

_NODES_UNKNOWN = "how many NUMA nodes the machine has is not known: read it"
_MEMORY_UNKNOWN = "how much memory the machine has is not known: read it"
#: Nodes of one machine have nearly the same memory.
_NODES_ALIKE = 0.03
#: Logs have two decimals, and memory moves while a pool is made.
_LEAST_DOUBT = 0.02 * GIB


def read_processor(engine: str, environment: Mapping[str, object]) -> Processor:
    """What the environment of an engine without a GPU sets."""
    rules = load_processor()
    sizes = (_to_count(environment.get(row.space_variable)) for row in rules.vllm)
    space = next((size for size in sizes if size), None) if engine == "vllm" else None
    cores = any(bool(environment.get(row.cores_variable)) for row in rules.sglang)
    return Processor(
        kv_bytes=None if space is None else int(space * GIB),
        has_chosen_cores=engine == "sglang" and cores,
    )


def find_obstacles(inputs: Inputs) -> tuple[str, ...]:
    """Why no figure may be given of an engine without a GPU."""
    if _find_sglang(inputs) is None and _find_vllm(inputs) is None:
        release = f" {inputs.release}" if inputs.release else ""
        missing = f"how {inputs.engine}{release} sizes its cache on a processor is not described"
        return (f"{missing}; its log of one start would settle it",)
    if inputs.engine == "vllm" and _is_undescribed(inputs):
        missing = "how vLLM's cache of this model lies on a processor is not described"
        return (f"{missing}; its log of one start would settle it",)
    return ()


def _is_undescribed(inputs: Inputs) -> bool:
    return bool(inputs.shape.states) or any(kind.latent_width for kind in inputs.shape.attention)


def list_notes(inputs: Inputs) -> tuple[str, ...]:
    """Settings with which the engine does not start here."""
    number = load_number_types().get(inputs.settings.kv_type.lower())
    is_narrow = number is not None and not number.follows_model and number.bytes < 2
    active = {"host_cache": inputs.settings.parts.host.is_on, "narrow_cache": is_narrow}
    rows = load_processor().fails
    return tuple(
        row.says for row in rows if row.engine == inputs.engine and active.get(row.setting)
    )


# --- SGLang: a share of what is free ---


def size_sglang(inputs: Inputs, weights: Span | None) -> Budget | Refusal:
    """The budget of one rank."""
    row, readings = _find_sglang(inputs), inputs.readings
    nodes = len(inputs.host.nodes)
    if row is None:
        return Refusal(reasons=find_obstacles(inputs))
    if not nodes:
        return Refusal(reasons=(_NODES_UNKNOWN,))
    before = _free_before(inputs, row, nodes)
    share = _find_share(inputs, row, nodes)
    if before is None or share is None:
        return Refusal(reasons=(_MEMORY_UNKNOWN,))
    if readings.free_after_bytes is not None:
        after = exact(float(readings.free_after_bytes))
        left = subtract(after, scale(before, 1 - share), mebibytes(row.moved_mib))
    elif weights is not None:
        left = subtract(scale(before, share), weights, mebibytes(row.moved_mib))
    else:
        return Refusal(reasons=("the bytes of the weights are not known: read their headers",))
    if readings.missing_bytes is not None:
        left = about(left.likely - readings.missing_bytes, less=_LEAST_DOUBT, more=_LEAST_DOUBT)
    return Budget(
        free_before=before,
        weights=weights,
        pools=left,
        share=share,
        notes=list_notes(inputs),
    )


def _free_before(inputs: Inputs, row: SglangProcessor, nodes: int) -> Span | None:
    if inputs.readings.free_before_bytes is not None:
        return exact(float(inputs.readings.free_before_bytes))
    available = _least(inputs.host.available_bytes, inputs.host.limit_bytes)
    if available is None:
        return None
    free = at_least(subtract(exact(float(available)), mebibytes(row.processes_mib)))
    return scale(free, 1 / nodes)


def _find_share(inputs: Inputs, row: SglangProcessor, nodes: int) -> float | None:
    if inputs.settings.memory_share is not None:
        return inputs.settings.memory_share
    if inputs.processor is not None and inputs.processor.has_chosen_cores:
        return row.share
    total = _least(inputs.host.total_bytes, inputs.host.limit_bytes)
    return None if total is None else default_share(inputs, float(total // nodes // MIB))


def _find_sglang(inputs: Inputs) -> SglangProcessor | None:
    return find_row(load_processor().sglang, inputs.release) if inputs.engine == "sglang" else None


# --- vLLM: a share of all memory ---


def size_vllm(inputs: Inputs, weights: Span | None) -> Budget | Refusal:
    """The budget of one rank: as it is set, or a share of a node less what the process holds."""
    row, host = _find_vllm(inputs), inputs.host
    if row is None:
        return Refusal(reasons=find_obstacles(inputs))
    given = inputs.processor.kv_bytes if inputs.processor is not None else None
    given = given or inputs.settings.kv_bytes
    if given is not None:
        return Budget(free_before=None, weights=weights, pools=exact(float(given)))
    total, nodes = _least(host.total_bytes, host.limit_bytes), len(host.nodes)
    if total is None:
        return Refusal(reasons=(_MEMORY_UNKNOWN,))
    if not nodes:
        return Refusal(reasons=(_NODES_UNKNOWN,))
    if weights is None:
        return Refusal(reasons=("the bytes of the weights are not known: read their headers",))
    share = inputs.settings.memory_share
    share = need_row(load_vllm_rules().share, inputs.release).share if share is None else share
    asked = _ask(total, nodes, share)
    available = _least(host.available_bytes, host.limit_bytes)
    if available is not None and asked.low > available / nodes:
        return Refusal(reasons=(_why_it_would_not_start(asked, available / nodes, share),))
    left = subtract(asked, weights, mebibytes(row.process_mib))
    if inputs.readings.missing_bytes is not None:
        known = left.likely - inputs.readings.missing_bytes
        left = about(known, less=_LEAST_DOUBT, more=_LEAST_DOUBT)
    return Budget(free_before=None, weights=weights, pools=left, share=share)


def _ask(total: int, nodes: int, share: float) -> Span:
    if nodes == 1:
        return exact(float(math.ceil(total * share)))
    likely = total / nodes * share
    return about(likely, less=_NODES_ALIKE * likely, more=_NODES_ALIKE * likely)


def _why_it_would_not_start(asked: Span, available: float, share: float) -> str:
    return (
        f"on a processor vLLM asks for {share:g} of a node's memory, {asked.likely / GIB:.1f} GiB, "
        f"and does not start with less: {available / GIB:.1f} GiB are free; set a smaller share, "
        "or the cache outright"
    )


def _find_vllm(inputs: Inputs) -> VllmProcessor | None:
    return find_row(load_processor().vllm, inputs.release) if inputs.engine == "vllm" else None


def usual_block_tokens(inputs: Inputs) -> int | None:
    """vLLM's tokens of a block without a GPU; None with one."""
    row = _find_vllm(inputs) if inputs.processor is not None else None
    return None if row is None else row.block_tokens


def usual_batch(inputs: Inputs) -> tuple[int, int] | None:
    """vLLM's requests and tokens of a step without a GPU; None with one."""
    row = _find_vllm(inputs) if inputs.processor is not None else None
    if row is None:
        return None
    ranks = inputs.ranks.tensor * inputs.ranks.pipeline
    return row.requests * ranks, row.batch_tokens * ranks


def _least(*sizes: int | None) -> int | None:
    known: Sequence[int] = [size for size in sizes if size is not None]
    return min(known, default=None)


def _to_count(value: object) -> int | None:
    text = str(value).strip() if value is not None else ""
    return int(text) if text.isdecimal() and len(text) < 9 else None
