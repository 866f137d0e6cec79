"""Promise: an answer does not depend on who else is asking.

Under load a server may mix up its requests, break down in kernels that only large batches use, or
drop one of many. Each question differs from the others, so an answer that belongs to another one
is noticed. Wordings may differ from those alone; a fact that a small model gets wrong once may be
the arithmetic of a larger batch, so such questions are asked again, alone and in a crowd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.contract.agreement import find_flips, find_foreign_mark, find_new_nonsense
from stoker.contract.documents import Place, write_document
from stoker.contract.interview import (
    Heard,
    Style,
    ask_alone,
    find_context,
    find_style,
    hear_all,
    is_too_long,
)
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_all, judge_of, plan_of
from stoker.contract.questions import QUESTIONS, Question, make_facts
from stoker.model.contract import Subject
from stoker.ports import Check

_EXPECTED = "the same facts at the same time as alone"
_WHERE = "at the same time"

#: Mixed lengths: so many words of filler around a code word, in the order of the questions.
_FILLER_WORDS = (20, 350, 60, 200, 30, 500, 120, 40)
#: A context that is smaller than the longest of them gets the shorter ones.
_TOKENS_PER_WORD = 2
_SPARE_TOKENS = 300

#: One of four is long, so that the first eight are mixed too.
_SHORT_PER_LONG = 3

#: How many at once; models that think long about each are asked fewer.
_CROWDS = (8, 32)
_CROWDS_THINKING = (8, 12)

#: So many facts, and such a part of those that are right alone each time, must be wrong in some
#: round, and some of them in the rounds that repeat it. Very many are enough without.
_LEAST_FLIPS = 3
_LEAST_SHARE = 0.15
_LEAST_AGAIN = 2
_MANY_FLIPS = 4
_MANY_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What is the same for all rounds. ``alone`` is the baseline, in the order of the questions."""

    subject: Subject
    style: Style
    alone: tuple[Heard, ...]


