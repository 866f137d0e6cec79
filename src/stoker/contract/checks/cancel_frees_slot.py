"""Promise: a client that goes away frees its place at once.

Users close windows and gateways time out. A server that computes on for nobody keeps the others
waiting. Streams are left after a few events, and a question is asked: it must not wait, and the
gauge of running requests, where there is one, must be back where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stoker.contract.abandoning import SHORT_SHARE, follows_length, is_suspect, is_too_late
from stoker.contract.completion import DONE, ask
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.metrics import sum_counters
from stoker.contract.procedure import Steps, ask_all, ask_one, judge_of, plan_of
from stoker.contract.published import LIST, read_context_tokens
from stoker.contract.reply import describe_status, find_reply_flaw
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_EXPECTED = "answers to clients that have gone to be given up"

#: After so many events a stream is left.
_EVENTS = 8

#: An abandoned answer is to last long, but not for ever where it is not given up; a shorter one
#: than the least could not be told from a question.
_MOST_TOKENS = 8192
_LEAST_TOKENS = 400
_UNKNOWN_CONTEXT_TOKENS = 2048

#: For the prompt and the template.
_PROMPT_TOKENS = 200

#: Of the questions in between; computing them is also what makes engines bring a gauge up to date.
_QUESTION_TOKENS = 32
_MOST_ROUNDS = 200

#: So many are left at once where a gauge tells; every place must be taken where none does.
_GAUGED_CLIENTS = 4
_UNGAUGED_CLIENTS = 32
_CLIENTS_FOR_UNKNOWN = 2
_TIMEOUT_SECONDS = 120.0

#: The gauge may still hold our last request for a moment.
_GLANCES = 4


def _count(subject: Subject, tokens: int, *, stream: bool = False) -> Request:
    simple = ask(subject.published_name, max_tokens=tokens, stream=stream)
    messages: list[Plain] = [{"role": "user", "content": "Count from 1 to 10000."}]
    return replace(
        simple,
        body={**(simple.body or {}), "messages": messages, "ignore_eos": True},
        timeout_seconds=_TIMEOUT_SECONDS,
        stop_after_events=_EVENTS if stream else 0,
        is_new=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """How the server is before anybody leaves. ``running`` is None where it does not tell."""

    alone_seconds: float
    running: float | None
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """How long it took until there was room again, or that there was none.

    ``is_full``: all that were left are still there. ``running``: what the gauge showed last.
    """

    seconds: float
    is_over: bool
    is_full: bool = False
    running: float | None = None


def _try(subject: Subject) -> Steps[Judgement]:
    listing = yield from ask_one(LIST)
    published = read_context_tokens(listing, subject.published_name)
    context = subject.context_tokens or published or _UNKNOWN_CONTEXT_TOKENS
    tokens = min(_MOST_TOKENS, context - _PROMPT_TOKENS)
    if tokens < _LEAST_TOKENS:
        return skipped(_EXPECTED, f"a context of {context} tokens is too short to tell")
    # Twice, since a first request may warm something up.
    yield from ask_one(_count(subject, _QUESTION_TOKENS))
    alone = yield from ask_one(_count(subject, _QUESTION_TOKENS))
    flaw = _find_hindrance(alone)
    if flaw:
        return flaw
    running = yield from _read_rest(subject)
    most = _UNGAUGED_CLIENTS if running is None else _GAUGED_CLIENTS
    places = subject.parallel_requests or _CLIENTS_FOR_UNKNOWN
    if running is None and places > most:
        return skipped(_EXPECTED, f"no gauge of running requests, and {places} places are too many")
    base = _Base(alone_seconds=alone.seconds, running=running, clients=min(places, most))
    return (yield from _compare(subject, base, tokens))


def _find_hindrance(exchange: Exchange) -> Judgement | None:
    """Why nothing can be tried: the server refuses such requests, or fails at them."""
    if not exchange.error and 400 <= exchange.status < 500:
        found = f"a long answer cannot be asked for: {describe_status(exchange)}"
        return skipped(_EXPECTED, found)
    return find_reply_flaw(exchange)


def _read_rest(subject: Subject) -> Steps[float | None]:
    """What the gauge shows when nothing of ours runs."""
    least: float | None = None
    for _ in range(_GLANCES):
        running, _seconds = yield from _read_running(subject)
        if running is None:
            return None
        least = running if least is None else min(least, running)
        if least <= 0:
            break
    return least


def _read_running(subject: Subject) -> Steps[tuple[float | None, float]]:
    """How many requests are being computed, None where the server does not tell; and how long it
    took to say so."""
    manners = subject.manners
    if not manners.running:
        return None, 0.0
    request = Request(method="GET", path=manners.metrics_path, is_new=True, timeout_seconds=30)
    exchange = yield from ask_one(request)
    if exchange.error or exchange.status != 200:
        return None, exchange.seconds
    return sum_counters(exchange.body, manners.running), exchange.seconds


def _compare(subject: Subject, base: _Base, tokens: int) -> Steps[Judgement]:
    """Leave long answers and, where there was no room for long after that, short ones, too."""
    first = yield from _leave(subject, base, tokens)
    if isinstance(first, Judgement):
        return first
    if not first.is_over:
        return _tell_unclear(first) if _is_shared(base) else _tell_stuck(base, first)
    if not is_suspect(first.seconds, alone_seconds=base.alone_seconds):
        return _tell_freed(subject, base, first)
    short = yield from _leave(subject, base, int(tokens * SHORT_SHARE))
    second = yield from _leave(subject, base, tokens)
    if isinstance(short, Judgement) or isinstance(second, Judgement):
        return _tell_freed(subject, base, first)
    longs = (first.seconds, second.seconds)
    if not follows_length(long_seconds=longs, short_seconds=short.seconds):
        return _tell_freed(subject, base, first)
    if _is_shared(base):
        return _tell_unclear(first)
    told = (
        f"there was no room for {first.seconds:.1f} s and {second.seconds:.1f} s after long answers"
        f" were left, and for {short.seconds:.1f} s after short ones"
    )
    return _tell_ignored(base, told)


def _is_shared(base: _Base) -> bool:
    return base.running is not None and base.running > 0


def _leave(subject: Subject, base: _Base, tokens: int) -> Steps[_Wait | Judgement]:
    """Begin answers of so many tokens, leave them, and wait for room; a judgement where there was
    nothing to leave."""
    stream = _count(subject, tokens, stream=True)
    streams = yield from ask_all([stream] * base.clients)
    begun = [each for each in streams if each.status == 200 and len(each.events) >= _EVENTS]
    if any(DONE not in each.events for each in begun):
        return (yield from _wait(subject, base))
    few = f"a stream of {len(streams[0].events)} events is too short to be left"
    return _find_hindrance(streams[0]) or skipped(_EXPECTED, few)


def _wait(subject: Subject, base: _Base) -> Steps[_Wait | Judgement]:
    """Ask until there is room: the question is answered and the gauge is where it was."""
    seconds, is_full, running = 0.0, True, base.running
    for _ in range(_MOST_ROUNDS):
        question = yield from ask_one(_count(subject, _QUESTION_TOKENS))
        seconds += question.seconds
        if question.error_kind == "timeout":
            return _Wait(seconds=seconds, is_over=False, is_full=True, running=running)
        flaw = find_reply_flaw(question)
        if flaw:
            return flaw
        running, glance_seconds = yield from _read_running(subject)
        if base.running is None or running is None or running <= base.running:
            return _Wait(seconds=seconds, is_over=True, running=running)
        seconds += glance_seconds
        # Fewer than were left may be requests of others.
        is_full = is_full and running >= base.running + base.clients
        if is_too_late(seconds, alone_seconds=base.alone_seconds):
            break
    return _Wait(seconds=seconds, is_over=False, is_full=is_full, running=running)


def _tell_stuck(base: _Base, wait: _Wait) -> Judgement:
    gauge = "" if wait.running is None else f", {wait.running:g} requests were running"
    told = f"{wait.seconds:.1f} s later there was no room yet{gauge}"
    return _tell_ignored(base, told) if wait.is_full else _tell_unclear(wait)


def _tell_ignored(base: _Base, told: str) -> Judgement:
    found = f"{base.clients} clients left; {told}; a question takes {base.alone_seconds:.1f} s"
    return failed(_EXPECTED, found, "cancel_ignored", clients=base.clients)


def _tell_unclear(wait: _Wait) -> Judgement:
    gauge = "" if wait.running is None else f", {wait.running:g} running"
    found = f"it cannot be told beside the requests of others: {wait.seconds:.1f} s later{gauge}"
    return skipped(_EXPECTED, found)


def _tell_freed(subject: Subject, base: _Base, wait: _Wait) -> Judgement:
    told = f"{base.clients} clients left; there was room again within {wait.seconds:.1f} s"
    if base.running is None and subject.parallel_requests is None:
        return skipped(_EXPECTED, f"neither a gauge nor the number of places is known; {told}")
    return passed(_EXPECTED, told)


CHECK = Check(
    id="cancel_frees_slot",
    title="A client that goes away frees its place",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
)
