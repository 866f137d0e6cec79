"""What speaks against a prediction, and what makes it doubtful.

Called by :mod:`stoker.capacity.predict` before anything is computed. Sentences for a person; each
names the reading, or the change, that would settle it.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.capacity import processor
from stoker.capacity.drafting import has_unknown_draft
from stoker.capacity.fraction import default_share
from stoker.capacity.free_memory import find_row, total_mib
from stoker.capacity.inputs import Gpu, Inputs
from stoker.knowledge.capacity import MIB, load_sglang, load_vllm
from stoker.knowledge.versions import parse_version

_ENGINES = ("sglang", "vllm", "llamacpp")
#: Those whose arithmetic is another one in another release.
_BY_RELEASE = ("sglang", "vllm")
_ALIKE = 0.1
_MOST_LAYERS, _MOST_TOKENS = 4096, 1 << 36
#: More than any GPU has.
_MOST_BYTES = 1 << 50


def find_obstacles(inputs: Inputs) -> tuple[str, ...]:
    """Why no figure may be given."""
    return tuple(_list_obstacles(inputs))


def _list_obstacles(inputs: Inputs) -> Iterator[str]:
    if inputs.engine not in _ENGINES:
        yield f"how {inputs.engine or 'this engine'} sizes its memory is not described"
        return
    yield from _check_model(inputs)
    yield from _check_numbers(inputs)
    yield from _list_undescribed(inputs, refuses=True)
    if inputs.engine == "vllm" and inputs.shape.states and has_unknown_draft(inputs):
        yield (
            "how recurrent states and an unknown draft model share blocks is not described; the "
            "engine's log of one start would settle it"
        )
    if inputs.engine != "llamacpp":
        yield from _check_gpus(inputs)
        yield from _check_chosen_share(inputs)


def _check_chosen_share(inputs: Inputs) -> Iterator[str]:
    """Settings that leave nothing of a GPU by the engine's own rule for its share."""
    sizes = [size for size in map(total_mib, inputs.gpus) if size is not None]
    if inputs.engine != "sglang" or inputs.settings.memory_share is not None or not sizes:
        return
    if not 0 < min(sizes) < _MOST_BYTES / MIB:
        return
    share = default_share(inputs, min(sizes))
    if not 0 < share <= 1:
        yield (
            f"the share of the GPU that the engine chooses comes out at {share:.3f}: capture "
            "graphs for fewer requests, read prompts in smaller parts, or set the share"
        )


def _list_undescribed(inputs: Inputs, *, refuses: bool) -> Iterator[str]:
    readings = inputs.readings
    # What lies in the weights' place was seen where the free memory after them was read.
    is_seen = readings.free_after_bytes is not None or readings.pool_bytes is not None
    for each in inputs.settings.parts.undescribed:
        is_moot = (each.of_weights and is_seen) or (each.of_gpus and not inputs.gpus)
        if each.refuses is refuses and not is_moot:
            yield f"{each.says}; the engine's log of one start settles it"


def _check_model(inputs: Inputs) -> Iterator[str]:
    shape = inputs.shape
    if shape.unknown:
        yield f"{shape.unknown}; the engine's log of one start would settle it"
        return
    if not shape.attention and not shape.states:
        yield "the model's layers are not known: read its config.json"
    if not 0 < shape.layers <= _MOST_LAYERS:
        yield f"a model of {shape.layers} layers cannot be"
    rules = load_vllm().other_pools if inputs.engine == "vllm" else load_sglang().other_pools[0]
    if inputs.engine != "llamacpp" and shape.model_class in rules.classes:
        yield (
            f"the pools of {shape.model_class} are not described here; the engine's log of one "
            "start would settle it"
        )


def _check_numbers(inputs: Inputs) -> Iterator[str]:
    settings, ranks = inputs.settings, inputs.ranks
    share = settings.memory_share
    if share is not None and not 0 < share <= 1:
        yield f"a memory share of {share:g} cannot be: it lies between 0 and 1"
    counts = (ranks.tensor, ranks.pipeline, ranks.replicas, ranks.attention_groups, ranks.context)
    if min(counts) < 1:
        yield "a number of ranks below one cannot be"
    elif ranks.tensor % ranks.attention_groups:
        yield f"{ranks.tensor} ranks cannot form {ranks.attention_groups} groups of one size"
    elif ranks.pipeline > max(1, inputs.shape.layers):
        yield f"{inputs.shape.layers} layers cannot be divided into {ranks.pipeline} stages"
    context = settings.context_tokens
    if context is not None and not 0 < context < _MOST_TOKENS:
        yield f"a context of {context} tokens cannot be"


def _check_gpus(inputs: Inputs) -> Iterator[str]:
    ranks, gpus = inputs.ranks, inputs.gpus
    if inputs.processor is not None:
        yield from processor.find_obstacles(inputs)
        return
    if not gpus:
        yield "there are no GPUs, and this engine keeps its cache on them"
        return
    if any(gpu.total_bytes is not None and not 0 < gpu.total_bytes < _MOST_BYTES for gpu in gpus):
        yield "a GPU's memory is told as a size that cannot be: read it again"
        return
    needed = ranks.on_host or ranks.tensor * ranks.pipeline * ranks.replicas
    if len(gpus) < needed:
        yield f"the ranks need {needed} GPUs and there are {len(gpus)}"
    has_reading = inputs.readings.free_before_bytes is not None
    if any(gpu.is_slice for gpu in gpus) and not has_reading:
        yield (
            "a GPU is a MIG slice, whose free memory no table knows: the line of free memory in "
            "the engine's log of one start settles it"
        )


def find_doubts(inputs: Inputs) -> tuple[str, ...]:
    """What a reader must know of the figures that are given."""
    return tuple(_list_doubts(inputs))


def _list_doubts(inputs: Inputs) -> Iterator[str]:
    yield from _list_undescribed(inputs, refuses=False)
    if inputs.engine == "llamacpp":
        return
    if _are_mixed(inputs.gpus):
        yield "the GPUs are of different sizes: the smallest decides for all"
    if any(gpu.is_shared_memory for gpu in inputs.gpus):
        yield (
            "the GPU shares the machine's memory, so what is free moves with all other programs; "
            "a log of one start settles it"
        )
    readings = inputs.readings
    if readings.weight_bytes is None and inputs.weight_bytes is None:
        yield "the weights are estimated from the config: their headers settle them"
    is_seen = any(gpu.free_bytes is not None for gpu in inputs.gpus)
    if readings.free_before_bytes is None and inputs.gpus and not is_seen:
        yield "the free memory of the GPUs is from a table: reading it settles it"
    if is_unknown_release(inputs):
        yield (
            "the engine's release is not known: the newest rules were taken, and the bounds of the "
            "tokens are those of all releases"
        )
    if has_unknown_draft(inputs):
        yield "the layers of the model that drafts tokens are not known: read its config.json"


def is_unknown_release(inputs: Inputs) -> bool:
    """Whether the rules of several releases come into question."""
    return inputs.engine in _BY_RELEASE and parse_version(inputs.release) is None


def _are_mixed(gpus: tuple[Gpu, ...]) -> bool:
    if len({gpu.key for gpu in gpus}) > 1:
        return True
    rows = [find_row(gpu) for gpu in gpus]
    sizes = [
        gpu.total_bytes or (row.total_mib << 20 if row is not None else 0)
        for gpu, row in zip(gpus, rows, strict=True)
    ]
    return bool(sizes) and min(sizes) < (1 - _ALIKE) * max(sizes)
