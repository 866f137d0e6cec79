"""What an engine found, against what was predicted: kept for each build, it corrects the next.

Called by whoever keeps what a start told. A correction is in bytes, so it holds for other shares,
contexts and number formats of the same build and model.
"""

from __future__ import annotations

from stoker.model.capacity import Capacity

#: The parts of a GPU's memory that are sized from what is left.
_POOLS = ("kv_pool", "state_pool")


def find_missing_bytes(capacity: Capacity, resolved_pool_bytes: int) -> int | None:
    """How much less the pools of one GPU have than was predicted; below zero where they have more.

    ``resolved_pool_bytes`` are all pools together, as the engine told. None where nothing was
    predicted.
    """
    if capacity.kv_tokens is None or not capacity.maps:
        return None
    sizes = [part.predicted_bytes for part in capacity.maps[0].parts if part.part in _POOLS]
    known = [size.likely for size in sizes if size is not None]
    return int(sum(known)) - resolved_pool_bytes if known else None
