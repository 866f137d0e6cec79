"""Promise: very simple questions are answered rightly, as far as the model can.

A server may answer fluently and wrongly: broken weights, a wrong template, a wrong rotation of
positions. A small model is wrong now and then, a model that was never taught to answer nearly
always, and neither is the server's fault. So this fails only on what no working server does: the
same text for every question, nonsense, or an assistant that answers briefly, to the point, and
never rightly, not even where it has but to repeat a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from stoker.contract.interview import Heard, ask_alone, find_context, find_style
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.questions import QUESTIONS, TOLD, Sort
from stoker.model.contract import Subject
from stoker.ports import Check

_EXPECTED = "right answers to very simple questions"

#: A model that thinks long about each is asked so many.
_FEW_QUESTIONS = 12

#: The same text to so large a part of the questions is no answer to them.
_SAME_SHARE = 0.8

#: A single answer may go wrong by chance; of nonsense in so many the server is the cause.
_NONSENSE_SHARE = 0.25

#: Right by chance; yes and no are not counted at all.
_BY_CHANCE = 1

#: An assistant comes to its point in so many words and ends there.
_BRIEF_WORDS = 16
_ENDED_SHARE = 0.6

#: A part of the questions that tells a small model from one that knows nothing.
_FEW_RIGHT = 1 / 3


def _try_answers(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    questions = QUESTIONS[:_FEW_QUESTIONS] if style.is_thinking else QUESTIONS
    heard = yield from ask_alone(subject, style, questions)
    return (
        next((each.fault for each in heard if each.fault), None)
        or _find_nonsense(heard)
        or _find_sameness(heard)
        or _judge_right(heard)
    )


def _find_nonsense(heard: Sequence[Heard]) -> Judgement | None:
    broken = [each for each in heard if each.nonsense]
    for each in broken:
        is_sure = each.nonsense and each.nonsense.symptom == "nan"
        if each.nonsense and (is_sure or len(broken) >= _NONSENSE_SHARE * len(heard)):
            found = f"{len(broken)} of {len(heard)} answers are none: {each.nonsense.found}"
            return failed(each.nonsense.expected, found, each.nonsense.symptom, count=len(broken))
    return None


def _find_sameness(heard: Sequence[Heard]) -> Judgement | None:
    texts = Counter(" ".join(each.text.lower().split()) for each in heard)
    text, count = texts.most_common(1)[0]
    if count < _SAME_SHARE * len(heard):
        return None
    found = (
        f"{quote(text)} to {count} of {len(heard)} different questions"
        if text
        else f"nothing at all to {count} of {len(heard)} questions"
    )
    return failed("answers that depend on the question", found, "same_answer", count=count)


def _judge_right(heard: Sequence[Heard]) -> Judgement:
    open_ones = [each for each in heard if each.question.sort is not Sort.YES_OR_NO]
    right = [each for each in open_ones if each.is_right]
    found = f"{sum(each.is_right for each in heard)} of {len(heard)} right"
    if len(right) >= _FEW_RIGHT * len(open_ones):
        return passed(_EXPECTED, found)
    example = next(each for each in open_ones if not each.is_right)
    shown = f"{quote(example.question.text)} was answered {example.quoted}"
    if len(right) <= _BY_CHANCE and _is_assistant(open_ones):
        return failed(
            _EXPECTED,
            f"{found}, in brief answers that end by themselves: {shown}",
            "wrong_answers",
            right=len(right),
            asked=len(open_ones),
            repeated=sum(each.is_right for each in open_ones if each.question.sort in TOLD),
        )
    if len(right) <= _BY_CHANCE:
        return skipped(
            _EXPECTED,
            f"{found}, in answers that ramble: a model that was not taught to answer, or wrong "
            f"weights; {shown}",
        )
    return passed(_EXPECTED, f"{found}, so the model is a small one or something is wrong; {shown}")


def _is_assistant(heard: Sequence[Heard]) -> bool:
    """Whether these are the answers of a model that was taught to answer."""
    ended = sum(each.has_ended for each in heard)
    return (
        ended >= _ENDED_SHARE * len(heard)
        and 0 < median(len(each.text.split()) for each in heard) <= _BRIEF_WORDS
    )


CHECK = Check(
    id="known_answers",
    title="Simple questions get right answers",
    level="full",
    plan=plan_of(_try_answers),
    judge=judge_of(_try_answers),
)
