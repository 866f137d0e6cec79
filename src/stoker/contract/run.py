"""Try the promises of a server, one after the other, and say what was found.

Commands call :func:`verify` when an engine says that it has loaded, and whenever somebody asks.
This module must never decide what a promise is (the checks do), change the server, or keep more
of what it sent than a person can look at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from stoker.contract.asking import Asker
from stoker.contract.evidence import keep_evidence, read_text
from stoker.contract.judgement import Judgement, skipped, unreached
from stoker.contract.selection import QUICK, select_checks
from stoker.errors import DataError
from stoker.model.contract import (
    CheckResult,
    Exchange,
    Offer,
    Offered,
    RecordedCheck,
    Subject,
    Verdict,
    Verification,
)
from stoker.model.event import Event, EventKind
from stoker.ports import Check, Clock, Endpoint, Reporter

#: The check whose first reply is the sample answer of a verification.
ANSWER_CHECK = "chat_answer"

#: A plan that never ends is an error of the check, not of the server.
_MOST_EXCHANGES = 1000

Keep = Callable[[RecordedCheck], object]
Tell = Callable[[CheckResult], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which checks: of a level, only those named, or those that the deployment requires.

    ``require`` None stands for all of the level. What is required is promised: a check that finds
    its feature missing fails then.
    """

    level: str = QUICK
    only: Collection[str] = ()
    require: Collection[str] | None = None


def verify(
    endpoint: Endpoint,
    *,
    name: str,
    subject: Subject,
    clock: Clock,
    reporter: Reporter,
    selection: Selection | None = None,
    keep: Keep | None = None,
    tell: Tell | None = None,
) -> Verification:
    """Try the selected checks and report each as an event of the kind CHECK.

    ``name`` is the deployment's. Once no connection can be made the rest is skipped. The caller
    adds which process it was (``process``, ``digest``). ``keep`` gets all that each check saw,
    ``tell`` each result as soon as it is there. A soak is behind this, and another's to add
    (:mod:`stoker.contract.soak`). Raises UsageError as :func:`select_checks` does, and nothing for
    what the server does.
    """
    selection = selection or Selection()
    selected = select_checks(selection.level, selection.only, selection.require)
    if selection.require is not None:
        subject = _promise(subject, [each for each in selected if each.id in selection.require])
    asker = Asker(endpoint)
    results: list[CheckResult] = []
    answer, is_reachable = "", True
    for check in selected:
        started_at = clock.monotonic_seconds()
        exchanges = _exchange_all(check, asker, subject) if is_reachable else ()
        is_reachable = is_reachable and not was_refused(exchanges)
        # A plan may find that there is nothing to ask; its judge says why.
        is_judged = exchanges or (is_reachable and not find_absence(check, subject))
        judgement = judge_check(check, subject, exchanges) if is_judged else _skip(check, subject)
        if check.id == ANSWER_CHECK and exchanges:
            answer = read_text(exchanges[0])
        result = _result(check, judgement, exchanges)
        results.append(replace(result, seconds=clock.monotonic_seconds() - started_at))
        if keep:
            keep(_record(result, exchanges))
        (tell or _ignore)(results[-1])
        reporter.emit(_event(results[-1], fraction=len(results) / len(selected), clock=clock))
    return Verification(
        name=name,
        url=endpoint.url,
        level=selection.level,
        results=tuple(results),
        at_seconds=clock.now_seconds(),
        answer=answer,
        engine=subject.manners.engine,
    )


def _ignore(result: CheckResult) -> None:
    """Nobody wants to be told."""


def _promise(subject: Subject, required: Sequence[Check]) -> Subject:
    """The subject with every feature promised that a required check needs."""
    needed = dict.fromkeys(feature for check in required for feature in check.needs)
    reason = "the deployment requires it"
    return replace(
        subject,
        features={
            **subject.features,
            **{each: Offered(offer=Offer.PROMISED, reason=reason) for each in needed},
        },
    )


def find_absence(check: Check, subject: Subject) -> str:
    """Why the promise is none on this server, empty where it may be one."""
    for feature in check.needs:
        offered = subject.offered(feature)
        if offered.offer is Offer.ABSENT:
            return offered.reason or f"the server does not offer {feature.replace('_', ' ')}"
    return ""


def _exchange_all(check: Check, asker: Asker, subject: Subject) -> tuple[Exchange, ...]:
    """Follow the plan of a check to its end, or to the first time that no server is found."""
    exchanges: tuple[Exchange, ...] = ()
    if find_absence(check, subject):
        return ()
    while batch := check.plan(subject, exchanges):
        exchanges += asker.ask(batch)
        if was_refused(exchanges[-len(batch) :]):
            break
        if len(exchanges) > _MOST_EXCHANGES:
            raise DataError(f"the plan of the check {check.id} does not end")
    return exchanges


def was_refused(exchanges: Sequence[Exchange]) -> bool:
    """Whether nobody listens there (any more)."""
    return bool(exchanges) and exchanges[-1].error_kind == "refused"


def judge_check(check: Check, subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    """What a check says of exchanges, for a trial and for a recording alike."""
    if was_refused(exchanges):
        return unreached(exchanges[-1].error)
    judgement = check.judge(subject, exchanges)
    if not isinstance(judgement, Judgement):
        raise DataError(f"the check {check.id} answers no judgement")
    return judgement


def _skip(check: Check, subject: Subject) -> Judgement:
    absence = find_absence(check, subject)
    if absence:
        return skipped("a server that offers it", absence)
    return skipped("a server that can be reached", "the server could not be reached")


def _result(check: Check, judgement: Judgement, exchanges: Sequence[Exchange]) -> CheckResult:
    is_evidence = judgement.verdict in (Verdict.FAILED, Verdict.ERROR)
    return CheckResult(
        check=check.id,
        title=check.title,
        verdict=judgement.verdict,
        expected=judgement.expected,
        found=judgement.found,
        symptom=judgement.symptom,
        details=judgement.details,
        exchanges=keep_evidence(exchanges) if is_evidence else (),
    )


def _record(result: CheckResult, exchanges: tuple[Exchange, ...]) -> RecordedCheck:
    return RecordedCheck(
        check=result.check, verdict=result.verdict, symptom=result.symptom, exchanges=exchanges
    )


def _event(result: CheckResult, *, fraction: float, clock: Clock) -> Event:
    details = "" if result.verdict is Verdict.PASSED else f"; expected {result.expected}"
    return Event(
        kind=EventKind.CHECK,
        subject=result.check,
        text=f"{result.title}: {result.verdict}{details}; found {result.found}",
        fraction=fraction,
        at_seconds=clock.now_seconds(),
        data={
            "verdict": str(result.verdict),
            "expected": result.expected,
            "found": result.found,
            "symptom": result.symptom,
            "seconds": result.seconds,
        },
    )
