"""Promise: the earlier turns of a conversation reach the model, of the person and of the model.

A chat template that renders the last turn alone, or drops the model's own, makes a model that
forgets: each answer is fine, and no conversation is.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.chat import Message, assistant, user
from stoker.contract.judgement import Judgement
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.recall import Place, try_growth, try_recall
from stoker.model.contract import Subject
from stoker.ports import Check


def _tell_as_person(text: str, question: str) -> Sequence[Message]:
    return [user(text), assistant("I will remember that."), user(question)]


def _tell_as_model(text: str, question: str) -> Sequence[Message]:
    return [user("Please tell me a code word."), assistant(text), user(question)]


_PERSON = Place(
    title="the earlier turns of the person", symptom="history_ignored", tell=_tell_as_person
)
_MODEL = Place(
    title="the earlier turns of the model", symptom="history_ignored", tell=_tell_as_model
)


def _procedure(subject: Subject) -> Steps[Judgement]:
    # Whether a model heeds what it said itself is for the model; that it sees it is enough.
    own = yield from try_growth(subject, _MODEL)
    if isinstance(own, Judgement):
        return own
    growth = yield from try_growth(subject, _PERSON)
    if isinstance(growth, Judgement):
        return growth
    return (yield from try_recall(subject, _PERSON, has_grown=growth))


CHECK = Check(
    id="multi_turn",
    title="Earlier turns reach the model",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
