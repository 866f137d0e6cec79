"""What counts as progress of a start, and what is only talk. Pure.

:mod:`stoker.guard.decide` calls it with what was observed. Two grades are told apart:

==========================================================  =============================
observation                                                 grade
==========================================================  =============================
a phase that was not there before                           certain
a percentage that rises for the first time                  certain
a percentage that fell, and rises again                     talk: until the start timeout
bytes read faster than an idle engine reads                 certain
GPU memory that grows                                       certain
another answer of the readiness path (refused, then 503)    certain, once for each answer
a line of a new kind                                        talk: until the start timeout
a line of a kind that was there, whatever its numbers       none
==========================================================  =============================

The kind of a line is what remains of it when every word with a digit in it is left out, so
timestamps, counts, sizes and addresses make no difference. There are at most KINDS of them.
Neither random text nor a gauge that goes up and down keeps a dead engine alive for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from stoker.guard.config import PhasePattern
from stoker.guard.values import LOADING_WEIGHTS, STARTING, Bar, Progress, Rules

#: The real starts that were recorded have some hundred kinds of lines at most.
KINDS = 1000
#: Sockets, pipes and /proc are read by an engine that waits, too: some KiB in a second. While
#: weights are read little is needed, later more.
LOADING_BYTES_PER_SECOND = 64 << 10
LATER_BYTES_PER_SECOND = 1 << 20

_KIND_CHARACTERS = 200
_WORD_WITH_DIGIT = re.compile(r"\S*\d\S*")
_PERCENT = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d+)?) ?%")


def begin_progress(now_seconds: float) -> Progress:
    """A start counts as progress."""
    return Progress(
        at_seconds=now_seconds,
        certain_at_seconds=now_seconds,
        phase_at_seconds=now_seconds,
        bytes_at_seconds=now_seconds,
    )


def hear_lines(
    progress: Progress,
    lines: tuple[str, ...],
    *,
    rules: Rules,
    now_seconds: float,
    counts_talk: bool,
) -> Progress:
    """What the lines tell. ``counts_talk``: whether a line of a new kind is progress by itself."""
    for line in lines:
        progress = _hear_phase(progress, line, rules.phases, now_seconds)
        progress = _hear_line(progress, line, now_seconds, counts_talk=counts_talk)
    return progress


def hear_bytes(progress: Progress, total: int, now_seconds: float) -> Progress:
    """Bytes were read. A total that fell (a process ended) is a new beginning, not progress."""
    seconds = now_seconds - progress.bytes_at_seconds
    if seconds <= 0:
        return progress
    rate = (total - progress.bytes_read) / seconds
    is_early = progress.phase in (STARTING, LOADING_WEIGHTS)
    needed = LOADING_BYTES_PER_SECOND if is_early else LATER_BYTES_PER_SECOND
    progress = replace(progress, bytes_read=total, bytes_at_seconds=now_seconds)
    return mark(progress, now_seconds) if rate >= needed else progress


def hear_gpu_memory(progress: Progress, used_bytes: int, now_seconds: float) -> Progress:
    """The engine holds so much GPU memory now; more than ever before is progress."""
    if used_bytes <= progress.gpu_bytes:
        return progress
    return replace(mark(progress, now_seconds), gpu_bytes=used_bytes)


def hear_news(progress: Progress, word: str, now_seconds: float) -> Progress:
    """Something that is progress the first time, and never again."""
    if word in progress.seen or len(progress.seen) >= KINDS:
        return progress
    return replace(mark(progress, now_seconds), seen=progress.seen | {word})


def mark(progress: Progress, now_seconds: float) -> Progress:
    """It certainly goes on."""
    return replace(progress, at_seconds=now_seconds, certain_at_seconds=now_seconds)


def read_fraction(progress: Progress, rules: Rules) -> float | None:
    """How much of the present phase is done, 0 to 1, by the log or else by the bytes read."""
    if progress.percent is not None:
        return progress.percent / 100
    is_loading = progress.phase == LOADING_WEIGHTS or not rules.phases
    if not (rules.weight_bytes and is_loading):
        return None
    # Several processes may each read all of it, and what is unpacked is read twice.
    share = (progress.bytes_read - progress.bytes_at_phase) / rules.weight_bytes
    return min(max(share, 0.0), 0.99)


def _hear_phase(
    progress: Progress, line: str, patterns: tuple[PhasePattern, ...], now_seconds: float
) -> Progress:
    for row in patterns:
        if found := re.search(row.pattern, line):
            break
    else:
        return progress
    if row.phase != progress.phase:
        progress = replace(
            progress,
            phase=row.phase,
            phase_at_seconds=now_seconds,
            bytes_at_phase=progress.bytes_read,
        )
        progress = hear_news(progress, f"phase {row.phase}", now_seconds)
    return replace(progress, title=row.title, percent=_read_percent(found.groupdict()))


def _read_percent(groups: Mapping[str, str | None]) -> float | None:
    try:
        return min(max(float(groups["percent"] or ""), 0.0), 100.0)
    except (KeyError, ValueError):
        return None


def _hear_line(progress: Progress, line: str, now_seconds: float, *, counts_talk: bool) -> Progress:
    kind = _WORD_WITH_DIGIT.sub("", line).strip()[:_KIND_CHARACTERS]
    is_new = kind not in progress.seen and len(progress.seen) < KINDS
    is_certain, is_talk = False, is_new
    if found := _PERCENT.search(line):
        before, bar = progress.bars.get(kind), _move(progress, kind, float(found[1]))
        has_risen = before is not None and bar is not None and bar.percent > before.percent
        is_certain = has_risen and not (bar and bar.has_fallen)
        is_talk = is_new or has_risen
        if bar is not None and bar != before:
            progress = replace(progress, bars={**progress.bars, kind: bar})
    if is_new:
        progress = replace(progress, seen=progress.seen | {kind})
    if is_certain:
        return mark(progress, now_seconds)
    return replace(progress, at_seconds=now_seconds) if is_talk and counts_talk else progress


def _move(progress: Progress, kind: str, percent: float) -> Bar | None:
    """The percentage that lines of a kind tell now; None for one kind too many."""
    bar = progress.bars.get(kind)
    if bar is None:
        return Bar(percent=percent) if len(progress.bars) < KINDS else None
    return Bar(percent=percent, has_fallen=bar.has_fallen or percent < bar.percent)
