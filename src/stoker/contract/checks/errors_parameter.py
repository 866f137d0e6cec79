"""Promise: a wrong parameter is refused with an error that clients can read, or is harmless.

Engines differ in what they take: one treats max_tokens -1 as no limit, another clamps top_p. An
answer is right there. What no engine can make sense of must be refused with HTTP 4xx, and nothing
of it may be a server error, end the connection or harm the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stoker.contract.aftermath import find_aftermath
from stoker.contract.completion import ask, find_shape_flaw
from stoker.contract.errors import find_refusal_flaw
from stoker.contract.judgement import Judgement, failed, passed
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mistake:
    """A wrong request. ``change``: fields that replace those of a right one; ``leaves_out`` one.

    ``may_answer``: an answer is as good as a refusal.
    """

    title: str
    change: Mapping[str, Plain]
    leaves_out: str = ""
    may_answer: bool = False


#: What engines answer was seen on llama.cpp b11549, SGLang 0.5.23 and vLLM 0.32.0: the first takes
#: the last three, the others refuse them (vLLM renders any role that the chat template takes).
_MISTAKES = (
    _Mistake(title='temperature "hot"', change={"temperature": "hot"}),
    _Mistake(title='max_tokens "many"', change={"max_tokens": "many"}),
    _Mistake(title="no messages", change={}, leaves_out="messages"),
    _Mistake(
        title="max_tokens -1",
        # Where it means no limit, these end the answer soon.
        change={"max_tokens": -1, "stop": [" ", "\n", "e", "a"]},
        may_answer=True,
    ),
    _Mistake(
        title='the role "wizard"',
        change={"messages": [{"role": "wizard", "content": "What is 2+2?"}]},
        may_answer=True,
    ),
    _Mistake(title="top_p 5", change={"top_p": 5}, may_answer=True),
)


def _make(mistake: _Mistake, model: str) -> Request:
    right = ask(model, max_tokens=4)
    body = {**(right.body or {}), **mistake.change}
    return replace(
        right, body={key: body[key] for key in body if key != mistake.leaves_out}, is_new=True
    )


def _try(subject: Subject) -> Steps[Judgement]:
    answered: list[str] = []
    for mistake in _MISTAKES:
        exchange = yield from ask_one(_make(mistake, subject.published_name))
        if exchange.status == 200 and mistake.may_answer and not exchange.error:
            flaw = _find_answer_flaw(exchange, mistake.title)
            answered.append(mistake.title)
        else:
            flaw = find_refusal_flaw(exchange, mistake.title)
        if flaw:
            return flaw
    flaw = yield from find_aftermath(subject, "wrong parameters")
    refused = f"{len(_MISTAKES) - len(answered)} refusals"
    told = f"; {', '.join(answered)} answered all the same" if answered else ""
    return flaw or passed("wrong parameters to be refused readably", f"{refused}{told}")


def _find_answer_flaw(exchange: Exchange, asked: str) -> Judgement | None:
    """An answer must look like one; it may hold no word, since it was asked for oddly."""
    flaw = find_reply_flaw(exchange) or find_shape_flaw(
        parse_json(exchange.body), "chat.completion"
    )
    return flaw and failed(
        f"{asked} to be refused readably or answered", flaw.found, "error_shape", asked=asked
    )


CHECK = Check(
    id="errors_parameter",
    title="Wrong parameters are refused readably",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
)
