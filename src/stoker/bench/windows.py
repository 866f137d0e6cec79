"""Which part of a load is measured, and how much of a request lies in a part of the time.

Called by :mod:`stoker.bench.measuring`. Pure. A rate is honest where the load was at its full
height: not while places still fill, and not while they run empty. In a closed loop all places may
beat together, wave after wave; the window ends when the first place stays empty, which is the end
of a whole wave, so no part of a wave is counted for a whole one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean

from stoker.model.benchmark import Arrival, Load, Sample

#: Slices of a window: few enough that each says something, enough for an interval of their mean.
_SLICES = 10
#: A slice of an open loop holds so many requests on average, or chance alone would fill it.
_LEAST_REQUESTS = 4
#: What rounding and jitter may take from a whole number of waves.
_JITTER = 0.05
#: Places are filled in one go where that takes no longer than this share of a request.
_ONE_GO = 0.1
#: Of an open loop, at most this share is spent on the server's filling.
_MOST_FILLING = 0.25
#: Below so many times a request's own length a window is mostly beginning and end.
_FEW_LENGTHS = 3
#: Below so many there is no time at full height to speak of, and the whole run says more.
_LEAST_LENGTHS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The part that is measured, in seconds since the load began. ``note`` where it is unusual."""

    start: float
    end: float
    note: str = ""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return max(self.end - self.start, 0.0)


def find_end(sample: Sample) -> float:
    """When the last content came, or where none came, when the request ended."""
    return sample.ended_seconds if sample.last_seconds is None else sample.last_seconds


def find_cut(samples: Sequence[Sample]) -> list[Sample]:
    """Requests that had begun to answer and were cut off once nothing more was sent, by an
    interruption or the end of patience: they say how fast the server was, but not their tokens."""
    last = max((sample.sent_seconds for sample in samples), default=0.0)
    return [
        sample
        for sample in samples
        if sample.error and sample.first_seconds is not None and sample.ended_seconds >= last
    ]


def find_span(samples: Sequence[Sample], load: Load) -> Span:
    """The window of a load. ``samples`` are all, those of a warm-up too (``is_measured`` False)."""
    measured = [sample for sample in samples if sample.is_measured]
    if not measured:
        return Span(start=0.0, end=0.0, note="No request was measured.")
    span = (_closed if load.arrival is Arrival.CLOSED else _open)(samples, measured, load)
    length = _find_length(measured)
    if span is None or span.seconds <= _LEAST_LENGTHS * length:
        return _whole(measured)
    if span.seconds < _FEW_LENGTHS * length:
        times = span.seconds / length
        note = (
            f"The window is {times:.1f} times as long as a request takes: its beginning and end "
            "weigh in the rates. Measure longer."
        )
        return Span(start=span.start, end=span.end, note=note)
    return span


def _closed(samples: Sequence[Sample], measured: Sequence[Sample], load: Load) -> Span | None:
    first = min(sample.sent_seconds for sample in measured)
    warm = [sample for sample in samples if not sample.is_measured]
    carried = [sample for sample in warm if sample.ended_seconds > first]
    sendings = sorted(sample.sent_seconds for sample in measured)
    to_fill = max(load.concurrency - len(carried), 1)
    good_ends = [sample.ended_seconds for sample in measured if sample.is_good]
    is_one_wave = not good_ends or sendings[-1] < min(good_ends)
    if to_fill > len(sendings) or (is_one_wave and not carried):
        return None
    filling = sendings[:to_fill]
    ends = sorted((sample.ended_seconds for sample in (*carried, *measured)), reverse=True)
    # Whoever ends after this one is not replaced, or a later one would have ended after it too.
    end = ends[min(load.concurrency, len(ends)) - 1]
    if find_cut(samples):
        end = min(end, sendings[-1])
    return Span(start=_find_start(filling, [*carried, *measured]), end=end)


def _find_start(filling: Sequence[float], others: Sequence[Sample]) -> float:
    """When all places are busy. Where they were filled in one go, before any had content, no token
    is lost by counting from the middle of the filling, and no place counts for longer than it
    worked."""
    contents = [sample.first_seconds for sample in others if sample.first_seconds is not None]
    is_quick = filling[-1] - filling[0] <= _ONE_GO * _find_length(others)
    is_one_go = is_quick and (not contents or min(contents) >= filling[-1])
    return fmean(filling) if is_one_go else filling[-1]


