"""Promise: a server that has answered hundreds of mixed requests still answers as at first.

Some faults come with use: a cache that fills, a slot that is never freed, numbers that break down
after some thousand tokens. Between rounds of requests of all kinds, some given up half-way, one
question is asked whose answer is known. How long it goes is bounded by requests and by time; for a
longer load see :mod:`stoker.contract.soak`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.interview import Heard, find_context, hear
from stoker.contract.judgement import Judgement, failed, passed
from stoker.contract.load import KINDS, Canary, find_canary, find_load_faults, make_load
from stoker.contract.procedure import Steps, ask_all, ask_one, judge_of, plan_of
from stoker.model.contract import Exchange, Subject
from stoker.ports import Check

_EXPECTED = "the same answer after hundreds of mixed requests as at first"
_ROUNDS = 16
_AT_ONCE = 2 * KINDS
_MOST_SECONDS = 600.0

#: One lost request may be the network's.
_LEAST_LOST = 2


def _try_use(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    canary = yield from find_canary(subject)
    if canary.baseline.fault:
        return canary.baseline.fault
    count, seconds = 0, 0.0
    lost: list[Heard] = []
    while count < _ROUNDS * _AT_ONCE and seconds < _MOST_SECONDS:
        requests = [make_load(subject, canary.style, count + each) for each in range(_AT_ONCE)]
        exchanges = yield from ask_all(requests)
        count += len(requests)
        seconds += max(each.seconds for each in exchanges)
        lost += find_load_faults(requests, exchanges)
        if len(lost) >= _LEAST_LOST:
            return _judge_lost(lost, count)
        judgement = yield from _watch(subject, canary, count)
        if judgement:
            return judgement
    kind = "known" if canary.is_known else "readable"
    return passed(_EXPECTED, f"the answer {kind} as at first after {count} requests")


def _watch(subject: Subject, canary: Canary, count: int) -> Steps[Judgement | None]:
    """Ask the question; where it went wrong, once more, since a single time may be chance."""
    exchanges: list[Exchange] = []
    for _ in range(2):
        exchanges.append((yield from ask_one(canary.ask(subject))))
        heard = hear(canary.question, exchanges[-1])
        symptom = canary.find_change(heard)
        if not symptom:
            return None
    return failed(
        _EXPECTED, f"after {count} requests {canary.describe(heard)}, twice", symptom, after=count
    )


def _judge_lost(lost: Sequence[Heard], count: int) -> Judgement:
    first = lost[0].fault
    found = f"{len(lost)} of {count} requests went wrong: {first.found if first else ''}"
    return failed("an answer to each of many requests", found, "lost_under_load", lost=len(lost))


CHECK = Check(
    id="soak_canary",
    title="Hundreds of requests change no answer",
    level="soak",
    plan=plan_of(_try_use),
    judge=judge_of(_try_use),
)
