"""Promise: the system message reaches the model.

Applications put their rules there. Some chat templates have one of their own, which the given one
replaces, so a longer message is compared with a shorter one and not with none.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.chat import Message, chat, is_declined, system, user
from stoker.contract.judgement import Judgement, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.recall import Place, try_growth, try_recall
from stoker.contract.reply import describe_status
from stoker.model.contract import Subject
from stoker.ports import Check


def _tell(text: str, question: str) -> Sequence[Message]:
    return [system(text), user(question)]


_PLACE = Place(title="the system message", symptom="system_prompt_ignored", tell=_tell)


def _procedure(subject: Subject) -> Steps[Judgement]:
    # There are models without system messages; their templates refuse them.
    first = yield from ask_one(chat(subject, _tell("Be brief.", "Hello."), max_tokens=1))
    if is_declined(first):
        return skipped("a system message", f"not offered: {describe_status(first)}")
    growth = yield from try_growth(subject, _PLACE)
    if isinstance(growth, Judgement):
        return growth
    return (yield from try_recall(subject, _PLACE, has_grown=growth))


CHECK = Check(
    id="system_prompt",
    title="The system message reaches the model",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
