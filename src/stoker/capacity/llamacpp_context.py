"""How llama.cpp's server divides its context among the requests that it serves at the same time.

Called by that engine's arithmetic, and by whoever tells how long one request may be. Whole cells,
padded as the engine pads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.capacity.inputs import Inputs
from stoker.knowledge.capacity import load_llamacpp
from stoker.knowledge.llamacpp_layers import load_llamacpp_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``streams`` caches of ``cells`` each for so many ``sequences``; one that all share is one.

    ``step_tokens`` of a physical batch. ``is_chosen``: the engine takes the longest context that
    the model was made for, and less where that does not fit into free memory.
    """

    cells: int
    streams: int
    sequences: int
    step_tokens: int
    slot_tokens: int
    is_chosen: bool

    @property
    def tokens(self) -> int:
        """Of all caches together."""
        return self.cells * self.streams


def divide_context(inputs: Inputs) -> Context | None:
    """None where neither the deployment nor the model gives a context."""
    llama = inputs.settings.parts.llama
    usual = load_llamacpp_layers().served
    # Without a number of requests the server takes its own, and lets them share one cache.
    is_unified = llama.is_unified or llama.sequences is None
    sequences = max(1, llama.sequences or usual.sequences)
    streams = 1 if is_unified else sequences
    trained = inputs.shape.context_tokens
    wanted = inputs.settings.context_tokens or (trained or 0) * streams
    if not wanted:
        return None
    cells = pad(pad(wanted) // streams)
    batch = min(wanted, inputs.settings.parts.batch.batch_tokens or usual.batch_tokens)
    return Context(
        cells=cells,
        streams=streams,
        sequences=sequences,
        step_tokens=min(batch, llama.micro_batch_tokens),
        slot_tokens=min(cells, trained or cells),
        is_chosen=inputs.settings.context_tokens is None,
    )


def pad(cells: int) -> int:
    """The next whole number of blocks of cells."""
    padding = load_llamacpp().cache.padding_tokens
    return -(-cells // padding) * padding
