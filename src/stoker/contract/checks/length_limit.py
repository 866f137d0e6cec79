"""Promise: an answer is no longer than was asked for, and says whether it was cut.

Clients bound their costs by the limit and ask for the rest when the answer says that it was cut.
Both names of the limit are tried: the older ``max_tokens`` and ``max_completion_tokens``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.chat import all_text, chat, count_tokens, find_form_flaw, read_choice
from stoker.contract.completion import MAX_TOKENS, ask
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

#: Nobody answers it in sixteen tokens, and hardly anybody goes on for long.
_QUESTION = "Count from 1 to 50, one number after the other."
_SHORT, _LONG = 8, 16

#: No token holds more words on the average, so a text with more was not limited.
_WORDS_PER_TOKEN = 4

_EXPECTED = "answers within their limit that say whether they were cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limited:
    """One answer under a limit. ``tokens`` is None where the reply does not count them."""

    where: str
    limit: int
    tokens: int | None
    text: str
    finish_reason: Plain


def _limits(subject: Subject) -> list[tuple[str, int, Request]]:
    # The longest first: it shows that the others were cut.
    plain = [(limit, chat(subject, _QUESTION, max_tokens=limit)) for limit in (_LONG, _SHORT, 1)]
    newer = chat(subject, _QUESTION, max_tokens=None, max_completion_tokens=_SHORT)
    streamed = chat(subject, _QUESTION, max_tokens=_SHORT, stream=True)
    return [
        *((f"with max_tokens {limit}", limit, request) for limit, request in plain),
        (f"with max_completion_tokens {_SHORT}", _SHORT, newer),
        (f"streamed, with max_tokens {_SHORT}", _SHORT, streamed),
        (f"with max_tokens {MAX_TOKENS}", MAX_TOKENS, ask(subject.published_name)),
    ]


def _procedure(subject: Subject) -> Steps[Judgement]:
    limits = _limits(subject)
    exchanges = yield from ask_each([request for _, _, request in limits])
    found = [
        _read(where, limit, exchange)
        for (where, limit, _), exchange in zip(limits, exchanges, strict=True)
    ]
    flaws = [
        find_form_flaw(exchange) or _find_flaw(limited) or _find_untold_cut(limited, found)
        for exchange, limited in zip(exchanges, found, strict=True)
    ]
    return next(filter(None, flaws), None) or passed(_EXPECTED, _describe(found))


def _read(where: str, limit: int, exchange: Exchange) -> _Limited:
    answer = read_choice(exchange)
    return _Limited(
        where=where,
        limit=limit,
        tokens=count_tokens(exchange, "completion_tokens"),
        text=all_text(answer),
        finish_reason=answer.finish_reason,
    )


def _find_flaw(limited: _Limited) -> Judgement | None:
    """What one answer alone shows."""
    where, limit, tokens, reason = (
        limited.where,
        limited.limit,
        limited.tokens,
        limited.finish_reason,
    )
    details = {"limit": limit, "tokens": tokens, "finish_reason": reason}
    words = len(limited.text.split())
    if tokens is not None and tokens > limit:
        return failed(f"at most {limit} tokens", f"{tokens} {where}", "limit_ignored", **details)
    if words > limit * _WORDS_PER_TOKEN:
        found = f"{words} words {where}: {quote(limited.text)}"
        return failed(f"at most {limit} tokens", found, "limit_ignored", **details)
    if reason not in ("stop", "length"):
        found = f"finish_reason {quote(reason)} {where}"
        return failed("finish_reason stop or length", found, "wrong_finish_reason", **details)
    if reason == "length" and tokens is not None and tokens < limit:
        found = f"finish_reason length after {tokens} tokens {where}"
        return failed(f"no cut before {limit} tokens", found, "wrong_finish_reason", **details)
    return None


def _find_untold_cut(limited: _Limited, others: Sequence[_Limited]) -> Judgement | None:
    """The longest answer goes on where this one claims to have come to its end."""
    longest = others[0]
    if limited.finish_reason != "stop" or limited.limit >= longest.limit or not limited.text:
        return None
    if len(longest.text) <= len(limited.text) or not longest.text.startswith(limited.text.strip()):
        return None
    # An answer that ended before its limit was not cut by it.
    if limited.tokens is not None and limited.tokens < limited.limit:
        return None
    found = f'finish_reason "stop" {limited.where}, although the answer goes on with a larger limit'
    return failed(
        'finish_reason "length" for an answer that was cut',
        found,
        "wrong_finish_reason",
        limit=limited.limit,
        tokens=limited.tokens,
        finish_reason="stop",
    )


def _describe(found: Sequence[_Limited]) -> str:
    counts = [f"{limited.tokens} of {limited.limit}" for limited in found if limited.tokens]
    return f"{', '.join(counts)} tokens" if counts else "no more words than the limits allow"


CHECK = Check(
    id="length_limit",
    title="Answers keep to their limit",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
