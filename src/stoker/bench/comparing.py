"""Whether one measured server is faster than another, slower, or not distinguishable.

Called by the command layer. Pure. What repeats is a slice of the window and not a request, since
requests of one run depend on each other: Welch's test on the logarithms of the slices' values gives
a ratio with its interval, and slices that resemble the one before count for less. Holm's steps keep
all verdicts of one comparison together at 5 % of false ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.bench.statistics import LEAST_BATCHES, LEVEL, contrast, hold_together
from stoker.model.benchmark import Benchmark, Figure, Load, Objectives, Point
from stoker.model.benchmark_comparison import (
    BenchmarkComparison,
    BenchmarkVerdict,
    FigureComparison,
    SettingDifference,
)
from stoker.model.facts import Plain

#: The figures that are compared, and which other stands in where one is unknown.
_RATES = (("output_throughput", "request_throughput"), ("goodput", ""))
_LATENCIES = (("ttft", ""), ("tpot", "itl"), ("e2e", ""))
#: By how much (standard deviation of the logarithm) two runs of an unchanged server are taken to
#: differ beyond what their slices show: clocks, placement of memory, neighbours. An assumption, on
#: the small side of what is seen; whoever has repeats of one server hands in what they show.
RUN_SPREAD = 0.005
#: Lengths that differ by less do not move a rate or a latency by more than it can be measured.
_SAME_LENGTH = 0.02
_STANDARD_ERRORS = 3.0
_TOO_SHORT = (
    f"Fewer than {LEAST_BATCHES} slices were measured on one side, too few to tell: measure for "
    "ten times as long as a request takes."
)

_LoadKey = tuple[str, int, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A figure that both have at a load. ``obstacle``: why it says nothing."""

    load: Load
    a: Figure
    b: Figure
    is_rate: bool
    obstacle: str = ""


def compare(a: Benchmark, b: Benchmark, *, run_spread: float = RUN_SPREAD) -> BenchmarkComparison:
    """How ``b`` does against ``a`` at every load that both have.

    ``run_spread``: the standard deviation of the logarithm of a figure over runs of an unchanged
    server, beyond what the slices of one run show.
    """
    obstacles = tuple(_find_obstacles(a, b))
    points_a, points_b = _by_load(a), _by_load(b)
    shared = [key for key in points_a if key in points_b]
    pairs = [
        replace(pair, obstacle=obstacles[0] if obstacles else pair.obstacle)
        for key in shared
        for pair in _pair_up((a, points_a[key]), (b, points_b[key]))
    ]
    return BenchmarkComparison(
        a=a.id,
        b=b.id,
        figures=_judge(pairs, run_spread),
        settings=tuple(_find_settings(a, b)),
        obstacles=obstacles,
        only_a=tuple(point.load for key, point in points_a.items() if key not in points_b),
        only_b=tuple(point.load for key, point in points_b.items() if key not in points_a),
        notes=tuple(_make_notes(a, b, is_anything_shared=bool(shared))),
    )


# --- verdicts ---


def _judge(pairs: Sequence[_Pair], run_spread: float) -> tuple[FigureComparison, ...]:
    found = [_contrast_figures(pair, run_spread) for pair in pairs]
    # What has no verdict takes no part in the number of verdicts that are held together.
    tried = [
        index
        for index, pair in enumerate(pairs)
        if not pair.obstacle and found[index].chance is not None
    ]
    raised = hold_together([found[index].chance or 0.0 for index in tried])
    for index, chance in zip(tried, raised, strict=True):
        verdict = BenchmarkVerdict.INDISTINCT
        if chance < 1 - LEVEL:
            is_more = _is_more(found[index])
            is_faster = is_more == pairs[index].is_rate
            verdict = BenchmarkVerdict.FASTER if is_faster else BenchmarkVerdict.SLOWER
        found[index] = replace(found[index], chance=chance, verdict=verdict)
    return tuple(found)


def _is_more(figure: FigureComparison) -> bool:
    return figure.b > figure.a if figure.ratio is None else figure.ratio > 1


def _contrast_figures(pair: _Pair, run_spread: float) -> FigureComparison:
    a, b = pair.a, pair.b
    bare = FigureComparison(
        load=pair.load, name=a.name, unit=a.unit, a=a.mean, b=b.mean, note=pair.obstacle
    )
    if pair.obstacle:
        bare = replace(bare, verdict=BenchmarkVerdict.INCOMPARABLE)
    if min(len(a.batches), len(b.batches)) < LEAST_BATCHES:
        return bare if bare.note else replace(bare, note=_TOO_SHORT)
    if min(*a.batches, *b.batches) > 0:
        return _contrast_ratios(bare, (a, b), run_spread)
    return _contrast_plainly(bare, (a, b), run_spread)


def _contrast_ratios(
    bare: FigureComparison, sides: tuple[Figure, Figure], run_spread: float
) -> FigureComparison:
    a, b = ([math.log(value) for value in side.batches] for side in sides)
    found = contrast(a, b, run_spread**2)
    if found is None:
        return bare
    return replace(
        bare,
        ratio=_exp(found.difference),
        low=_exp(found.low),
        high=_exp(found.high),
        effect=found.effect,
        chance=found.chance,
    )


