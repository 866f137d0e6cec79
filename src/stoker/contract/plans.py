"""Plans of checks: which requests come next, made from simpler ones.

A plan is a pure function of the subject and the exchanges so far. These make the common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.model.contract import Exchange, Request, Subject

Plan = Callable[[Subject, Sequence[Exchange]], Sequence[Request]]


def in_order(requests: Callable[[Subject], Sequence[Request]]) -> Plan:
    """Each request alone, once the one before it has been answered."""

    def plan(subject: Subject, exchanges: Sequence[Exchange]) -> Sequence[Request]:
        return requests(subject)[len(exchanges) :][:1]

    return plan


def at_once(requests: Callable[[Subject], Sequence[Request]]) -> Plan:
    """All requests at the same time."""

    def plan(subject: Subject, exchanges: Sequence[Exchange]) -> Sequence[Request]:
        return () if exchanges else requests(subject)

    return plan


def then(first: Plan, count: int, second: Plan) -> Plan:
    """The first plan until it has ``count`` exchanges, then the second, which sees only its own.

    Where the first asks for less than ``count``, the second never begins.
    """

    def plan(subject: Subject, exchanges: Sequence[Exchange]) -> Sequence[Request]:
        if len(exchanges) < count:
            return first(subject, exchanges)
        return second(subject, exchanges[count:])

    return plan
