"""Promise: the pieces of an answer stay in their order, whoever else is asking.

Under load a server may hand out the tokens of an answer in another order. A fact of one word does
not show it. So several texts of words in a fixed order are to be repeated at the same time, and
are held to what came when each was asked alone. Pieces that are the same and stand elsewhere are
no other wording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stoker.contract.interview import (
    Heard,
    Style,
    ask_alone,
    find_context,
    find_style,
    hear_all,
)
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_all, judge_of, plan_of
from stoker.contract.questions import Question, Sort
from stoker.model.contract import Subject
from stoker.ports import Check

_EXPECTED = "texts repeated in the same order at the same time as alone"

#: Plain words in an order that nothing suggests, for each of a crowd another.
_TEXTS = (
    "lamp river seven coat bread window green horse",
    "table cloud apple north silver chair paper goat",
    "stone music yellow boat garden spoon winter hat",
    "clock forest sugar red bridge pencil summer cow",
    "glass butter road blue basket moon carpet fish",
    "door pepper island white ladder rain pocket dog",
    "candle field orange train mirror salt autumn bee",
    "bottle snow purple gate blanket corn harbor cat",
)
#: Room for every one of the words in pieces.
_ROOM_TOKENS = 64

#: So many that are right alone must come in another order, in two rounds; one in each is enough
#: where the letters are the same.
_LEAST_FLIPS = 2
_LEAST_SHARE = 0.5


def _try_order(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    style = replace(style, max_tokens=max(style.max_tokens, _ROOM_TOKENS))
    questions = tuple(map(_write, _TEXTS))
    alone = yield from ask_alone(subject, style, questions)
    fault = next((each.fault for each in alone if each.fault), None)
    if fault:
        return fault
    kept = [each for each in alone if _is_in_order(each)]
    if len(kept) < _LEAST_FLIPS:
        return skipped(_EXPECTED, "the model repeats no text, even when it is asked alone")
    wrong: list[list[Heard]] = []
    limited = 0
    for stream in (False, True):
        heard = yield from _ask_crowd(subject, style, questions, stream=stream)
        fault = next((each.fault for each in heard if each.fault and not each.is_limited), None)
        if fault:
            return fault
        limited += sum(each.is_limited for each in heard)
        wrong.append(_find_wrong(alone, heard))
    if limited >= len(wrong) * len(alone):
        return skipped(_EXPECTED, "the server limits requests and answered none of them")
    if any(wrong):
        # Each form may be broken by itself: the round that went worse decides, asked once more.
        stream = len(wrong[1]) > len(wrong[0])
        again = yield from _ask_crowd(subject, style, questions, stream=stream)
        first = wrong[1] if stream else wrong[0]
        flaw = _judge_wrong(first, _find_wrong(alone, again), len(kept))
        if flaw and (yield from _is_right_alone(subject, style, first)):
            return flaw
    return passed(_EXPECTED, f"{len(kept)} texts in their order with {len(alone)} at the same time")


def _write(text: str) -> Question:
    return Question(sort=Sort.COPY, text=f"Repeat exactly this: {text}", answers=(text,))


def _ask_crowd(
    subject: Subject, style: Style, questions: Sequence[Question], *, stream: bool
) -> Steps[tuple[Heard, ...]]:
    requests = [style.ask(subject, each, stream=stream, is_new=True) for each in questions]
    exchanges = yield from ask_all(requests)
    return hear_all(questions, exchanges)


def _is_in_order(heard: Heard) -> bool:
    """Whether the words stand in the answer in their order, whatever is between and around."""
    rest = heard.text.lower()
    for word in heard.question.answers[0].split():
        _, found, rest = rest.partition(word)
        if not found:
            return False
    return not heard.fault


def _find_wrong(alone: Sequence[Heard], heard: Sequence[Heard]) -> list[Heard]:
    return [
        now
        for before, now in zip(alone, heard, strict=True)
        if _is_in_order(before) and not now.fault and not _is_in_order(now)
    ]


def _is_shuffled(heard: Heard) -> bool:
    """Whether all letters of the text are there and only their order is another."""
    wanted = Counter(heard.question.answers[0].replace(" ", ""))
    return wanted <= Counter(heard.text.lower())


def _judge_wrong(first: Sequence[Heard], again: Sequence[Heard], kept: int) -> Judgement | None:
    """Enough in both rounds, since a small model may slip once."""
    most = max(_LEAST_FLIPS, _LEAST_SHARE * kept)
    is_sure = any(map(_is_shuffled, first)) and any(map(_is_shuffled, again))
    if not again or not (is_sure or min(len(first), len(again)) >= most):
        return None
    example = again[0]
    return failed(
        _EXPECTED,
        f"{len(again)} of {kept} texts that are right alone are not with {len(_TEXTS)} at the same "
        f"time: {example.quoted} in place of {example.question.answers[0]}",
        "parallel_wrong",
        parallel=len(_TEXTS),
        wrong=len(again),
        kind="order",
    )


def _is_right_alone(subject: Subject, style: Style, wrong: Sequence[Heard]) -> Steps[bool]:
    questions = [each.question for each in wrong]
    alone = yield from ask_alone(subject, style, questions, is_new=True)
    return all(map(_is_in_order, alone))


CHECK = Check(
    id="parallel_order",
    title="The pieces of an answer keep their order in a crowd",
    level="full",
    plan=plan_of(_try_order),
    judge=judge_of(_try_order),
)
