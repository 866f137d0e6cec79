"""Promise: the first sampled answer comes as promptly as a greedy one.

Sampling runs kernels of its own. A server with a cold cache compiled one for 92 seconds there,
while greedy answers, which all warm-ups ask for, came at once; its users waited.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.contract.completion import ask, find_completion_flaw
from stoker.contract.judgement import Judgement, failed, passed
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import find_reply_flaw
from stoker.model.contract import Exchange, Request, Subject
from stoker.ports import Check

_MAX_TOKENS = 8

#: Long enough to see how long it takes.
_TIMEOUT_SECONDS = 180.0

#: Sampling costs next to nothing; this much is the difference of a busy moment.
_MOST_SECONDS = 10.0
_MOST_TIMES = 10

#: Less than that is a wait for once as well, where the second try takes this part of it at most.
_SUSPECT_SECONDS = 5.0
_SUSPECT_TIMES = 3
_ONCE_SHARE = 0.5

_EXPECTED = "the first sampled answer as promptly as a greedy one"


def _greedy(subject: Subject) -> Request:
    return replace(
        ask(subject.published_name, max_tokens=_MAX_TOKENS), timeout_seconds=_TIMEOUT_SECONDS
    )


def _sampled(subject: Subject) -> Request:
    greedy = _greedy(subject)
    # Not of the OpenAI interface: a stranger might refuse it.
    more = {"top_k": 20} if subject.manners.engine else {}
    body = {**(greedy.body or {}), "temperature": 0.8, "top_p": 0.9, **more}
    return replace(greedy, body=body, is_new=True)


def _try(subject: Subject) -> Steps[Judgement]:
    greedy = yield from ask_one(_greedy(subject))
    if find_reply_flaw(greedy):
        return find_reply_flaw(greedy) or failed(_EXPECTED, "no greedy answer")
    sampled = yield from ask_one(_sampled(subject))
    is_timeout = sampled.error_kind == "timeout"
    is_suspect = sampled.seconds > _suspect_seconds(greedy)
    flaw = find_completion_flaw(sampled)
    if not flaw and not is_suspect and not is_timeout:
        return passed(_EXPECTED, f"{_figures(greedy, sampled)}")
    second = yield from ask_one(_sampled(subject))
    if is_timeout or sampled.seconds > _limit_seconds(greedy):
        return _tell_slow(greedy, sampled, second, limit_seconds=_limit_seconds(greedy))
    # A busy server is slow twice.
    is_once = not second.error and second.seconds <= _ONCE_SHARE * sampled.seconds
    if is_suspect and is_once:
        return _tell_slow(greedy, sampled, second, limit_seconds=_suspect_seconds(greedy))
    # A small model may fall silent once by the luck of the draw.
    flaw = flaw and find_completion_flaw(second)
    return flaw or passed(
        _EXPECTED, f"{_figures(greedy, sampled)}; at the second try {_describe(second)}"
    )


def _limit_seconds(greedy: Exchange) -> float:
    return max(_MOST_SECONDS, _MOST_TIMES * greedy.seconds)


def _suspect_seconds(greedy: Exchange) -> float:
    return max(_SUSPECT_SECONDS, _SUSPECT_TIMES * greedy.seconds)


def _describe(exchange: Exchange) -> str:
    return exchange.error or f"{exchange.seconds:.1f} s"


def _figures(greedy: Exchange, sampled: Exchange) -> str:
    return f"{sampled.seconds:.1f} s, greedy {greedy.seconds:.1f} s"


def _tell_slow(
    greedy: Exchange, sampled: Exchange, second: Exchange, *, limit_seconds: float
) -> Judgement:
    end = "no whole answer after " if sampled.error else ""
    return failed(
        f"{_EXPECTED}, within {limit_seconds:.0f} s",
        f"{end}{_figures(greedy, sampled)}; at the second try {_describe(second)}",
        "slow_first_sample",
        greedy_seconds=round(greedy.seconds, 3),
        sampled_seconds=round(sampled.seconds, 3),
        second_seconds=round(second.seconds, 3),
    )


CHECK = Check(
    id="sampled_in_time",
    title="The first sampled answer comes promptly",
    level="quick",
    plan=plan_of(_try),
    judge=judge_of(_try),
    is_settling=True,
)