def _open(samples: Sequence[Sample], measured: Sequence[Sample], load: Load) -> Span | None:
    first = min(sample.sent_seconds for sample in measured)
    last = max(sample.sent_seconds for sample in measured)
    length = _find_length(measured)
    if last - first < length:
        return None
    is_warm = any(not each.is_measured and each.ended_seconds > first for each in samples)
    # On an idle server requests pile up until as many end as come, which takes one request long.
    filling = 0.0 if is_warm else min(length, _MOST_FILLING * (last - first))
    return Span(start=first + filling, end=last)


def _whole(measured: Sequence[Sample]) -> Span:
    start = min(sample.sent_seconds for sample in measured)
    good = [find_end(sample) for sample in measured if sample.is_good]
    end = max(good or [sample.ended_seconds for sample in measured])
    note = (
        f"The rates are over the whole run of {len(measured)} requests, from the first sending to "
        "the last end, since there was no time when all places were busy and refilled: they are "
        "below what the server does under a lasting load."
    )
    return Span(start=start, end=end, note=note)


def _find_length(samples: Sequence[Sample]) -> float:
    """How long a request takes on average, in seconds; 0 where none was answered."""
    lengths = [find_end(sample) - sample.sent_seconds for sample in samples if sample.is_good]
    return fmean(lengths) if lengths else 0.0


def find_time_share(sample: Sample, span: Span) -> float:
    """How much of a request's time lies in the window, from 0 to 1."""
    start, end = sample.sent_seconds, find_end(sample)
    if end <= start:
        return float(span.start <= start <= span.end)
    return max(min(end, span.end) - max(start, span.start), 0.0) / (end - start)


def find_time_shares(sample: Sample, edges: Sequence[float]) -> list[float]:
    """How much of a request's time lies between each two of the rising edges.

    For slices of a window: where places beat together, events come in beats too, and a slice would
    vary with how many first tokens it happens to hold though the server does not vary at all.
    """
    return [find_time_share(sample, Span(start=start, end=end)) for start, end in pairwise(edges)]


def find_shares(sample: Sample, moments: Sequence[float]) -> list[float]:
    """How much of a request's tokens lies between each two of the rising moments.

    Each event has the same part of them, made in the time since the event before (for the first:
    since the sending). Where an engine puts several tokens into one event, or all into one, no
    token is then counted at once that took long to make.
    """
    first = find_end(sample) if sample.first_seconds is None else sample.first_seconds
    is_cut = any(first < moment < find_end(sample) for moment in moments)
    passed_us = list(accumulate(sample.gaps_us)) if is_cut else []
    made = [_find_made(sample, moment, passed_us) for moment in moments]
    return [after - before for before, after in pairwise(made)]


def _find_made(sample: Sample, moment: float, passed_us: Sequence[int]) -> float:
    """The share of its tokens that a request has by a moment. ``passed_us``: from the first event
    to each later one, needed only for a moment between the first and the last."""
    sent, end = sample.sent_seconds, find_end(sample)
    first = end if sample.first_seconds is None else sample.first_seconds
    if moment <= sent or moment >= end:
        return float(moment >= end)
    events = len(sample.gaps_us) + 1
    if moment < first:
        return (moment - sent) / (first - sent) / events
    since_us = (moment - first) * 1e6
    index = bisect_right(passed_us, since_us)
    if index == len(passed_us):
        return 1.0
    before_us = passed_us[index - 1] if index else 0
    return (index + 1 + (since_us - before_us) / (passed_us[index] - before_us)) / events


def cut_slices(span: Span, request_seconds: float, requests: int, load: Load) -> list[float]:
    """The edges of equal slices of the window, about ten; none where it is too short for two.

    A slice is a whole number of request lengths: a shorter one would see, where all places beat
    together, now the start of a wave and now its end. What is left over at the end is in none.
    """
    if span.seconds <= 0 or request_seconds <= 0:
        return []
    waves = int(span.seconds / request_seconds + _JITTER)
    each = max(waves // _SLICES, 1)
    if load.arrival is not Arrival.CLOSED:
        each = max(each, -(-waves // max(requests // _LEAST_REQUESTS, 1)))
    if waves // each < 2:
        return []
    length = each * span.seconds / waves
    return [span.start + index * length for index in range(waves // each + 1)]
