"""Promise: the server's own health path says the same as a question to it.

Load balancers send users wherever it says 200. A server that says so and answers nothing gets all
of them; one that says no though it answers gets none.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.contract.completion import ask, find_shape_flaw
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_each, ask_one, judge_of, plan_of
from stoker.contract.reply import describe_status, find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.ports import Check

_EXPECTED = "a health path that says the same as a question to the model"

#: There is no such path, or not for a GET without a login: it says nothing.
_MUTE = (400, 401, 403, 404, 405, 429, 501)


def _try(subject: Subject) -> Steps[Judgement]:
    # The question goes first: a server that answers it is warm by then and has no excuse.
    question = replace(ask(subject.published_name, max_tokens=1), is_new=True)
    chat = yield from ask_one(question)
    asked = yield from ask_each([_get(path) for path in subject.manners.health_paths])
    telling = [each for each in asked if _says(each) is not None]
    if not telling:
        return skipped(_EXPECTED, f"none: {', '.join(map(_describe, asked)) or 'no path known'}")
    answers = _does_answer(chat)
    if answers is None:
        found = f"the question could not be asked: {describe_status(chat)}"
        return skipped(_EXPECTED, found)
    liars = [each for each in telling if _says(each) != answers]
    if liars and answers:
        # It may have come up in this very moment, or be slow for once.
        liars = list((yield from ask_each([each.request for each in liars])))
        liars = [each for each in liars if _says(each) is False]
    return _judge(chat, liars, telling)


def _get(path: str) -> Request:
    # SGLang's computes a token for it, and gives itself 20 s.
    return Request(method="GET", path=path, timeout_seconds=30, is_new=True)


def _says(health: Exchange) -> bool | None:
    """Whether the path says that the server is well; None where it says neither."""
    if health.error:
        return False
    if health.status in _MUTE or 300 <= health.status < 400:
        return None
    return 200 <= health.status < 300


def _does_answer(chat: Exchange) -> bool | None:
    """Whether the model answered; None where the question was not let through to it."""
    if not chat.error and 300 <= chat.status < 500:
        return None
    flaw = find_reply_flaw(chat) or find_shape_flaw(parse_json(chat.body), "chat.completion")
    return flaw is None


def _judge(chat: Exchange, liars: list[Exchange], telling: list[Exchange]) -> Judgement:
    told = ", ".join(map(_describe, liars or telling))
    answer = "the question was answered" if _does_answer(chat) else "the question was not answered"
    if not liars:
        return passed(_EXPECTED, f"{told}, and {answer}")
    reason = chat.error or describe_status(chat)
    if _does_answer(chat):
        return failed(_EXPECTED, f"{told} twice, though {answer}", "health_denies", said=told)
    return failed(_EXPECTED, f"{told}, though {answer}: {reason}", "health_lies", said=told)


def _describe(health: Exchange) -> str:
    path = health.request.path
    return f"{path} ended in {health.error}" if health.error else f"{path} says {health.status}"


CHECK = Check(
    id="health_tells_truth",
    title="The health path tells the truth",
    level="quick",
    plan=plan_of(_try),
    judge=judge_of(_try),
    is_settling=True,
)
