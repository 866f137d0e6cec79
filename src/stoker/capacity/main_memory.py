"""Without GPUs the weights, the cache and the work of a step lie in the machine's own memory.

Called by the commands, after a prediction: the map of the host then has these parts too.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import at_least, exact, subtract
from stoker.capacity.llamacpp import step_bytes
from stoker.capacity.pool import Refusal
from stoker.capacity.predict import predict_pool
from stoker.model.capacity import Capacity, MemoryMap, MemoryPart, Span

_TITLES = {
    "weights": "weights of the model",
    "kv_pool": "keys and values of tokens",
    "state_pool": "recurrent states of requests",
    "workspace": "what a step needs",
}


def add_main_memory(capacity: Capacity, inputs: Inputs) -> Capacity:
    """The same with those parts in the host's map; as it is where there are GPUs, or no map."""
    found = predict_pool(inputs) if capacity.kv_tokens is not None and not inputs.gpus else None
    if found is None or isinstance(found, Refusal):
        return capacity
    pool = found[1]
    sizes = {
        "weights": None if inputs.weight_bytes is None else exact(float(inputs.weight_bytes)),
        "kv_pool": pool.pool_bytes,
        "state_pool": pool.state_bytes,
        "workspace": step_bytes(inputs) if inputs.engine == "llamacpp" else None,
    }
    known = {part: size for part, size in sizes.items() if size is not None}
    maps = tuple(_add(each, known, inputs) for each in capacity.maps)
    return replace(capacity, maps=maps)


def _add(memory: MemoryMap, sizes: dict[str, Span], inputs: Inputs) -> MemoryMap:
    if memory.rank is not None:
        return memory
    told = dict(inputs.readings.resolved_parts)
    parts = tuple(
        MemoryPart(
            part=part,
            title=_TITLES[part],
            predicted_bytes=size,
            resolved_bytes=told.get(part),
        )
        for part, size in sizes.items()
    )
    rest = (_shrink(part, sizes) for part in memory.parts)
    return replace(memory, parts=(*parts, *rest))


def _shrink(part: MemoryPart, sizes: dict[str, Span]) -> MemoryPart:
    size = part.predicted_bytes
    if part.part != "unused" or size is None:
        return part
    left = at_least(subtract(size, *sizes.values()))
    return replace(part, predicted_bytes=left, resolved_bytes=None)
