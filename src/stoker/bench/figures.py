"""The metrics of a measured load, by the field's definitions.

Called by :mod:`stoker.bench.measuring`, which chooses the requests. Pure. Rates count every request
that was under way in the window, by its shares; latencies are those of whole requests. The mean's
interval is made from slices of the window, since requests of one run depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean

from stoker.bench.statistics import (
    Distribution,
    distribute,
    find_deviation,
    find_mean,
    find_mean_interval,
    find_percentile,
    find_percentile_interval,
)
from stoker.bench.windows import Span, find_end
from stoker.model.benchmark import Figure, Objectives, Sample

_PERCENTS = (50, 90, 95, 99)
#: Gaps are kept in whole microseconds, so a window that is shorter has no rate.
_SHORTEST_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A request that was under way in the window. ``share``: how much of its tokens lies in the
    window, ``slices``: how much of its time in each slice. Tokens are None where unknown."""

    sample: Sample
    share: float
    slices: tuple[float, ...]
    prompt: float | None
    output: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What figures are made from. ``edges`` of the slices; ``whole``: the requests of which the
    latencies are; ``failed``: how many failed in the window."""

    span: Span
    edges: tuple[float, ...]
    whole: tuple[Sample, ...]
    counted: tuple[Counted, ...]
    failed: int = 0


def make_figures(measured: Measured, objectives: Objectives) -> tuple[Figure, ...]:
    """All metrics that this load has; what could not be measured is left out."""
    found = (
        *_make_rates(measured),
        *_make_goodput(measured, objectives),
        *_make_latencies(measured),
        *_make_sizes(measured),
    )
    return tuple(figure for figure in found if figure is not None)


# --- rates ---


def _make_rates(measured: Measured) -> Iterable[Figure | None]:
    output = _make_rate(measured, "output_throughput", lambda counted: counted.output)
    yield output
    yield _make_rate(measured, "input_throughput", lambda counted: counted.prompt)
    yield _make_rate(measured, "total_throughput", _find_total)
    if output is None:
        events = _make_rate(measured, "events_throughput", lambda each: count_events(each.sample))
        yield events and replace(events, unit="events/s")
    requests = _make_rate(measured, "request_throughput", lambda counted: 1.0)
    yield requests and replace(requests, unit="requests/s")


def _find_total(counted: Counted) -> float | None:
    if counted.prompt is None or counted.output is None:
        return None
    return counted.prompt + counted.output


def count_events(sample: Sample) -> int:
    """The events that carried content."""
    return 0 if sample.first_seconds is None else len(sample.gaps_us) + 1


def _make_rate(
    measured: Measured, name: str, weigh: Callable[[Counted], float | None]
) -> Figure | None:
    """So much of something a second; None where one request does not tell it."""
    weights = [weigh(counted) for counted in measured.counted]
    known = [weight for weight in weights if weight is not None]
    if measured.span.seconds < _SHORTEST_SECONDS or not known or len(known) < len(weights):
        return None
    pairs = list(zip(known, measured.counted, strict=True))
    mean = sum(weight * counted.share for weight, counted in pairs) / measured.span.seconds
    sums = [0.0] * max(len(measured.edges) - 1, 0)
    for weight, counted in pairs:
        for index, share in enumerate(counted.slices):
            sums[index] += weight * share
    each_seconds = measured.edges[1] - measured.edges[0] if sums else 1.0
    figure = Figure(name=name, unit="tokens/s", count=len(measured.whole), mean=mean)
    return _with_batches(figure, [part / each_seconds for part in sums])


def _with_batches(figure: Figure, batches: Sequence[float]) -> Figure:
    interval = find_mean_interval(batches)
    if interval is None:
        return replace(figure, batches=tuple(batches))
    half = (interval[1] - interval[0]) / 2
    return replace(
        figure,
        # No metric is below 0, so no interval has to reach below it.
        low=max(figure.mean - half, 0.0),
        high=figure.mean + half,
        batches=tuple(batches),
    )


# --- goodput ---


def _make_goodput(measured: Measured, objectives: Objectives) -> Iterable[Figure | None]:
    if objectives == Objectives():
        return
    verdicts = {id(each.sample): keeps(each.sample, objectives) for each in measured.counted}
    if None in verdicts.values():
        return
    rate = _make_rate(measured, "goodput", lambda each: float(bool(verdicts[id(each.sample)])))
    yield rate and replace(rate, unit="requests/s")
    count = len(measured.whole) + measured.failed
    if count:
        kept = sum(bool(keeps(sample, objectives)) for sample in measured.whole)
        yield Figure(name="goodput_share", unit="share", count=count, mean=kept / count)


def keeps(sample: Sample, objectives: Objectives) -> bool | None:
    """Whether a request keeps all objectives; None where an objective is about tokens and the
    server told none. A request that failed keeps nothing; one without a second token has no TPOT
    that could be too long."""
    if not sample.is_good:
        return False
    pairs = [
        (objectives.ttft_ms, find_ttft_ms(sample)),
        (objectives.e2e_ms, find_e2e_ms(sample)),
        (objectives.tpot_ms, find_tpot_ms(sample)),
    ]
    if objectives.itl_p99_ms is not None and sample.gaps_us:
        gaps = find_percentile(distribute(sample.gaps_us), 99) / 1000
        pairs.append((objectives.itl_p99_ms, [gaps]))
    if any(value > most for most, values in pairs if most is not None for value in values):
        return False
    is_unknown = objectives.tpot_ms is not None and sample.tokens.output is None
    return None if is_unknown else True


# --- latencies ---


def find_ttft_ms(sample: Sample) -> Sequence[float]:
    """From sending to the first content; nothing where none came."""
    if sample.first_seconds is None:
        return ()
    return ((sample.first_seconds - sample.sent_seconds) * 1e3,)


def find_e2e_ms(sample: Sample) -> Sequence[float]:
    """From sending to the last content; to the end where none came."""
    return ((find_end(sample) - sample.sent_seconds) * 1e3,)


def find_tpot_ms(sample: Sample) -> Sequence[float]:
    """From the first content to the last, by the tokens after the first; nothing for less than two
    tokens, or where they are unknown."""
    output, first, last = sample.tokens.output, sample.first_seconds, sample.last_seconds
    if output is None or output < 2 or first is None or last is None:
        return ()
    return ((last - first) * 1e3 / (output - 1),)


def _find_gaps_us(sample: Sample) -> Sequence[float]:
    return sample.gaps_us


def _make_latencies(measured: Measured) -> Iterable[Figure | None]:
    yield _make_latency(measured, "ttft", find_ttft_ms)
    yield _make_gaps(measured)
    yield _make_latency(measured, "tpot", find_tpot_ms)
    yield _make_latency(measured, "e2e", find_e2e_ms)


def _make_latency(
    measured: Measured, name: str, read: Callable[[Sample], Sequence[float]], unit: str = "ms"
) -> Figure | None:
    values = distribute(chain.from_iterable(map(read, measured.whole)))
    figure = _describe(name, unit, values)
    if figure is None:
        return None
    intervals = {
        str(percent): interval
        for percent in _PERCENTS
        if (interval := find_percentile_interval(values, percent)) is not None
    }
    return _with_batches(replace(figure, intervals=intervals), _find_batches(measured, read))


def _make_gaps(measured: Measured) -> Figure | None:
    """ITL. Gaps of one request are anything but independent, so their percentiles have no interval;
    they are counted in whole microseconds, of which there are few different ones."""
    counted = distribute(chain.from_iterable(map(_find_gaps_us, measured.whole)))
    values = Distribution(
        values=tuple(value / 1000 for value in counted.values), ranks=counted.ranks
    )
    figure = _describe("itl", "ms", values)
    if figure is None:
        return None
    batches = [value / 1000 for value in _find_batches(measured, _find_gaps_us)]
    return _with_batches(figure, batches)


def _describe(name: str, unit: str, values: Distribution) -> Figure | None:
    if not values.count:
        return None
    return Figure(
        name=name,
        unit=unit,
        count=values.count,
        mean=find_mean(values),
        deviation=find_deviation(values),
        percentiles={str(percent): find_percentile(values, percent) for percent in _PERCENTS},
    )


def _find_batches(measured: Measured, read: Callable[[Sample], Sequence[float]]) -> list[float]:
    """The mean over the requests of each slice. A request is of the slice in which its middle lies:
    where all places beat together, its beginning and its end lie on the edges."""
    count = max(len(measured.edges) - 1, 0)
    sums, counts = [0.0] * count, [0] * count
    for sample in measured.whole if count else ():
        middle = (sample.sent_seconds + find_end(sample)) / 2
        width = measured.edges[1] - measured.edges[0]
        index = int((middle - measured.edges[0]) // width)
        if 0 <= index < count:
            values = read(sample)
            sums[index] += sum(values)
            counts[index] += len(values)
    return [total / times for total, times in zip(sums, counts, strict=True) if times]


# --- sizes ---


def _make_sizes(measured: Measured) -> Iterable[Figure | None]:
    tokens = [sample.tokens for sample in measured.whole]
    prompts = [each.prompt for each in tokens if each.prompt is not None]
    outputs = [each.output for each in tokens if each.output is not None]
    yield _describe("prompt_tokens", "tokens", distribute(map(float, prompts)))
    yield _describe("output_tokens", "tokens", distribute(map(float, outputs)))
    yield _make_tokens_per_event(measured.whole)
    cached = [
        (each.cached, each.prompt)
        for each in tokens
        if each.cached is not None and each.prompt is not None
    ]
    whole = sum(prompt for _, prompt in cached)
    if whole:
        share = sum(found for found, _ in cached) / whole
        yield Figure(name="cached_share", unit="share", count=len(cached), mean=share)


def _make_tokens_per_event(samples: Sequence[Sample]) -> Figure | None:
    told = [each for each in samples if each.tokens.output is not None and count_events(each)]
    if not told:
        return None
    return Figure(
        name="tokens_per_event", unit="tokens", count=len(told), mean=find_tokens_per_event(told)
    )


def find_tokens_per_event(samples: Sequence[Sample]) -> float:
    """Tokens by the server's usage for each event with content; 1 where nothing is known."""
    tokens = sum(sample.tokens.output or 0 for sample in samples)
    events = sum(count_events(sample) for sample in samples)
    return tokens / events if tokens and events else 1.0


def find_mean_prompt(samples: Sequence[Sample]) -> float | None:
    """The mean of the prompts' tokens; None where one is unknown."""
    prompts = [sample.tokens.prompt for sample in samples]
    known = [prompt for prompt in prompts if prompt is not None]
    return fmean(known) if known and len(known) == len(prompts) else None
