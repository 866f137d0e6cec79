"""Waiting for something to become true, through the port's clock.

Called by the adapters of this package, whose managers answer before they have finished.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.ports import Clock

#: Short beside anything that is waited for, long beside one question.
_POLL_SECONDS = 0.05


def wait_for(is_done: Callable[[], bool], *, clock: Clock, seconds: float) -> bool:
    """Whether it became true in time. It is asked at least once, and last at the deadline."""
    deadline = clock.monotonic_seconds() + seconds
    while not is_done():
        if clock.monotonic_seconds() >= deadline:
            return False
        clock.sleep(_POLL_SECONDS)
    return True
