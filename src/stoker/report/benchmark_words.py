"""What texts, exports and pictures of benchmarks share: finding figures, and short words for them.

Pure; called by the other modules named ``benchmark_…`` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.model.benchmark import Arrival, Benchmark, Figure, Load, Objectives, Point
from stoker.model.visible import visible

#: Names of figures, as the field has them.
TTFT, TPOT, ITL, E2E = "ttft", "tpot", "itl", "e2e"
OUTPUT, INPUT, TOTAL = "output_throughput", "input_throughput", "total_throughput"
REQUESTS, GOODPUT, GOOD_SHARE = "request_throughput", "goodput", "goodput_share"
#: In place of tokens, where the server does not tell them.
EVENTS = "events_throughput"
#: What the usage of the answers says of them, in the words of a table.
SIZES: Mapping[str, str] = {
    "prompt_tokens": "tokens of a prompt, in the mean",
    "output_tokens": "tokens of an answer, in the mean",
    "cached_share": "prompt tokens from the cache, by usage",
    "tokens_per_event": "tokens of one event",
}

_DECIMALS = ((100.0, 0), (10.0, 1), (0.0, 2))
_LIMITS = (
    ("ttft_ms", "TTFT"),
    ("tpot_ms", "TPOT"),
    ("itl_p99_ms", "ITL P99"),
    ("e2e_ms", "E2E"),
)
_SERVER_WORDS: Mapping[str, str] = {
    "cache_hit_share": "prompt tokens from the cache",
    "acceptance_length": "tokens for each step (acceptance length)",
    "queued_requests": "requests in the queue",
    "running_requests": "requests at work",
    "kv_used_share": "cache in use",
    "preemptions": "requests put back",
}
_MOST = "_most"


def find_figure(point: Point, name: str) -> Figure | None:
    """The figure of this name; None where it was not measured, or where the client was starved
    and the figures are its own."""
    if point.health.complaints:
        return None
    return point.find(name)


def find_mean(point: Point, name: str) -> float | None:
    """The mean of a latency, or a rate itself."""
    figure = find_figure(point, name)
    return None if figure is None else figure.mean


def find_percentile(point: Point, name: str, percentile: str) -> float | None:
    """A percentile ("50", "99") of a latency, in milliseconds."""
    figure = find_figure(point, name)
    return None if figure is None else figure.percentiles.get(percentile)


def half_width(interval: tuple[float, float] | None) -> float | None:
    """How far an interval reaches to either side, for the sign ±."""
    return None if interval is None else (interval[1] - interval[0]) / 2


def interval_of(figure: Figure, percentile: str = "") -> tuple[float, float] | None:
    """The 95 % confidence interval of a percentile, of the mean where none is named."""
    if percentile:
        return figure.intervals.get(percentile)
    if figure.low is None or figure.high is None:
        return None
    return figure.low, figure.high


def is_open(point: Point) -> bool:
    """Whether requests came at a rate instead of one after the other."""
    return point.load.arrival is not Arrival.CLOSED


def load_level(point: Point) -> float:
    """How hard the server was worked, as a number: requests at once, or requests a second."""
    load = point.load
    if load.arrival is Arrival.CLOSED:
        return float(load.concurrency)
    return load.speed if load.arrival is Arrival.REPLAY else load.rate_per_second


def describe_level(benchmark: Benchmark) -> str:
    """What the numbers of :func:`load_level` are, for the head of a column or an axis."""
    arrivals = {point.load.arrival for point in benchmark.points}
    if arrivals <= {Arrival.CLOSED}:
        return "concurrency"
    if arrivals == {Arrival.REPLAY}:
        return "speed of the trace"
    return "load" if Arrival.CLOSED in arrivals else "requests/s sent"


def describe_load(load: Load) -> str:
    """A load in a few words: ``concurrency 8``, ``4 requests/s (poisson)``."""
    most = f", at most {load.concurrency:,} at once" if load.concurrency else ""
    if load.arrival is Arrival.CLOSED:
        return f"concurrency {load.concurrency:,}"
    if load.arrival is Arrival.REPLAY:
        return f"the trace at {load.speed:g} times its speed{most}"
    return f"{load.rate_per_second:g} requests/s ({load.arrival.value}{most})"


def describe_objectives(objectives: Objectives) -> str:
    """The objectives of a request; empty where there are none."""
    told = ((word, getattr(objectives, name)) for name, word in _LIMITS)
    return ", ".join(f"{word} <= {limit:g} ms" for word, limit in told if limit is not None)


def describe_served(benchmark: Benchmark) -> str:
    """The server in a few words, its engine and its release where they are known."""
    served = benchmark.served
    engine = f"{served.engine} {served.release}".strip() or "an engine that is not known"
    name = f"{served.name}: " if served.name else ""
    return visible(f"{name}{engine}, {served.model}")


def describe_server_metric(meaning: str) -> str:
    """A metric of a server in words for a person."""
    root = meaning.removesuffix(_MOST)
    word = _SERVER_WORDS.get(root, visible(root.replace("_", " ")))
    return f"{word}, most" if root != meaning else word


def format_server_metric(meaning: str, value: float) -> str:
    """Its value: a share as a percentage."""
    if meaning.removesuffix(_MOST).endswith("_share"):
        return f"{100 * value:.1f} %"
    return format_number(value)


def server_meanings(points: Iterable[Point]) -> tuple[str, ...]:
    """The meanings that any of the points has: the known ones first, in their order."""
    found = {meaning for point in points for meaning in point.server}
    known = [name for root in _SERVER_WORDS for name in (root, root + _MOST) if name in found]
    return (*known, *sorted(found - set(known)))


def format_number(value: float) -> str:
    """Three digits that count, at least: ``1.23``, ``12.3``, ``1,234``."""
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:,.{_decimals(value)}f}"


def format_spread(spread: float, value: float) -> str:
    """How far from a value, as exactly as the value is written, or in one digit if that is 0."""
    decimals = _decimals(value)
    return f"{spread:,.{decimals}f}" if round(spread, decimals) else f"{spread:.1g}"


def _decimals(value: float) -> int:
    return next(count for least, count in _DECIMALS if abs(value) >= least)


def format_level(value: float) -> str:
    """A concurrency or a rate without needless decimals: ``8``, ``0.5``, ``1,024``."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,g}"
