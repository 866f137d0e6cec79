"""Promise: a chat question gets a readable answer in the shape that clients expect.

200 and a body are not enough: broken kernels answer with one character over and over. The words
are not judged, a small model may say anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.completion import ask, describe_answer, find_completion_flaw, read_answer
from stoker.contract.judgement import Judgement, passed
from stoker.contract.reply import parse_json
from stoker.model.contract import Exchange, Request
from stoker.ports import Check


def _requests(published_name: str) -> Sequence[Request]:
    return (ask(published_name),)


def _judge(published_name: str, exchanges: Sequence[Exchange]) -> Judgement:
    (exchange,) = exchanges
    return find_completion_flaw(exchange) or passed(
        "a readable answer to a chat question",
        describe_answer(read_answer(parse_json(exchange.body))),
    )


CHECK = Check(
    id="chat_answer",
    title="A chat question gets a readable answer",
    level="quick",
    requests=_requests,
    judge=_judge,
)
