"""Promise: a chat question gets a readable answer in the shape that clients expect.

200 and a body are not enough: broken kernels answer with one character over and over. The words
are not judged, a small model may say anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.completion import ask, describe_answer, find_completion_flaw, read_answer
from stoker.contract.judgement import Judgement, passed
from stoker.contract.plans import in_order
from stoker.contract.reply import parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.ports import Check


def _requests(subject: Subject) -> Sequence[Request]:
    return (ask(subject.published_name),)


def _judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    (exchange,) = exchanges
    return find_completion_flaw(exchange) or passed(
        "a readable answer to a chat question",
        describe_answer(read_answer(parse_json(exchange.body))),
    )


CHECK = Check(
    id="chat_answer",
    title="A chat question gets a readable answer",
    level="quick",
    plan=in_order(_requests),
    judge=_judge,
)
