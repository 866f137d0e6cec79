"""A check written as one procedure: ask, look at what came back, ask again, say what was found.

A procedure is a generator that yields requests (sent at the same time), gets their exchanges and
returns a judgement. Plan and judge of the check both run it anew over the exchanges so far, so a
procedure must be pure: the same exchanges lead it the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from stoker.contract.judgement import Judgement, skipped
from stoker.contract.plans import Plan
from stoker.model.contract import Exchange, Request, Subject

_Result = TypeVar("_Result")

#: A part of a procedure that finds something out; ``yield from`` runs one within another.
Steps = Generator[Sequence[Request], tuple[Exchange, ...], _Result]

Procedure = Callable[[Subject], Steps[Judgement]]
Judge = Callable[[Subject, Sequence[Exchange]], Judgement]


def plan_of(procedure: Procedure) -> Plan:
    """The plan of a check that follows the procedure."""

    def plan(subject: Subject, exchanges: Sequence[Exchange]) -> Sequence[Request]:
        batch, _ = _replay(procedure(subject), exchanges)
        return batch

    return plan


def judge_of(procedure: Procedure) -> Judge:
    """The judge of a check that follows the procedure."""

    def judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
        _, judgement = _replay(procedure(subject), exchanges)
        return judgement or skipped("a trial that came to its end", "it was broken off")

    return judge


def _replay(
    steps: Steps[Judgement], exchanges: Sequence[Exchange]
) -> tuple[Sequence[Request], Judgement | None]:
    """The next requests, or the judgement once the exchanges suffice for one."""
    done = 0
    try:
        batch = next(steps)
        while len(exchanges) - done >= len(batch):
            answered = tuple(exchanges[done : done + len(batch)])
            done += len(batch)
            batch = steps.send(answered)
    except StopIteration as ended:
        return (), ended.value
    return batch, None


def ask_one(request: Request) -> Steps[Exchange]:
    """One request alone."""
    (exchange,) = yield (request,)
    return exchange


def ask_each(requests: Sequence[Request]) -> Steps[tuple[Exchange, ...]]:
    """Several requests, each alone, once the one before it was answered."""
    exchanges: tuple[Exchange, ...] = ()
    for request in requests:
        exchanges += yield (request,)
    return exchanges


def ask_all(requests: Sequence[Request]) -> Steps[tuple[Exchange, ...]]:
    """Several requests at the same time; none is no request at all."""
    if not requests:
        return ()
    return (yield requests)
