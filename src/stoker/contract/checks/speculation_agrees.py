"""Promise: speculation makes answers come sooner and leaves them as they are.

Guessed tokens are kept only where the model would have written them. A server that keeps others
answers fluently and wrongly. Where a request can switch speculation off, the same questions are
asked with it and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from stoker.contract.agreement import find_flips, find_new_nonsense
from stoker.contract.interview import Heard, Style, ask_alone, find_style
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.questions import QUESTIONS, Question, Sort
from stoker.contract.speculating import REPETITIVE, has_drafts
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "the same facts, and mostly the same text, with speculation as without"
_SYMPTOM = "speculation_changes_answers"
_COUNT = 8
_COUNT_THINKING = 3

#: Kernels for several tokens at once compute a little differently, so a text may part from the
#: other at some word; most of them do not.
_ALIKE = 0.6
_LEAST_FLIPS = 2


def _try_both(subject: Subject) -> Steps[Judgement]:
    off = subject.manners.acceptance.off
    if not off:
        return skipped(_EXPECTED, f"a request cannot switch it off on {subject.manners.title}")
    style = yield from find_style(subject)
    without = replace(style, fields={**style.fields, **off})
    simple = QUESTIONS[: _COUNT_THINKING if style.is_thinking else _COUNT]
    repetitive = [Question(sort=Sort.COPY, text=text, answers=()) for text in REPETITIVE]
    questions = (*simple, *repetitive)
    plain = yield from ask_alone(subject, without, questions)
    if not subject.promises(Feature.SPECULATION) and plain[0].exchange.status in (400, 422):
        return skipped(
            _EXPECTED,
            f"the server refuses a request that switches it off: "
            f"{plain[0].fault.found if plain[0].fault else ''}",
        )
    drafted = yield from ask_alone(subject, style, questions)
    fault = next((each.fault for each in (*plain, *drafted) if each.fault), None)
    if fault:
        return fault
    nonsense = find_new_nonsense(plain, drafted, where="with speculation", symptom=_SYMPTOM)
    if nonsense:
        return nonsense
    return (yield from _judge_difference(subject, (without, style), plain, drafted))


def _judge_difference(
    subject: Subject,
    styles: tuple[Style, Style],
    plain: Sequence[Heard],
    drafted: Sequence[Heard],
) -> Steps[Judgement]:
    flips = find_flips(plain, drafted)
    if len(flips) >= _LEAST_FLIPS:
        again = [plain[number].question for number in flips]
        plain_again = yield from ask_alone(subject, styles[0], again, is_new=True)
        drafted_again = yield from ask_alone(subject, styles[1], again, is_new=True)
        sure = find_flips(plain_again, drafted_again)
        if len(sure) >= _LEAST_FLIPS:
            example = sure[0]
            found = (
                f"{len(sure)} facts are right without speculation and wrong with it, twice: "
                f"{drafted_again[example].quoted} in place of {plain_again[example].quoted}"
            )
            return failed(_EXPECTED, found, _SYMPTOM, kind="wrong", wrong=len(sure))
    pairs = list(zip(plain, drafted, strict=True))
    unlike = [pair for pair in pairs if _likeness(*pair) < _ALIKE]
    if len(unlike) > len(pairs) / 2:
        one, other = unlike[0]
        found = (
            f"{len(unlike)} of {len(pairs)} texts are others: {other.quoted} with speculation, "
            f"{one.quoted} without"
        )
        return failed(_EXPECTED, found, _SYMPTOM, kind="text", unlike=len(unlike))
    if not subject.promises(Feature.SPECULATION) and not any(map(has_drafts, drafted)):
        return skipped(_EXPECTED, "nothing in the replies shows that the server speculates")
    same = sum(one.text == other.text for one, other in pairs)
    return passed(_EXPECTED, f"{same} of {len(pairs)} texts are the very same")


def _likeness(one: Heard, other: Heard) -> float:
    return SequenceMatcher(None, one.text.split(), other.text.split(), autojunk=False).ratio()


CHECK = Check(
    id="speculation_agrees",
    title="Speculation leaves the answers as they are",
    level="full",
    plan=plan_of(_try_both),
    judge=judge_of(_try_both),
    needs=(Feature.SPECULATION,),
)
