"""Two benchmarks side by side: which is faster, by how much, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from stoker.model.benchmark import Load
from stoker.model.facts import Plain


class BenchmarkVerdict(StrEnum):
    """What a figure says of the second server against the first.

    ``INCOMPARABLE``: what was measured is not the same thing, or one side is no result.
    """

    FASTER = "faster"
    SLOWER = "slower"
    INDISTINCT = "not distinguishable"
    INCOMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureComparison:
    """One figure at one load. ``a`` and ``b``: the figure's means, in ``unit``.

    ``ratio``: b for each of a, with a 95 % interval of its own; None where too little was measured.
    ``effect``: the difference in standard deviations of a slice of the window, positive where b's
    figure is larger; None where nothing varied. ``chance``: how often equal servers would differ as
    much, raised for the number of figures that were looked at. ``note``: why there is no verdict.
    """

    load: Load
    name: str
    unit: str
    a: float
    b: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    chance: float | None = None
    verdict: BenchmarkVerdict = BenchmarkVerdict.INDISTINCT
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting that two measured servers do not share; None where one does not have it."""

    name: str
    a: Plain
    b: Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkComparison:
    """Benchmark ``b`` against benchmark ``a``, by their ids.

    ``obstacles``: why they cannot be compared at all; those of a single load stand in its figures.
    ``settings``: what differs between the two servers. ``only_a``, ``only_b``: loads that one has
    alone. ``notes``: sentences on how to read it.
    """

    SCHEMA: ClassVar[str] = "benchmark-comparison/1"

    a: str
    b: str
    figures: tuple[FigureComparison, ...] = ()
    settings: tuple[SettingDifference, ...] = ()
    obstacles: tuple[str, ...] = ()
    only_a: tuple[Load, ...] = ()
    only_b: tuple[Load, ...] = ()
    notes: tuple[str, ...] = ()
