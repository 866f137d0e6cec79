"""What the guard asks the engine over HTTP, and how the replies are sorted.

:mod:`stoker.guard.run` calls it in a thread of its own: every request has a deadline, but none
may hold up the guard. What is a flaw of an answer is the contract's to say; this module must
never have an opinion of its own on it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from stoker.contract.completion import ask, find_completion_flaw
from stoker.contract.judgement import Judgement
from stoker.contract.metrics import sum_counters
from stoker.contract.reply import find_reply_flaw
from stoker.contract.run import ANSWER_CHECK, Selection, verify
from stoker.endpoints.limited import LimitedEndpoint
from stoker.guard.config import GuardConfig
from stoker.guard.values import (
    CanaryResult,
    Contract,
    Counters,
    Health,
    Observation,
    Reply,
    TryCanary,
    TryContract,
    TryCounters,
    TryHealth,
)
from stoker.model.contract import Exchange, Request, Verdict, Verification
from stoker.model.event import Event
from stoker.ports import Clock, Endpoint

#: What a server says that has too much to do (RFC 9110, RFC 6585).
_BUSY_STATUSES = (429, 503)

#: From here on a status says that the server failed, not the question (RFC 9110).
_SERVER_ERROR = 500

#: After these a promise is neither kept nor broken.
_UNTRIED = (Reply.REFUSED, Reply.TIMEOUT, Reply.BUSY)

Question = TryHealth | TryContract | TryCounters | TryCanary


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """The real time."""

    def now_seconds(self) -> float:
        """See :class:`stoker.ports.Clock`."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """See :class:`stoker.ports.Clock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See :class:`stoker.ports.Clock`."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """A reporter that tells nobody: the guard reports by its status."""

    def emit(self, event: Event) -> None:
        """See :class:`stoker.ports.Reporter`."""


def put_question(
    question: Question, config: GuardConfig, endpoint: Endpoint, clock: Clock
) -> Observation:
    """Ask, and wait for the answer or its deadline. Raises nothing for what the server does."""
    match question:
        case TryHealth():
            return _ask_health(config, endpoint)
        case TryContract():
            return _try_contract(config, endpoint, clock)
        case TryCounters():
            return _read_counters(config, endpoint)
        case TryCanary(max_tokens=tokens):
            return _ask_canary(config, endpoint, tokens)


def read_key(path: str | None) -> str | None:
    """The first line of a key file that is not empty. Raises OSError if it cannot be read."""
    if path is None:
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        return next((line.strip() for line in file if line.strip()), None)


def sort_exchange(exchange: Exchange) -> Reply:
    """How a request ended, before anybody looks at the content."""
    if exchange.error_kind == "refused":
        return Reply.REFUSED
    if exchange.error_kind == "timeout":
        return Reply.TIMEOUT
    if exchange.status in _BUSY_STATUSES:
        return Reply.BUSY
    return Reply.ERROR if exchange.error or exchange.status != 200 else Reply.GOOD


def sort_verification(verification: Verification) -> Contract:
    """How a trial of the contract ended: kept, broken, or not tried to its end."""
    if verification.has_passed:
        return Contract(reply=Reply.GOOD)
    flaws = [
        result
        for result in verification.results
        if result.verdict in (Verdict.FAILED, Verdict.ERROR)
    ]
    if not flaws:
        return Contract(reply=Reply.GARBAGE, sentence="no promise could be tried")
    first = flaws[0]
    replies = {sort_exchange(exchange) for exchange in first.exchanges}
    untried = next((reply for reply in _UNTRIED if reply in replies), Reply.GARBAGE)
    sentence = f"{first.check}: expected {first.expected}; found {first.found}"
    return Contract(reply=untried, sentence=sentence)


def _ask_health(config: GuardConfig, endpoint: Endpoint) -> Health:
    return Health(
        reply=sort_exchange(endpoint.exchange(_get(config.server.readiness_path, config)))
    )


def _get(path: str, config: GuardConfig) -> Request:
    return Request(method="GET", path=path, timeout_seconds=config.canary.timeout_seconds)


def _try_contract(config: GuardConfig, endpoint: Endpoint, clock: Clock) -> Contract:
    verification = verify(
        LimitedEndpoint(endpoint, clock, config.limits.verify_timeout_seconds),
        name=config.name,
        subject=config.server.subject,
        selection=Selection(require=config.require),
        clock=clock,
        reporter=Silent(),
    )
    return sort_verification(verification)


def _read_counters(config: GuardConfig, endpoint: Endpoint) -> Counters:
    exchange = endpoint.exchange(_get(config.canary.metrics_path or "/", config))
    reply = sort_exchange(exchange)
    if reply is not Reply.GOOD:
        return Counters(total=None, reply=reply)
    return Counters(total=sum_counters(exchange.body, config.canary.counters))


def _ask_canary(config: GuardConfig, endpoint: Endpoint, max_tokens: int) -> CanaryResult:
    request = ask(config.server.subject.published_name, max_tokens=max_tokens)
    timeout_seconds = config.canary.timeout_seconds
    exchange = endpoint.exchange(replace(request, timeout_seconds=timeout_seconds))
    if config.require is not None and ANSWER_CHECK not in config.require:
        return judge_reply(exchange)
    return judge_canary(exchange)


def judge_reply(exchange: Exchange) -> CanaryResult:
    """Whether there was an answer at all, for a server that has not promised to answer chats."""
    reply = sort_exchange(exchange)
    if reply is Reply.ERROR and not exchange.error and exchange.status < _SERVER_ERROR:
        return CanaryResult(reply=Reply.GOOD)
    sentence = "" if reply is Reply.GOOD else exchange.error or f"HTTP {exchange.status}"
    return CanaryResult(reply=reply, sentence=sentence)


def judge_canary(exchange: Exchange) -> CanaryResult:
    """Whether somebody could use the answer to the small question."""
    reply = sort_exchange(exchange)
    flaw = find_completion_flaw(exchange)
    if flaw is None:
        return CanaryResult(reply=Reply.GOOD)
    if reply is Reply.GOOD:
        reply = Reply.ERROR if find_reply_flaw(exchange) else Reply.GARBAGE
    return CanaryResult(reply=reply, sentence=_say(flaw))


def _say(flaw: Judgement) -> str:
    return f"expected {flaw.expected}; found {flaw.found}"
