"""Promise: a model that is not there is refused readably, by an engine that looks at the name.

Some engines answer whatever model is named; that is their manner, and an answer is right there.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.completion import ask, find_shape_flaw
from stoker.contract.errors import find_refusal_flaw
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.plans import in_order
from stoker.contract.reply import find_message, find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.ports import Check

#: No server has a model of this name.
_NOBODY = "stoker-no-such-model"
_ASKED = "the name of a model that is not there"


def _requests(subject: Subject) -> Sequence[Request]:
    return (ask(_NOBODY, max_tokens=4),)


def _judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    (exchange,) = exchanges
    if exchange.status == 200 and not exchange.error:
        return _judge_answer(subject, exchange)
    flaw = find_refusal_flaw(exchange, _ASKED)
    found = f"HTTP {exchange.status}: {quote(find_message(exchange.body))}"
    return flaw or passed(f"{_ASKED} to be refused readably", found)


def _judge_answer(subject: Subject, exchange: Exchange) -> Judgement:
    title, answers_any = subject.manners.title, subject.manners.answers_any_model
    if answers_any is False:
        expected = f"{_ASKED} to be refused (HTTP 404 or 400), as {title} does"
        return failed(expected, "an answer", "wrong_model_answered")
    flaw = find_reply_flaw(exchange) or find_shape_flaw(
        parse_json(exchange.body), "chat.completion"
    )
    told = f"{title} answers whatever model is named" if answers_any else "an answer all the same"
    return flaw or passed(f"{_ASKED} to be refused readably, or to be answered", told)


CHECK = Check(
    id="errors_model",
    title="An unknown model is refused readably",
    level="full",
    plan=in_order(_requests),
    judge=_judge,
)
