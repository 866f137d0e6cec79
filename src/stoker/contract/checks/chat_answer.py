"""Promise: a chat question gets a readable answer in the shape that clients expect.

200 and a body are not enough: broken kernels answer with one character or one word over and over,
and a server with the wrong parser or the wrong end of turn leaves its marks in the answer. The
words are not judged, a small model may say anything.
"""

from __future__ import annotations

from stoker.contract.chat import chat, find_form_flaw, read_choice
from stoker.contract.completion import (
    QUESTION,
    Answer,
    ask,
    describe_answer,
    find_completion_flaw,
    read_answer,
)
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.left_marks import find_mark_flaw
from stoker.contract.nonsense import Loop, find_loop
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import parse_json
from stoker.model.contract import Subject
from stoker.ports import Check

#: Another question, asked only of a model that answers the first one with a loop or an echo.
_OTHER_QUESTION = "Name a fruit and say in a sentence what it tastes like."
_OTHER_MAX_TOKENS = 96

#: No model repeats all of these by itself.
_ECHO_QUESTIONS = (
    _OTHER_QUESTION,
    "Which of these is an animal: a lamp, an otter, or a spoon? Answer in one word.",
)

#: Who speaks, as a template writes it before the question.
_ROLES = ("user", "human")

#: A piece so often in a row is looked into; so many words alike are no answer.
_SUSPICIOUS_COUNT = 4
_LEAST_WORDS = 24

_EXPECTED = "a readable answer to a chat question"


def _procedure(subject: Subject) -> Steps[Judgement]:
    exchange = yield from ask_one(ask(subject.published_name))
    flaw = find_completion_flaw(exchange)
    if flaw:
        return flaw
    answer = read_answer(parse_json(exchange.body))
    flaw = (
        find_mark_flaw(subject, answer)
        or (yield from _look_into_loop(subject, answer))
        or (yield from _look_into_echo(subject, answer))
    )
    return flaw or passed(_EXPECTED, describe_answer(answer))


def _look_into_loop(subject: Subject, answer: Answer) -> Steps[Judgement | None]:
    """Whether a model that loops does so whatever it is asked, to the very limit."""
    first = _find_endless_loop(answer)
    if first is None:
        return None
    request = chat(subject, _OTHER_QUESTION, max_tokens=_OTHER_MAX_TOKENS)
    exchange = yield from ask_one(request)
    second = None if find_form_flaw(exchange) else _find_endless_loop(read_choice(exchange))
    if second is None:
        return None
    is_one_word = " " not in f"{first.unit}{second.unit}" and second.count >= _LEAST_WORDS
    if first.unit != second.unit and not is_one_word:
        return None
    found = f"the same words over and over to two different questions: {quote(second.unit)}"
    return failed("an answer to the question", found, "repetition", unit=second.unit[:80])


def _look_into_echo(subject: Subject, answer: Answer) -> Steps[Judgement | None]:
    """Whether each answer begins with its own question, which a small model may do once."""
    if not _begins_with(answer, QUESTION):
        return None
    for question in _ECHO_QUESTIONS:
        exchange = yield from ask_one(chat(subject, question, max_tokens=_OTHER_MAX_TOKENS))
        if find_form_flaw(exchange) or not _begins_with(read_choice(exchange), question):
            return None
    found = f"each answer begins with its question: {quote(answer.text)}"
    return failed("an answer without the question", found, "question_echoed")


def _begins_with(answer: Answer, question: str) -> bool:
    """Of the content alone: thoughts begin so, too."""
    text = " ".join(answer.content.split()).lower() if isinstance(answer.content, str) else ""
    for role in _ROLES:
        text = text.removeprefix(role).lstrip(": ")
    return text.startswith(question.lower())


def _find_endless_loop(answer: Answer) -> Loop | None:
    loop = find_loop(answer.text, _SUSPICIOUS_COUNT)
    return loop if loop and loop.is_whole and answer.finish_reason == "length" else None


CHECK = Check(
    id="chat_answer",
    title="A chat question gets a readable answer",
    level="quick",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