def _try_crowds(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    crowds = _CROWDS_THINKING if style.is_thinking else _CROWDS
    questions = _mix_questions(subject, crowds[-1])
    alone = yield from ask_alone(subject, style, questions)
    if subject.context_tokens is None:
        # Where nobody says what fits, some of them may be too long.
        alone = tuple(each for each in alone if not is_too_long(each.exchange)) or alone
    fault = next((each.fault for each in alone if each.fault), None)
    if fault:
        return fault
    trial = _Trial(subject=subject, style=style, alone=alone)
    flipped: dict[int, Heard] = {}
    limited = 0
    for count in crowds:
        for stream in (False, True):
            heard = yield from _ask_crowd(trial, count, stream=stream)
            flaw = _find_flaw(trial, heard)
            if flaw:
                return flaw
            limited += sum(each.is_limited for each in heard)
            flipped |= {number: heard[number] for number in find_flips(alone[:count], heard)}
    flaw = (yield from _confirm(trial, flipped)) if flipped else None
    return flaw or _sum_up(trial, crowds, limited=limited, flips=len(flipped))


def _mix_questions(subject: Subject, count: int) -> tuple[Question, ...]:
    """The simple questions, and after each few a longer one."""
    short = iter(QUESTIONS)
    facts = iter(make_facts(len(QUESTIONS), len(_FILLER_WORDS)))
    mixed: list[Question] = []
    for number, wanted in enumerate(_FILLER_WORDS):
        words = wanted
        if subject.context_tokens is not None:
            room = (subject.context_tokens - _SPARE_TOKENS) // _TOKENS_PER_WORD
            words = max(0, min(wanted, room))
        place = tuple(Place)[number % len(Place)]
        mixed.append(write_document(next(facts), seed=number, word_count=words, place=place))
        mixed += [next(short) for _ in range(_SHORT_PER_LONG)]
    return tuple(mixed[:count])


def _ask_crowd(trial: _Trial, count: int, *, stream: bool) -> Steps[tuple[Heard, ...]]:
    questions = [each.question for each in trial.alone[:count]]
    requests = [trial.style.ask(trial.subject, question, stream=stream) for question in questions]
    exchanges = yield from ask_all(requests)
    return hear_all(questions, exchanges)


def _find_flaw(trial: _Trial, heard: Sequence[Heard]) -> Judgement | None:
    """What one round alone is enough for."""
    alone = trial.alone[: len(heard)]
    return (
        _find_fault(heard)
        or _find_swap(alone, heard)
        or find_new_nonsense(alone, heard, where=_WHERE, symptom="parallel_nonsense")
    )


def _find_fault(heard: Sequence[Heard]) -> Judgement | None:
    lost = [each.fault for each in heard if each.fault and not each.is_limited]
    if not lost:
        return None
    form = "streams" if heard[0].exchange.request.stream else "requests"
    found = f"{len(lost)} of {len(heard)} {form} {_WHERE} went wrong: {lost[0].found}"
    return failed(
        f"an answer to each of {len(heard)} {form} {_WHERE}",
        found,
        "lost_in_parallel",
        parallel=len(heard),
        lost=len(lost),
        cause=lost[0].symptom,
    )


def _find_swap(alone: Sequence[Heard], heard: Sequence[Heard]) -> Judgement | None:
    """An answer with a word that only another of the questions holds: it belongs to that one."""
    for before, now in zip(alone, heard, strict=True):
        mark = find_foreign_mark(now, heard)
        if mark and mark not in before.text:
            found = (
                f"{quote(now.question.text[-80:])} was answered {now.quoted}, but "
                f"{mark} stands in another request of {len(heard)} {_WHERE}"
            )
            return failed(
                "each request its own answer", found, "answers_swapped", parallel=len(heard)
            )
    return None


def _confirm(trial: _Trial, flipped: Mapping[int, Heard]) -> Steps[Judgement | None]:
    """Two more rounds, and what went wrong in any of them once more alone."""
    repeated: dict[int, Heard] = {}
    for stream in (False, True):
        heard = yield from _ask_crowd(trial, len(trial.alone), stream=stream)
        flaw = _find_flaw(trial, heard)
        if flaw:
            return flaw
        repeated |= {number: heard[number] for number in find_flips(trial.alone, heard)}
    wrong = {**flipped, **repeated}
    numbers = sorted(wrong)
    questions = [trial.alone[number].question for number in numbers]
    alone = yield from ask_alone(trial.subject, trial.style, questions, is_new=True)
    sure = [number for number, heard in zip(numbers, alone, strict=True) if heard.is_right]
    if not _are_too_many(trial, len(sure), sum(number in repeated for number in sure)):
        return None
    right = sum(each.is_right for each in trial.alone)
    found = (
        f"{len(sure)} of {right} facts that are right alone are wrong {_WHERE}: "
        f"{wrong[sure[0]].quoted} in place of {trial.alone[sure[0]].quoted}"
    )
    parallel = len(trial.alone)
    return failed(_EXPECTED, found, "parallel_wrong", parallel=parallel, wrong=len(sure))


def _are_too_many(trial: _Trial, sure: int, again: int) -> bool:
    """Whether so many flips, and so many of them in the repetition, are no small model's."""
    right = sum(each.is_right for each in trial.alone)
    if sure >= max(_MANY_FLIPS, _MANY_SHARE * right):
        return True
    return again >= _LEAST_AGAIN and sure >= max(_LEAST_FLIPS, _LEAST_SHARE * right)


def _sum_up(trial: _Trial, crowds: Sequence[int], *, limited: int, flips: int) -> Judgement:
    asked = 2 * sum(crowds)
    if limited >= asked:
        return skipped(_EXPECTED, "the server limits requests and answered none of them")
    right = sum(each.is_right for each in trial.alone)
    numbers = " and ".join(map(str, crowds))
    found = f"{right} facts that are right alone, right with {numbers} {_WHERE}, plain and streamed"
    if flips:
        found += f"; {flips} of them not every time, as small models do"
    if limited:
        found += f"; {limited} of {asked} requests were refused, since the server limits them"
    return passed(_EXPECTED, found)


CHECK = Check(
    id="parallel_answers",
    title="Answers do not depend on who else is asking",
    level="full",
    plan=plan_of(_try_crowds),
    judge=judge_of(_try_crowds),
)
