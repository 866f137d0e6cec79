"""What a GPU has before the weights are loaded.

Called by the arithmetic of each engine. A reading goes before the table, and the table before the
size that the driver prints; the interval says which it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.capacity.inputs import Gpu, Inputs
from stoker.capacity.intervals import about, at_least, exact, subtract
from stoker.knowledge.capacity import GIB, MIB, ContextRow, GpuRow, load_contexts, load_gpu_rows
from stoker.model.capacity import Span

#: Of what the driver prints, torch sees at least and at most so much, where the GPU is not known.
_VISIBLE_SHARES = (0.955, 0.975, 0.995)
_ALIKE = 0.1
#: A tenth more or less than what is usual of a machine that shares its memory.
_SHARED_SPREAD = 0.03


def find_row(gpu: Gpu) -> GpuRow | None:
    """The row of the table for a GPU, by its key and its size."""
    for row in load_gpu_rows():
        if row.key != gpu.key:
            continue
        if gpu.total_bytes is None or abs(gpu.total_bytes / MIB / row.total_mib - 1) < _ALIKE:
            return row
    return None


def find_row_by_word(word: str) -> GpuRow | None:
    """The row that a collection of cases means."""
    wanted = word.strip().lower()
    rows = load_gpu_rows()
    return next((row for row in rows if wanted in {each.lower() for each in row.words}), None)


def total_mib(gpu: Gpu) -> float | None:
    """What the driver prints of it, in MiB; None where nobody knows."""
    row = find_row(gpu)
    if row is not None:
        return float(row.total_mib)
    return gpu.total_bytes / MIB if gpu.total_bytes is not None else None


def visible_bytes(gpu: Gpu) -> Span | None:
    """What torch can use of it at most."""
    row = find_row(gpu)
    if row is not None:
        return about(row.visible_gib * GIB, less=0.2 * GIB, more=0.2 * GIB)
    if gpu.total_bytes is None:
        return None
    low, likely, high = (share * gpu.total_bytes for share in _VISIBLE_SHARES)
    return Span(low=low, likely=likely, high=high)


def free_before_bytes(inputs: Inputs) -> Span | None:
    """Free memory of the fullest GPU when the weights begin to be loaded; None: nobody knows."""
    if inputs.readings.free_before_bytes is not None:
        return exact(inputs.readings.free_before_bytes)
    gone = context_bytes(inputs)
    spans = [_usable(gpu) for gpu in inputs.gpus]
    if not spans or any(span is None for span in spans):
        return None
    known = [span for span in spans if span is not None]
    if any(gpu.is_shared_memory for gpu in inputs.gpus):
        return at_least(min(known, key=lambda span: span.likely))
    return at_least(subtract(min(known, key=lambda span: span.likely), gone))


def context_bytes(inputs: Inputs) -> Span:
    """What the driver, torch and the buffers for talking between GPUs take."""
    rows = load_contexts()
    row = next(row for row in rows if _fits(row, inputs))
    return Span(low=row.low_mib * MIB, likely=row.likely_mib * MIB, high=row.high_mib * MIB)


def _usable(gpu: Gpu) -> Span | None:
    visible = visible_bytes(gpu)
    row = find_row(gpu)
    if row is not None and row.shared:
        likely = row.visible_gib * GIB
        return about(likely, less=_SHARED_SPREAD * likely, more=_SHARED_SPREAD * likely)
    if visible is None or gpu.free_bytes is None or gpu.total_bytes is None:
        return visible
    used = max(0, gpu.total_bytes - gpu.free_bytes)
    # An idle driver's own part is counted among what torch cannot see.
    others = max(0.0, used - max(0.0, gpu.total_bytes - visible.likely))
    return subtract(visible, exact(others))


def _fits(row: ContextRow, inputs: Inputs) -> bool:
    ranks = inputs.ranks.tensor * max(1, inputs.ranks.pipeline)
    in_range = row.ranks[0] <= ranks <= row.ranks[1]
    is_alike = row.fabric in (None, _has_fabric(inputs.gpus))
    return row.engine in ("", inputs.engine) and in_range and is_alike


def _has_fabric(gpus: Sequence[Gpu]) -> bool:
    rows = [find_row(gpu) for gpu in gpus]
    return bool(rows) and all(row is not None and row.fabric for row in rows)
