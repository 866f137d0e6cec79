"""Whether the client kept up, or its figures are its own and not the server's.

Called by :mod:`stoker.bench.measuring`. Pure. The client's loop looks at a clock at fixed steps;
how late it comes to that is how late it comes to a server's events. An engine that writes several
events at once looks like a late reader in its gaps, and unlike one in the loop's lateness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.bench.statistics import distribute, find_percentile
from stoker.model.benchmark import Arrival, ClientHealth, Figure, Load, Sample

#: A process that shares its core is held back for so long by nothing but the scheduler's turns
#: (Linux gives a few ms at a time), so no shorter lateness is blamed on the load.
_TURN_MS = 20.0
#: The loop's worst hundredth may lie so many events behind. A single event behind still keeps the
#: order and the mean of gaps; five are a queue, not jitter.
_MOST_EVENTS_BEHIND = 5.0
#: So much of the first token's time may be the client's: with more, it shows itself rather than the
#: server.
_MOST_OF_TTFT = 0.5
#: A median gap below this share of the mean gap: events come several at once. Gaps of an even
#: stream lie near their mean, those of random arrivals have their median at 0.69 of it.
_BURST_SHARE = 0.1
#: Several events are read at once for the reader's sake only if it is late by half a gap.
_LATE_SHARE = 0.5
#: A loop that is busy for this share lets work wait, by the plainest queue (M/D/1), for 25 times as
#: long as it takes: share / (2 (1 - share)).
_FULL_SHARE = 0.98
#: A request that comes so late meets another queue than the one that it was to meet: by a tenth of
#: the first token's time, but no less than what a timer may be late by on a busy machine.
_LATE_OF_TTFT, _LATE_LEAST_MS = 0.1, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the client saw of itself: how late its loop was each time that it looked, and which
    share of a core it used (of the busiest where there are several)."""

    lags_seconds: Sequence[float] = ()
    busy_share: float = 0.0


def judge_client(
    figures: Sequence[Figure], samples: Sequence[Sample], load: Load, watched: Watched
) -> ClientHealth:
    """How well the client kept up, with a sentence for each sign that it did not."""
    lags = [lag * 1e3 for lag in watched.lags_seconds]
    lates = [max(each.sent_seconds - each.due_seconds, 0.0) * 1e3 for each in samples]
    health = ClientHealth(
        lag_p50_ms=_percentile(lags, 50),
        lag_p99_ms=_percentile(lags, 99),
        lag_max_ms=max(lags, default=0.0),
        late_p99_ms=_percentile(lates, 99),
        busy_share=watched.busy_share,
    )
    by_name = {figure.name: figure for figure in figures}
    complaints = (
        _complain_of_lag(health, by_name.get("itl")),
        _complain_of_first(health, by_name.get("ttft")),
        _complain_of_gaps(health, by_name.get("itl"), is_watched=bool(lags)),
        _complain_of_core(health),
        _complain_of_sending(health, load, by_name.get("ttft")),
    )
    return ClientHealth(
        lag_p50_ms=health.lag_p50_ms,
        lag_p99_ms=health.lag_p99_ms,
        lag_max_ms=health.lag_max_ms,
        late_p99_ms=health.late_p99_ms,
        busy_share=health.busy_share,
        complaints=tuple(complaint for complaint in complaints if complaint),
    )


def find_bursts(figures: Iterable[Figure]) -> str:
    """A sentence where a server's events come several at once, empty where they do not. It blames
    the server, so it is right only where the client kept up."""
    gaps = next((figure for figure in figures if figure.name == "itl"), None)
    if gaps is None or not _is_bursty(gaps):
        return ""
    return (
        f"The server sends its events several at once (median gap {gaps.percentiles['50']:.2f} ms, "
        f"mean {gaps.mean:.2f} ms): percentiles of ITL say little, TPOT is the time of a token."
    )


def _is_bursty(gaps: Figure) -> bool:
    return gaps.mean > 0 and gaps.percentiles.get("50", gaps.mean) < _BURST_SHARE * gaps.mean


def _complain_of_lag(health: ClientHealth, gaps: Figure | None) -> str:
    if gaps is None or health.lag_p99_ms <= max(_MOST_EVENTS_BEHIND * gaps.mean, _TURN_MS):
        return ""
    return (
        f"The client came up to {health.lag_p99_ms:.0f} ms late to its events (99th percentile), "
        f"with {gaps.mean:.1f} ms between two of them: it lay events behind, and the spread of ITL "
        "is its own."
    )


def _complain_of_first(health: ClientHealth, first: Figure | None) -> str:
    if first is None or health.lag_p99_ms <= max(_MOST_OF_TTFT * first.mean, _TURN_MS):
        return ""
    return (
        f"The client came up to {health.lag_p99_ms:.0f} ms late to its events (99th percentile), "
        f"with a TTFT of {first.mean:.0f} ms: that TTFT is largely its own."
    )


def _complain_of_gaps(health: ClientHealth, gaps: Figure | None, *, is_watched: bool) -> str:
    if gaps is None or not _is_bursty(gaps):
        return ""
    seen = f"The median gap between events is {gaps.percentiles['50']:.2f} ms, the mean "
    seen += f"{gaps.mean:.2f} ms: many events were read at once, "
    if not is_watched:
        return seen + "and it was not watched whether the client came late or the server wrote so."
    if health.lag_p99_ms < _LATE_SHARE * gaps.mean:
        return ""
    return seen + f"since the client came up to {health.lag_p99_ms:.1f} ms late."


def _complain_of_core(health: ClientHealth) -> str:
    if health.busy_share < _FULL_SHARE:
        return ""
    return (
        f"The client used {health.busy_share:.0%} of its core: it may be the bound of the rate, "
        "and not the server."
    )


def _complain_of_sending(health: ClientHealth, load: Load, first: Figure | None) -> str:
    """In an open loop without a bound nobody but the client holds a request back."""
    if load.arrival is Arrival.CLOSED or load.concurrency:
        return ""
    most = max(_LATE_OF_TTFT * first.mean if first else 0.0, _LATE_LEAST_MS)
    if health.late_p99_ms <= most:
        return ""
    return (
        f"Requests were sent up to {health.late_p99_ms:.0f} ms after they were due (99th "
        "percentile): the server met another load than the one that was asked for."
    )


def _percentile(values: Sequence[float], percent: float) -> float:
    return find_percentile(distribute(values), percent) if values else 0.0
