"""What an engine found, against what was predicted: kept for each build, it corrects the next.

Called by whoever keeps what a start told. A correction is in bytes, so it holds for other shares,
contexts and number formats of the same build and model. What does not hold is left out: free memory
and weights belong to one way of dividing the model, and what lies beside the pool to one size of
step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from stoker.capacity.free_memory import total_mib
from stoker.capacity.inputs import Inputs, Readings
from stoker.capacity.intervals import spread
from stoker.capacity.main_memory import add_main_memory
from stoker.capacity.predict import predict
from stoker.knowledge.capacity import MIB
from stoker.model.capacity import Capacity, Correction, MemoryMap, MemoryPart, Span
from stoker.model.capacity_start import CapacityStart, StartConditions, StartFigures
from stoker.model.facts import Plain

#: The parts of a GPU's memory that are sized from what is left.
_POOLS = ("kv_pool", "state_pool")
#: Parts that a start measured and that the next one of the same work has again.
_MEASURED = frozenset({"graphs", "workspace"})
#: Two looks at a GPU that nothing happened on differ by less than this.
_SAME_FREE_BYTES = 256 * MIB
#: A difference of more than this part of a GPU is no correction but another thing.
_MOST_SHARE = 0.25
_MOST_BYTES = 1 << 50
#: A measured part of the next start: graphs and buffers repeat nearly to the byte.
_REPEATED = (0.95, 1.05)
#: The years that a clock may show: 2000 to 9999.
_FIRST_SECONDS, _LAST_SECONDS = 946_684_800.0, 253_402_300_799.0
#: What is no condition of its own: which machine it is, and where ranks lie.
_LEFT_OUT = frozenset({"on_host"})
_SET_BY_CONTEXT = frozenset({"llamacpp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """Inputs with what an earlier start told; ``by`` None and ``doubts`` why where nothing held.

    ``parts`` of a map that it measured, in bytes.
    """

    inputs: Inputs
    by: Correction | None = None
    parts: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


def find_missing_bytes(capacity: Capacity, resolved_pool_bytes: int) -> int | None:
    """How much less the pools of one GPU have than was predicted; below zero where they have more.

    ``resolved_pool_bytes`` are all pools together, as the engine told. None where nothing was
    predicted.
    """
    predicted = find_pool_bytes(capacity)
    return None if predicted is None else predicted - resolved_pool_bytes


def find_pool_bytes(capacity: Capacity) -> int | None:
    """All pools of one GPU together, as they are predicted; None where nothing is."""
    if capacity.kv_tokens is None or not capacity.maps:
        return None
    sizes = [part.predicted_bytes for part in capacity.maps[0].parts if part.part in _POOLS]
    known = [size.likely for size in sizes if size is not None]
    return int(sum(known)) if known else None


def describe_conditions(
    inputs: Inputs, *, flags: Mapping[str, Plain] | None = None, driver: str = ""
) -> StartConditions:
    """What the figures of a start with these inputs depend on.

    ``flags`` beside the inputs change what is loaded (``knowledge/data/capacity/loading.toml``).
    """
    settings = inputs.settings
    parts = settings.parts
    speculation = parts.speculation
    drafting = (speculation.kind, speculation.tokens) if speculation is not None else ("", None)
    return StartConditions(
        loading={**_flat(inputs.ranks), **(flags or {})},
        work={
            **_flat(parts.batch),
            **_flat(parts.llama),
            **{f"state_{name}": value for name, value in _flat(parts.state).items()},
            "drafting": drafting[0],
            "drafted_tokens": drafting[1],
            "backend": settings.backend,
            "has_overlap": settings.has_overlap,
            # A share that the engine chose is itself a part of what was predicted.
            "has_share": settings.memory_share is not None,
            "weights_in_host_bytes": parts.host.weight_bytes,
        },
        pool={name: value for name, value in _flat(settings).items() if name != "backend"},
        driver=driver,
    )


def _flat(value: object) -> dict[str, Plain]:
    plain = {each.name: getattr(value, each.name) for each in fields(value)}  # type: ignore[arg-type]
    simple = (str, int, float, bool, type(None))
    return {k: v for k, v in plain.items() if isinstance(v, simple) and k not in _LEFT_OUT}


# --- what a start told ---


def measure_start(
    inputs: Inputs, readings: Readings, *, pool_bytes: int | None, tokens: int | None
) -> StartFigures:
    """What is kept of a start: ``inputs`` as they were described, ``readings`` and what it told.

    ``pool_bytes``: all pools of one GPU together.
    """
    bare = replace(inputs, readings=Readings())
    told = replace(readings, pool_bytes=None, missing_bytes=None)
    missing = None
    if pool_bytes is not None:
        missing = find_missing_bytes(_predict(replace(inputs, readings=told)), pool_bytes)
    return StartFigures(
        free_before_bytes=readings.free_before_bytes,
        free_after_bytes=readings.free_after_bytes,
        weight_bytes=readings.weight_bytes,
        gpu_free_bytes=_least_free(inputs),
        predicted_pool_bytes=find_pool_bytes(_predict(bare)),
        resolved_pool_bytes=pool_bytes,
        missing_bytes=missing,
        told_tokens=tokens,
        parts={name: size for name, size in readings.resolved_parts if name in _MEASURED},
    )


def _predict(inputs: Inputs) -> Capacity:
    return add_main_memory(predict(inputs), inputs)


def tells_something(figures: StartFigures) -> bool:
    """Whether there is anything in it that corrects a prediction."""
    readings = (figures.free_before_bytes, figures.free_after_bytes, figures.weight_bytes)
    return any(each is not None for each in (*readings, figures.resolved_pool_bytes)) or bool(
        figures.parts
    )


def _least_free(inputs: Inputs) -> int | None:
    known = [gpu.free_bytes for gpu in inputs.gpus if gpu.free_bytes is not None]
    return min(known) if known and len(known) == len(inputs.gpus) else None


# --- the next prediction ---


def correct_inputs(
    inputs: Inputs, conditions: StartConditions, starts: Sequence[CapacityStart]
) -> Corrected:
    """The inputs with what the likest of these starts told, as far as it holds for them.

    Figures that cannot be (somebody wrote them, or the table of the GPU is another one) are left
    out, and so is a correction after which nothing would fit where something did before.
    """
    usable = [each for each in starts if not find_absurdity(each, inputs)]
    doubts: tuple[str, ...] = ()
    if len(usable) < len(starts):
        absurd = next(why for each in starts if (why := find_absurdity(each, inputs)))
        doubts = (f"an earlier start that is kept cannot be right, and is not used: {absurd}",)
    alike = [each for each in usable if each.conditions.loading == conditions.loading]
    if not alike:
        return Corrected(inputs=inputs, doubts=doubts or _tell_others(usable))
    best = max(alike, key=lambda each: (_likeness(each.conditions, conditions), each.at_seconds))
    corrected = _apply(inputs, conditions, best)
    if _is_worse(inputs, corrected.inputs):
        why = "with what an earlier start told nothing would fit, so it is not used"
        return Corrected(inputs=inputs, doubts=(*doubts, why))
    return replace(corrected, doubts=doubts)


def _likeness(one: StartConditions, other: StartConditions) -> tuple[bool, bool, bool]:
    return (one.work == other.work, one.pool == other.pool, one.driver == other.driver)


def _tell_others(starts: Sequence[CapacityStart]) -> tuple[str, ...]:
    if not starts:
        return ()
    text = (
        "earlier starts of this build and model loaded it in another way (other ranks, or another "
        "number format), so their figures do not hold here"
    )
    return (text,)


def _apply(inputs: Inputs, conditions: StartConditions, start: CapacityStart) -> Corrected:
    figures, carried = start.figures, []
    before, after = _carry_free(inputs, conditions, start)
    if before is not None or after is not None:
        carried.append("free memory")
    if figures.weight_bytes is not None:
        carried.append("weights")
    is_alike = start.conditions.work == conditions.work
    # A pool that its context sets has nothing to correct: what is left does not size it.
    is_sized = inputs.engine not in _SET_BY_CONTEXT
    missing = figures.missing_bytes if is_alike and is_sized else None
    parts = _carry_parts(figures) if is_alike else {}
    if missing is not None:
        carried.append("pool")
    carried += parts
    readings = replace(
        inputs.readings,
        free_before_bytes=before,
        free_after_bytes=after,
        weight_bytes=figures.weight_bytes,
        missing_bytes=missing,
    )
    if not carried:
        return Corrected(inputs=inputs)
    return Corrected(
        inputs=replace(inputs, readings=readings),
        parts=parts,
        by=Correction(
            deployment=start.deployment,
            at_seconds=start.at_seconds,
            missing_bytes=missing,
            told_tokens=figures.told_tokens if start.conditions.pool == conditions.pool else None,
            carried=tuple(carried),
        ),
    )


def _carry_parts(figures: StartFigures) -> dict[str, int]:
    return {name: size for name, size in figures.parts.items() if name in _MEASURED}


def _carry_free(
    inputs: Inputs, conditions: StartConditions, start: CapacityStart
) -> tuple[int | None, int | None]:
    """Free memory before and after the weights, moved by what other programs have by now."""
    figures = start.figures
    is_own = not any(gpu.is_shared_memory for gpu in inputs.gpus)
    if not is_own or start.conditions.driver != conditions.driver:
        return None, None
    now, then = _least_free(inputs), figures.gpu_free_bytes
    moved = now - then if now is not None and then is not None else 0
    if abs(moved) < _SAME_FREE_BYTES:
        moved = 0
    found = [figures.free_before_bytes, figures.free_after_bytes]
    before, after = (None if each is None else max(0, each + moved) for each in found)
    return before, after


def _is_worse(inputs: Inputs, corrected: Inputs) -> bool:
    return predict(corrected).kv_tokens is None and predict(inputs).kv_tokens is not None


def find_absurdity(start: CapacityStart, inputs: Inputs) -> str:
    """Why a start cannot have been so, empty where nothing speaks against it."""
    figures = start.figures
    if not _FIRST_SECONDS <= start.at_seconds <= _LAST_SECONDS:
        return "its time is none"
    sizes = [size for size in map(total_mib, inputs.gpus) if size is not None]
    most = int(max(sizes) * MIB) if sizes else _MOST_BYTES
    flat = asdict(figures)
    missing, tokens = flat.pop("missing_bytes"), flat.pop("told_tokens")
    known = [*flat.pop("parts").values(), *(each for each in flat.values() if each is not None)]
    if any(not 0 <= each <= most for each in known):
        return "it has more bytes than a GPU, or fewer than none"
    before, after = figures.free_before_bytes, figures.free_after_bytes
    if before is not None and after is not None and after > before:
        return "more was free after its weights than before"
    if missing is not None and abs(missing) > _MOST_SHARE * most:
        return "its pool was another by more than a quarter of the GPU"
    return "it told fewer tokens than none" if tokens is not None and tokens < 0 else ""


def correct_capacity(capacity: Capacity, corrected: Corrected) -> Capacity:
    """The answer for corrected inputs, with its correction named.

    Measured parts stand in place of what is usual of them, and what stays unused moves with them.
    """
    if corrected.by is None:
        return replace(capacity, unknown=(*capacity.unknown, *corrected.doubts))
    maps = tuple(_correct_map(each, corrected.parts) for each in capacity.maps)
    unknown = (*capacity.unknown, *corrected.doubts)
    return replace(capacity, maps=maps, unknown=unknown, corrected_by=corrected.by)


def _correct_map(memory: MemoryMap, measured: Mapping[str, int]) -> MemoryMap:
    if not any(part.part in measured for part in memory.parts):
        return memory
    parts, moved = [], 0.0
    for part in memory.parts:
        new = part
        if part.part in measured:
            size = spread(float(measured[part.part]), _REPEATED)
            moved += size.likely - (part.predicted_bytes.likely if part.predicted_bytes else 0.0)
            new = replace(part, predicted_bytes=size, reason="")
        parts.append(new)
    return replace(memory, parts=tuple(_move(part, moved) for part in parts))


def _move(part: MemoryPart, moved_bytes: float) -> MemoryPart:
    size = part.predicted_bytes
    if part.part != "unused" or size is None:
        return part
    low, likely, high = (
        max(0.0, each - moved_bytes) for each in (size.low, size.likely, size.high)
    )
    return replace(part, predicted_bytes=Span(low=low, likely=likely, high=high))
