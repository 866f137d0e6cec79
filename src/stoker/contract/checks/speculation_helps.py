"""Promise: of what is guessed ahead, some is kept.

A draft model of another family, a wrong head or a setting that is not heeded guesses in vain:
everything still works, and is slower than without. Answers that repeat themselves are easy to
guess; over these the server's own figures are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.contract.interview import Heard, ask_alone, find_style
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.questions import Question, Sort
from stoker.contract.speculating import REPETITIVE, Drafts, compare_metrics, read_drafts
from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.ports import Check

_EXPECTED = "more than one token per step where the next words are easy to guess"
_MAX_TOKENS = 192

#: A text repeats itself where so large a part of its runs of words stood before.
_RUN_WORDS = 3
_REPEATED_SHARE = 0.3


def _try_guessing(subject: Subject) -> Steps[Judgement]:
    style = yield from find_style(subject)
    style = replace(style, max_tokens=max(style.max_tokens, _MAX_TOKENS))
    metrics = Request(method="GET", path=subject.manners.metrics_path, is_new=True)
    before = yield from ask_one(metrics)
    questions = [Question(sort=Sort.COPY, text=text, answers=()) for text in REPETITIVE]
    heard = yield from ask_alone(subject, style, questions, is_new=True)
    after = yield from ask_one(metrics)
    fault = next((each.fault for each in heard if each.fault), None)
    return fault or _judge_drafts(subject, _find_drafts(subject, heard, before, after), heard)


def _find_drafts(
    subject: Subject, heard: Sequence[Heard], before: Exchange, after: Exchange
) -> Drafts | None:
    told = [drafts for each in heard if (drafts := read_drafts(each.exchange))]
    if told:
        steps = [each.per_step for each in told if each.per_step]
        return Drafts(
            accepted=sum(each.accepted for each in told),
            is_tried=any(each.is_tried for each in told),
            per_step=max(steps, default=None),
        )
    names = subject.manners.acceptance
    return compare_metrics(before.body, after.body, names) if after.status == 200 else None


def _judge_drafts(subject: Subject, drafts: Drafts | None, heard: Sequence[Heard]) -> Judgement:
    if drafts is None:
        return skipped(_EXPECTED, "neither replies nor metrics tell what was guessed")
    if drafts.accepted > 0:
        steps = f"{drafts.per_step:.2f} tokens a step" if drafts.per_step else "guesses are kept"
        return passed(_EXPECTED, steps)
    if drafts.is_tried:
        found = "none of what was guessed is kept, so it only costs"
        return failed(_EXPECTED, found, "nothing_accepted")
    if subject.promises(Feature.SPECULATION) and any(map(_is_repetitive, heard)):
        found = "hardly anything is guessed, although the answer repeats itself"
        return failed(_EXPECTED, found, "nothing_accepted")
    return skipped(_EXPECTED, "nothing was guessed, and nothing in the answers was easy to guess")


def _is_repetitive(heard: Heard) -> bool:
    words = heard.text.lower().split()
    runs = [tuple(words[place : place + _RUN_WORDS]) for place in range(len(words) - _RUN_WORDS)]
    return len(runs) - len(set(runs)) > _REPEATED_SHARE * max(1, len(runs))


CHECK = Check(
    id="speculation_helps",
    title="Speculation guesses tokens that are kept",
    level="full",
    plan=plan_of(_try_guessing),
    judge=judge_of(_try_guessing),
    needs=(Feature.SPECULATION,),
)