def _contrast_plainly(
    bare: FigureComparison, sides: tuple[Figure, Figure], run_spread: float
) -> FigureComparison:
    """The same without logarithms, for a rate that was 0 in a slice; the interval takes a's mean
    as known, and without one there is no ratio."""
    largest = max(*sides[0].batches, *sides[1].batches)
    found = contrast(sides[0].batches, sides[1].batches, (run_spread * largest) ** 2)
    if found is None:
        return bare
    bare = replace(bare, effect=found.effect, chance=found.chance)
    if bare.a <= 0:
        return bare
    return replace(
        bare,
        ratio=max(1 + found.difference / bare.a, 0.0),
        low=max(1 + found.low / bare.a, 0.0),
        high=max(1 + found.high / bare.a, 0.0),
    )


def _exp(value: float) -> float:
    """The power of e, kept within what a document can hold."""
    return math.exp(min(value, 700.0))


# --- what is compared ---


def _by_load(benchmark: Benchmark) -> dict[_LoadKey, Point]:
    """The points by what makes a load the same; how long it lasted does not. Of several at one
    load the last stands for it."""
    return {_find_key(point.load): point for point in benchmark.points}


def _find_key(load: Load) -> _LoadKey:
    return load.arrival.value, load.concurrency, load.rate_per_second, load.speed


def _pair_up(side_a: tuple[Benchmark, Point], side_b: tuple[Benchmark, Point]) -> Iterable[_Pair]:
    (a, point_a), (b, point_b) = side_a, side_b
    obstacle = _find_point_obstacle(point_a, point_b)
    for is_rate, names in ((True, _RATES), (False, _LATENCIES)):
        for name, stand_in in names:
            both = _find_both(point_a, point_b, name) or _find_both(point_a, point_b, stand_in)
            if both is None:
                continue
            why = obstacle
            if name == "goodput" and a.objectives != b.objectives:
                why = why or "The objectives differ: " + _list_differences(
                    a.objectives, b.objectives
                )
            yield _Pair(load=point_a.load, a=both[0], b=both[1], is_rate=is_rate, obstacle=why)


def _find_both(a: Point, b: Point, name: str) -> tuple[Figure, Figure] | None:
    figures = a.find(name), b.find(name)
    if figures[0] is None or figures[1] is None:
        return None
    return figures[0], figures[1]


def _list_differences(a: Objectives, b: Objectives) -> str:
    names = ("ttft_ms", "tpot_ms", "itl_p99_ms", "e2e_ms")
    pairs = [(name, getattr(a, name), getattr(b, name)) for name in names]
    different = [f"{name} {left} and {right}" for name, left, right in pairs if left != right]
    return ", ".join(different) + "."


def _find_point_obstacle(a: Point, b: Point) -> str:
    """Why this load says nothing, empty where it does."""
    for side, point in (("first", a), ("second", b)):
        if point.health.complaints:
            return f"The client of the {side} did not keep up. {point.health.complaints[0]}"
    for name, what in (("prompt_tokens", "Prompts"), ("output_tokens", "Answers")):
        both = _find_both(a, b, name)
        if both and _differ_in_length(*both):
            return (
                f"{what} were not equally long: {both[0].mean:.1f} and {both[1].mean:.1f} tokens "
                "on average, on which rates and latencies depend."
            )
    return ""


def _differ_in_length(a: Figure, b: Figure) -> bool:
    """Whether the means differ by more than matters and by more than chance would have it, since a
    faster server answers more of the same requests in the same time."""
    error = math.hypot(
        a.deviation / math.sqrt(max(a.count, 1)), b.deviation / math.sqrt(max(b.count, 1))
    )
    least = max(_SAME_LENGTH * max(a.mean, b.mean), _STANDARD_ERRORS * error)
    return abs(a.mean - b.mean) > least


def _find_obstacles(a: Benchmark, b: Benchmark) -> Iterable[str]:
    for side, benchmark in (("first", a), ("second", b)):
        if not benchmark.served.verified:
            yield (
                f"The server of the {side} was not verified: one that answers wrongly may be fast. "
                "Measure it again without --unverified."
            )
    if a.workload != b.workload:
        names = a.workload.name, b.workload.name
        yield (
            f"The workloads differ: {names[0]} and {names[1]}."
            if names[0] != names[1]
            else f"The workload {names[0]} was changed between the two."
        )
    elif a.seed != b.seed:
        yield f"The requests were made from different seeds: {a.seed} and {b.seed}."


def _find_settings(a: Benchmark, b: Benchmark) -> Iterable[SettingDifference]:
    for name in ("model", "engine", "release"):
        left, right = getattr(a.served, name), getattr(b.served, name)
        if left != right:
            yield SettingDifference(name=name, a=left or None, b=right or None)
    settings_a, settings_b = a.served.settings, b.served.settings
    for name in sorted({*settings_a, *settings_b}):
        if not _is_same(settings_a, settings_b, name):
            yield SettingDifference(name=name, a=settings_a.get(name), b=settings_b.get(name))


def _is_same(a: Mapping[str, Plain], b: Mapping[str, Plain], name: str) -> bool:
    return name in a and name in b and a[name] == b[name] and type(a[name]) is type(b[name])


def _make_notes(a: Benchmark, b: Benchmark, *, is_anything_shared: bool) -> Iterable[str]:
    if not is_anything_shared:
        yield "They have no load in common, so nothing can be compared."
        return
    yield (
        "Intervals hold for each figure alone; verdicts hold together, so one at the edge of its "
        "interval may be left without."
    )
    if a.served.digest and a.served.digest == b.served.digest:
        yield "Both measured the very same launch."
    if a.client != b.client:
        yield f"They were measured by different clients: {a.client} and {b.client}."
