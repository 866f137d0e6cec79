"""Reading the figures that a server tells of itself in Prometheus' text format.

The guard reads its counters with it and the checks their gauges. Pure and total: a line that is
none is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

#: A line of the format, as far as a finite value that is not negative stands in it.
_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})?"
    r"[ \t]+(?P<value>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?!\S)",
    re.MULTILINE,
)


def sum_counters(text: str, names: Sequence[str]) -> float | None:
    """The sum of all series of these names (counters or gauges); None if there are none, and where
    it is more than any figure can be."""
    values = [float(each["value"]) for each in _SAMPLE.finditer(text) if each["name"] in names]
    whole = sum(value for value in values if math.isfinite(value))
    return whole if values and math.isfinite(whole) else None
