"""Try the promises of a server, one after the other, and say what was found.

Commands call :func:`verify` when an engine says that it has loaded, and whenever somebody asks.
This module must never decide what a promise is (the checks do), change the server, or keep more
of what it sent than a person can look at.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import accumulate

from stoker.contract import checks
from stoker.contract.completion import read_answer
from stoker.contract.judgement import Judgement, unreached
from stoker.contract.reply import parse_json
from stoker.errors import DataError, UsageError
from stoker.model.contract import CheckResult, Exchange, Verdict, Verification
from stoker.model.event import Event, EventKind
from stoker.ports import Check, Clock, Endpoint, Reporter

QUICK = "quick"
FULL = "full"
SOAK = "soak"

#: Each level holds the ones before it.
LEVELS = (QUICK, FULL, SOAK)

#: The check whose first reply is the sample answer of a verification.
ANSWER_CHECK = "chat_answer"

#: Evidence is for reading, and a verification is stored for good.
EVIDENCE_BYTES = 16 << 10


def discover_checks() -> tuple[Check, ...]:
    """All checks of the package, the quick ones first and by name within a level.

    Raises DataError for a module that offers none, or one with another id or an unknown level.
    """
    names = [module.name for module in pkgutil.iter_modules(checks.__path__)]
    found = [_load_check(name) for name in sorted(names)]
    return tuple(sorted(found, key=lambda check: LEVELS.index(check.level)))


def _load_check(name: str) -> Check:
    check = getattr(import_module(f"{checks.__name__}.{name}"), "CHECK", None)
    if not isinstance(check, Check) or check.id != name or check.level not in LEVELS:
        raise DataError(f"the module of the check {name} offers no CHECK of this id and a level")
    return check


def select_checks(
    level: str, only: Collection[str] = (), require: Collection[str] | None = None
) -> tuple[Check, ...]:
    """The checks to try: those named by ``only``, else by ``require``, else all of the level.

    Named checks count whatever their level. Raises UsageError for an unknown name or level, and
    for nothing but an empty ``require``: no server could ever be verified by it.
    """
    known = discover_checks()
    offered = [name for name in LEVELS if any(check.level == name for check in known)]
    if level not in offered:
        raise _unknown("level", level, offered)
    wanted = only or require
    if wanted is None:
        highest = LEVELS.index(level)
        return tuple(check for check in known if LEVELS.index(check.level) <= highest)
    if not wanted:
        raise UsageError("no check is required", "leave `require` out to require all of the level")
    ids = [check.id for check in known]
    for name in wanted:
        if name not in ids:
            raise _unknown("check", name, ids)
    return tuple(check for check in known if check.id in wanted)


def _unknown(noun: str, name: str, known: Sequence[str]) -> UsageError:
    nearest = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {nearest[0]}? " if nearest else ""
    return UsageError(f"there is no {noun} {name}", f"{question}there are: {', '.join(known)}")


def verify(
    endpoint: Endpoint,
    *,
    name: str,
    published_name: str,
    clock: Clock,
    reporter: Reporter,
    level: str = QUICK,
    only: Collection[str] = (),
    require: Collection[str] | None = None,
) -> Verification:
    """Try the selected checks and report each as an event of the kind CHECK.

    ``name`` is the deployment's, ``published_name`` the model's. Once no connection can be made
    the rest is skipped. The caller adds which process it was (``process``, ``digest``).
    Raises UsageError as :func:`select_checks` does, and nothing for what the server does.
    """
    selected = select_checks(level, only, require)
    results: list[CheckResult] = []
    answer, is_reachable = "", True
    for check in selected:
        if is_reachable:
            result, exchanges = _try(check, endpoint, published_name, clock)
        else:
            result, exchanges = _skip(check), ()
        is_reachable = is_reachable and not _was_refused(exchanges)
        if check.id == ANSWER_CHECK and exchanges:
            answer = _read_text(exchanges[0])
        results.append(result)
        reporter.emit(_event(result, fraction=len(results) / len(selected), clock=clock))
    return Verification(
        name=name,
        url=endpoint.url,
        level=level,
        results=tuple(results),
        at_seconds=clock.now_seconds(),
        answer=answer,
    )


def _try(
    check: Check, endpoint: Endpoint, published_name: str, clock: Clock
) -> tuple[CheckResult, tuple[Exchange, ...]]:
    started_at = clock.monotonic_seconds()
    exchanges = _exchange_all(check, endpoint, published_name)
    judgement = _judge(check, published_name, exchanges)
    is_evidence = judgement.verdict in (Verdict.FAILED, Verdict.ERROR)
    result = CheckResult(
        check=check.id,
        title=check.title,
        verdict=judgement.verdict,
        expected=judgement.expected,
        found=judgement.found,
        exchanges=tuple(map(_shorten, exchanges)) if is_evidence else (),
        seconds=clock.monotonic_seconds() - started_at,
    )
    return result, exchanges


def _exchange_all(check: Check, endpoint: Endpoint, published_name: str) -> tuple[Exchange, ...]:
    """Send the requests in their order, up to the first that finds no server."""
    exchanges: list[Exchange] = []
    for request in check.requests(published_name):
        exchanges.append(endpoint.exchange(request))
        if _was_refused(exchanges):
            break
    return tuple(exchanges)


def _was_refused(exchanges: Sequence[Exchange]) -> bool:
    return bool(exchanges) and exchanges[-1].error_kind == "refused"


def _judge(check: Check, published_name: str, exchanges: Sequence[Exchange]) -> Judgement:
    if _was_refused(exchanges):
        return unreached(exchanges[-1].error)
    judgement = check.judge(published_name, exchanges)
    if not isinstance(judgement, Judgement):
        raise DataError(f"the check {check.id} answers no judgement")
    return judgement


def _skip(check: Check) -> CheckResult:
    return CheckResult(
        check=check.id,
        title=check.title,
        verdict=Verdict.SKIPPED,
        expected="a server that can be reached",
        found="the server could not be reached",
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
            "seconds": result.seconds,
        },
    )


def _read_text(exchange: Exchange) -> str:
    """The answer's text, bounded, and such that every file and terminal encoding takes it."""
    text = read_answer(parse_json(exchange.body)).text
    return _cut(text.encode("utf-8", "replace").decode("utf-8"))


def _shorten(exchange: Exchange) -> Exchange:
    return replace(exchange, body=_cut(exchange.body), events=_cut_events(exchange.events))


def _cut(text: str, limit_bytes: int = EVIDENCE_BYTES) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= limit_bytes:
        return text
    note = f" [cut: {len(encoded)} bytes in all]"
    return encoded[: limit_bytes - len(note)].decode("utf-8", "ignore") + note


def _cut_events(events: Sequence[str]) -> tuple[str, ...]:
    """Both ends of a long stream: how it opened, and how it ended."""
    half = EVIDENCE_BYTES // 2
    short = [_cut(event, half) for event in events]
    opening = _take(short, half)
    rest = short[len(opening) :]
    closing = _take(rest[::-1], half)[::-1]
    left_out = len(rest) - len(closing)
    note = (f"[{left_out} events left out]",) if left_out else ()
    return (*opening, *note, *closing)


def _take(events: Sequence[str], limit_bytes: int) -> Sequence[str]:
    """As many events as fit, from the first on."""
    sizes = accumulate(len(event.encode("utf-8")) for event in events)
    return events[: sum(size <= limit_bytes for size in sizes)]
