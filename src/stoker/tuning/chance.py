"""What a search asks of chance. The caller hands it in, so that the search itself stays pure."""

from __future__ import annotations

from typing import Protocol


class Chance(Protocol):
    """A source of random numbers; ``random.Random`` is one.

    The same trials give the same step only where the caller makes it anew for each step, seeded
    with the campaign's seed and the number of trials.
    """

    def random(self) -> float:
        """A number from 0 up to but without 1."""
        ...
