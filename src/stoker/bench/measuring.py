"""From requests as they went to what a load found: the window, rates, latencies, goodput.

Called by the command layer with what :mod:`stoker.bench.load` tells. Pure. Tokens are those of the
server's usage; where it tells none they are unknown, and events per second stand under a name of
their own. A request that straddles an edge of the window counts by the share of its events that lie
in it (:mod:`stoker.bench.windows`), so nothing is lost where requests are long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from stoker.bench.figures import (
    Counted,
    Measured,
    count_events,
    find_mean_prompt,
    find_tokens_per_event,
    make_figures,
)
from stoker.bench.starving import Watched, find_bursts, judge_client
from stoker.bench.windows import (
    Span,
    cut_slices,
    find_cut,
    find_end,
    find_shares,
    find_span,
    find_time_share,
    find_time_shares,
)
from stoker.model.benchmark import Arrival, Figure, Load, Objectives, Point, Sample, Window

#: Above so many tokens an event, the gaps between events are not the time of a token.
MANY_TOKENS_PER_EVENT = 1.05
#: A request's latencies count where so much of its time lies in the window.
_MOSTLY = 0.5
#: Tokens of so few requests may be estimated from those of the others.
_FEW = 0.05
#: An open loop's request that was sent so late, and a share of such requests that is worth a word.
_HELD_BACK_SECONDS, _HELD_BACK_SHARE = 0.05, 0.01


def mark_warmup(samples: Iterable[Sample], requests: int) -> tuple[Sample, ...]:
    """The samples of one load without a pause, of which the first so many are warm-up."""
    return tuple(
        replace(sample, is_measured=False) if sample.number < requests else sample
        for sample in samples
    )


def measure(
    samples: Sequence[Sample],
    load: Load,
    *,
    objectives: Objectives | None = None,
    watched: Watched | None = None,
    server: Mapping[str, float] | None = None,
    was_interrupted: bool = False,
) -> Point:
    """What a load found.

    ``samples``: all requests, those of a warm-up marked as not measured (:func:`mark_warmup`).
    ``watched``: what the client saw of itself. ``server``: the server's own metrics. Never raises
    for what a server did: where there is too little for a figure, it is missing and a note says so.
    """
    objectives, watched = objectives or Objectives(), watched or Watched()
    span = find_span(samples, load)
    measured, silent_notes = _collect(samples, load, span)
    figures = make_figures(measured, objectives)
    health = judge_client(figures, samples, load, watched)
    notes = (
        span.note,
        *silent_notes,
        _note_events(figures),
        _note_goodput(figures, objectives),
        _note_held_back(samples, load),
        "" if health.complaints else find_bursts(figures),
    )
    return Point(
        load=load,
        window=_describe_window(samples, measured),
        figures=figures,
        server=server or {},
        health=health,
        errors=dict(Counter(sample.error for sample in samples if sample.error)),
        notes=tuple(note for note in notes if note),
        was_interrupted=was_interrupted,
    )


# --- which requests ---


def _collect(samples: Sequence[Sample], load: Load, span: Span) -> tuple[Measured, tuple[str, ...]]:
    whole = tuple(
        sample
        for sample in samples
        if sample.is_measured and sample.is_good and find_time_share(sample, span) >= _MOSTLY
    )
    length = fmean(find_end(each) - each.sent_seconds for each in whole) if whole else 0.0
    edges = tuple(cut_slices(span, length, len(whole), load))
    cut = find_cut(samples)
    good = [sample for sample in samples if sample.is_good]
    inside = [
        sample
        for sample in (*good, *cut)
        if find_end(sample) >= span.start and sample.sent_seconds <= span.end
    ]
    counted, notes = _count(inside, edges, span)
    measured = Measured(
        span=span,
        edges=edges,
        whole=whole,
        counted=counted,
        failed=len(_find_failed(samples, cut, span)),
    )
    return measured, notes


def _find_failed(samples: Sequence[Sample], cut: Sequence[Sample], span: Span) -> list[Sample]:
    numbers = {sample.number for sample in cut}
    return [
        sample
        for sample in samples
        if sample.error
        and sample.is_measured
        and sample.number not in numbers
        and span.start <= sample.ended_seconds <= span.end
    ]


def _count(
    inside: Sequence[Sample], edges: Sequence[float], span: Span
) -> tuple[tuple[Counted, ...], tuple[str, ...]]:
    """The requests with their tokens. Of those that were cut off, and of a very few whose usage is
    missing, they are estimated from their events and the tokens that an event of the others has."""
    told = [each for each in inside if each.is_good and each.tokens.output is not None]
    silent = [each for each in inside if each.is_good and each.tokens.output is None]
    may_estimate = bool(told) and len(silent) <= _FEW * len(inside)
    per_event, prompt = find_tokens_per_event(told), find_mean_prompt(told)
    counted = []
    for sample in inside:
        one = Counted(
            sample=sample,
            share=find_shares(sample, (span.start, span.end))[0],
            slices=tuple(find_time_shares(sample, edges)),
            prompt=sample.tokens.prompt,
            output=sample.tokens.output,
        )
        if may_estimate and (not sample.is_good or sample.tokens.output is None):
            one = replace(one, output=count_events(sample) * per_event, prompt=one.prompt or prompt)
        counted.append(one)
    return tuple(counted), _note_tokens(inside, silent, is_estimated=may_estimate)


def _describe_window(samples: Sequence[Sample], measured: Measured) -> Window:
    span = measured.span
    whole = {sample.number for sample in measured.whole}
    failed = [sample for sample in samples if sample.is_measured and sample.error]
    rest = [each for each in samples if each.number not in whole and each.is_good]
    before = [each for each in rest if not each.is_measured or find_end(each) < span.end]
    begun = min((sample.sent_seconds for sample in samples), default=span.start)
    over = max((sample.ended_seconds for sample in samples), default=span.end)
    return Window(
        seconds=span.seconds,
        warmup_seconds=max(span.start - begun, 0.0),
        drain_seconds=max(over - span.end, 0.0),
        requests=len(whole),
        warmup_requests=len(before),
        drain_requests=len(rest) - len(before),
        failed_requests=len(failed),
    )


# --- what is said about it ---


def _note_tokens(
    inside: Sequence[Sample], silent: Sequence[Sample], *, is_estimated: bool
) -> tuple[str, ...]:
    cut = len([sample for sample in inside if not sample.is_good])
    notes = []
    if silent and not is_estimated:
        notes.append(
            f"The server told no usage for {len(silent)} of {len(inside)} requests, so tokens and "
            "what follows from them are unknown; events are counted instead."
        )
    if silent and is_estimated:
        notes.append(
            f"The server told no usage for {len(silent)} of {len(inside)} requests: their tokens "
            "are estimated from their events and the tokens per event of the others."
        )
    if cut and is_estimated:
        notes.append(
            f"{cut} requests were cut off: for the rates their tokens are estimated from their "
            "events and the tokens per event of the others; they have no part in the latencies."
        )
    return tuple(notes)


def _note_events(figures: Sequence[Figure]) -> str:
    carried = next((each.mean for each in figures if each.name == "tokens_per_event"), 1.0)
    if carried <= MANY_TOKENS_PER_EVENT:
        return ""
    return (
        f"An event carries {carried:.2f} tokens on average: ITL is the time between two events, "
        "and TPOT is the time of a token."
    )


def _note_goodput(figures: Sequence[Figure], objectives: Objectives) -> str:
    if objectives == Objectives() or any(figure.name == "goodput" for figure in figures):
        return ""
    return (
        "Goodput is unknown: nothing was measured, or an objective is about tokens and the server "
        "tells none."
    )


def _note_held_back(samples: Sequence[Sample], load: Load) -> str:
    """An open loop with a bound becomes a closed one once the bound is reached."""
    if load.arrival is Arrival.CLOSED or not load.concurrency:
        return ""
    late = [each for each in samples if each.sent_seconds - each.due_seconds > _HELD_BACK_SECONDS]
    if len(late) <= _HELD_BACK_SHARE * len(samples):
        return ""
    return (
        f"{len(late)} of {len(samples)} requests waited, since {load.concurrency} at once were "
        "under way: fewer came than the rate that was asked for, and the latencies are without "
        "that wait."
    )
