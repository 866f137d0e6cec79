"""Promise: several long prompts at the same time are read as well as each alone.

Long prompts fill the cache and are computed in parts, which are mixed where several come at once;
kernels that short ones never reach break there. A few prompts with different code words are asked
together, fresh. Where one goes wrong, texts of the same length are asked alone, and all is asked
again in other words. How long they are is bounded by the context, the cache and the time that a
first one took alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stoker.contract.agreement import find_flips, find_foreign_mark
from stoker.contract.documents import (
    Place,
    Scale,
    is_refused,
    measure_scale,
    read_room,
    write_document,
)
from stoker.contract.filler import make_seed
from stoker.contract.interview import (
    Heard,
    Style,
    find_context,
    find_strength,
    find_style,
    hear_all,
)
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_all, ask_each, judge_of, plan_of
from stoker.contract.questions import Question
from stoker.model.contract import Subject
from stoker.ports import Check

_EXPECTED = "the same facts from long prompts at the same time as alone"
_WHERE = "at the same time"

_MOST_AT_ONCE = 4

#: A first length, and then as much as fits. Where nobody says how much, this is tried and halved.
_FIRST_TOKENS = 2500
_UNKNOWN_CONTEXT_TOKENS = 16384
_LEAST_TOKENS = 512
#: Lengths that differ by less are one.
_LEAST_GROWTH = 1.5

#: Kept free: lengths are known to a few words in a hundred, and a cache holds blocks.
_SPARE_SHARE = 0.05
_SPARE_TOKENS = 96

#: How long all of a crowd may take by what one prompt took; time grows faster than length.
_MOST_SECONDS = 120.0
_GROWTH = 1.3
_PATIENCE_SECONDS = 900.0

#: So many of two rounds must be wrong, some in each, and so many of the same alone may be: a weak
#: model forgets at times in long texts.
_LEAST_WRONG, _LEAST_WRONG_WEAK = 3, 4
_MOST_WRONG_ALONE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What is the same for all lengths."""

    subject: Subject
    style: Style
    scale: Scale
    count: int
    is_strong: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One crowd; ``alone`` is empty where nothing went wrong, and nobody was asked alone."""

    crowd: tuple[Heard, ...]
    alone: tuple[Heard, ...] = ()
    wrong: tuple[Heard, ...] = field(default=())
    judgement: Judgement | None = None

    @property
    def nonsense(self) -> Judgement | None:
        """Why an answer is none, where all are words when they are asked alone."""
        if any(each.nonsense for each in self.alone):
            return None
        return next((each.nonsense for each in self.crowd if each.nonsense), None)


def _try_long(subject: Subject) -> Steps[Judgement]:
    count = min(_MOST_AT_ONCE, subject.parallel_requests or _MOST_AT_ONCE)
    if count < 2:
        return skipped(_EXPECTED, "the server answers one request at a time")
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    scale = yield from measure_scale(subject, style)
    if isinstance(scale, Judgement):
        return scale
    is_strong = yield from find_strength(subject, style)
    trial = _Trial(subject=subject, style=style, scale=scale, count=count, is_strong=is_strong)
    room = _find_room(trial, subject.context_tokens or _UNKNOWN_CONTEXT_TOKENS)
    first = min(_FIRST_TOKENS, room)
    seconds = 0.0
    while first >= _LEAST_TOKENS:
        (single,) = yield from _ask(trial, first, 0, count=1)
        if not (is_refused(single.exchange) and subject.context_tokens is None):
            if single.is_limited:
                return skipped(_EXPECTED, "the server limits requests")
            if single.fault:
                return single.fault
            seconds = single.exchange.seconds
            break
        room = _find_room(trial, read_room(single.exchange, first))
        first = min(first // 2, room)
    return (yield from _try_lengths(trial, _list_lengths(trial, first, room, seconds)))


def _find_room(trial: _Trial, context: int) -> int:
    """How long each prompt may be, so that all of them fit."""
    share = (trial.subject.kv_tokens or context * trial.count) // trial.count
    free = min(context, share) - trial.style.max_tokens
    return int(free * (1 - _SPARE_SHARE)) - _SPARE_TOKENS


def _list_lengths(trial: _Trial, first: int, room: int, seconds: float) -> list[int]:
    """Lengths that a crowd can be asked for in the time, by what a first prompt took alone."""
    factor = (_MOST_SECONDS / max(seconds * trial.count, 0.001)) ** (1 / _GROWTH)
    longest = int(min(room, first * factor))
    lengths = [min(first, longest)]
    if longest >= _LEAST_GROWTH * first:
        lengths.append(longest)
    return [each for each in lengths if each >= _LEAST_TOKENS]


def _try_lengths(trial: _Trial, lengths: Sequence[int]) -> Steps[Judgement]:
    right, asked, longest, limited = 0, 0, 0, 0
    for tokens in lengths:
        first = yield from _try_round(trial, tokens, 1)
        if trial.subject.context_tokens is None and any(
            is_refused(each.exchange) for each in first.crowd
        ):
            break
        judgement = first.judgement or (yield from _confirm(trial, tokens, first))
        if judgement:
            return judgement
        right += sum(each.is_right for each in first.crowd)
        limited += sum(each.is_limited for each in first.crowd)
        asked += len(first.crowd)
        longest = tokens
    found = f"{right} of {asked} facts right, {trial.count} {_WHERE}, up to about {longest} tokens"
    if not asked:
        return skipped(_EXPECTED, "no long prompts fit beside each other, in the time there is")
    if not right:
        why = "the server limits requests" if limited else "the model knows none of them alone"
        return skipped(_EXPECTED, f"{found}; {why}")
    return passed(_EXPECTED, found)


def _try_round(trial: _Trial, tokens: int, part: int) -> Steps[_Round]:
    """A crowd of prompts that nobody has sent before, and where needed the same length alone."""
    crowd = yield from _ask(trial, tokens, part, count=trial.count, at_once=True)
    judgement = _find_fault(crowd) or _find_foreign(crowd)
    if judgement or all(each.is_right or each.is_limited for each in crowd):
        return _Round(crowd=crowd, judgement=judgement)
    # Other filler around the same facts: what a crowd left in the cache may be broken, too.
    alone = yield from _ask(trial, tokens, part, count=trial.count, is_control=True)
    wrong = tuple(crowd[number] for number in find_flips(alone, crowd))
    return _Round(crowd=crowd, alone=alone, wrong=wrong)


def _ask(
    trial: _Trial,
    tokens: int,
    part: int,
    *,
    count: int,
    at_once: bool = False,
    is_control: bool = False,
) -> Steps[tuple[Heard, ...]]:
    """Prompts with facts of this part, the word at the end or at the beginning of each."""
    facts = trial.scale.facts(make_seed("long crowd", part, tokens), count)
    places = (Place.END, Place.BEGINNING)
    questions: list[Question] = []
    for number, fact in enumerate(facts):
        seed = make_seed(trial.scale.seed, "long crowd", part, tokens, number, is_control)
        words, place = trial.scale.words_for(tokens), places[number % len(places)]
        questions.append(write_document(fact, seed=seed, word_count=words, place=place))
    requests = [
        replace(
            trial.style.ask(trial.subject, question, is_new=True),
            timeout_seconds=_PATIENCE_SECONDS,
        )
        for question in questions
    ]
    exchanges = yield from (ask_all(requests) if at_once else ask_each(requests))
    return hear_all(questions, exchanges)


def _find_fault(crowd: Sequence[Heard]) -> Judgement | None:
    lost = [each.fault for each in crowd if each.fault and not each.is_limited]
    if not lost:
        return None
    return failed(
        f"an answer to each of {len(crowd)} long prompts {_WHERE}",
        f"{len(lost)} of {len(crowd)} long prompts {_WHERE} went wrong: {lost[0].found}",
        "lost_in_parallel",
        parallel=len(crowd),
        lost=len(lost),
        cause=lost[0].symptom,
    )


def _find_foreign(crowd: Sequence[Heard]) -> Judgement | None:
    for each in crowd:
        mark = find_foreign_mark(each, crowd)
        if mark:
            found = (
                f"{quote(each.question.text[-80:])} was answered {each.quoted}, but {mark} stands "
                f"in another of {len(crowd)} long prompts {_WHERE}"
            )
            expected = "each request its own answer"
            return failed(expected, found, "answers_swapped", parallel=len(crowd))
    return None


def _confirm(trial: _Trial, tokens: int, first: _Round) -> Steps[Judgement | None]:
    """Once more in other words; a server is to blame for what goes wrong in both."""
    if not first.wrong and not first.nonsense:
        return None
    second = yield from _try_round(trial, tokens, 2)
    if second.judgement:
        return second.judgement
    if first.nonsense and second.nonsense:
        found = f"{_WHERE} in prompts of about {tokens} tokens {second.nonsense.found}"
        kind = second.nonsense.symptom
        expected = f"words {_WHERE}, as alone"
        return failed(expected, found, "parallel_nonsense", kind=kind, prompt_tokens=tokens)
    wrong = (*first.wrong, *second.wrong)
    least = _LEAST_WRONG if trial.is_strong else _LEAST_WRONG_WEAK
    missed = sum(not each.is_right for each in (*first.alone, *second.alone))
    is_sure = first.wrong and second.wrong and missed <= _MOST_WRONG_ALONE
    if not is_sure or len(wrong) < min(least, 2 * trial.count - 1):
        return None
    example = wrong[-1]
    return failed(
        _EXPECTED,
        f"{len(wrong)} of {2 * trial.count} facts in prompts of about {tokens} tokens that are "
        f"right alone are wrong with {trial.count} {_WHERE}: {example.quoted} in place of "
        f"{example.question.mark}",
        "parallel_wrong",
        parallel=trial.count,
        wrong=len(wrong),
        prompt_tokens=tokens,
    )


CHECK = Check(
    id="long_parallel",
    title="Long prompts at the same time are read as well as alone",
    level="full",
    plan=plan_of(_try_long),
    judge=judge_of(_try_long),
)
