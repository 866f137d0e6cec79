"""Uses what earlier starts found: a prediction for the same build, model and kind of GPU.

Called wherever a capacity is predicted; :mod:`stoker.commands.keep_start` writes them.
"""

from __future__ import annotations

from stoker.capacity.correction import Corrected, correct_inputs
from stoker.capacity.free_memory import total_mib
from stoker.capacity.inputs import Gpu, Inputs
from stoker.commands.capacity_inputs import Described
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.errors import HostError, StateError
from stoker.model.capacity_start import CapacityStarts
from stoker.state.capacity_starts import read_capacity_starts


def name_starts(resolved: Resolved, inputs: Inputs) -> CapacityStarts | None:
    """The document, without starts, that this deployment's starts belong to.

    None where the build or the model has no identity, so that nothing could be told apart.
    """
    if not inputs.release or not resolved.model:
        return None
    return CapacityStarts(
        engine=inputs.engine,
        release=inputs.release,
        model=resolved.model,
        gpus=tuple(sorted({_name_gpu(gpu) for gpu in inputs.gpus})),
    )


def correct_described(world: World, resolved: Resolved, described: Described) -> Corrected:
    """The inputs with what an earlier start told; as they are, with a sentence, where that cannot
    be read."""
    wanted = name_starts(resolved, described.inputs)
    if wanted is None:
        return Corrected(inputs=described.inputs)
    try:
        kept = read_capacity_starts(world.host, world.folders, wanted)
    except (HostError, StateError) as error:
        hint = f" ({error.hint})" if error.hint else ""
        doubt = f"what earlier starts found is not used: {error.summary}{hint}"
        return Corrected(inputs=described.inputs, doubts=(doubt,))
    return correct_inputs(described.inputs, described.conditions, kept.starts)


def _name_gpu(gpu: Gpu) -> str:
    size = total_mib(gpu)
    word = gpu.key or "unknown kind"
    return f"{word}, {'unknown size' if size is None else f'{size:.0f} MiB'}"
