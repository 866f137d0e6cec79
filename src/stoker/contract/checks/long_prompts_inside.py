"""Promise: what stands inside a long prompt is read, not only what stands at its ends.

A server that hands on the first and the last part of a long prompt alone answers questions about
its ends as well as ever. So facts are told at several places between. Small models forget some of
them on correct servers; that all are lost, at a length where the ends are known and in words that
are known in a short text of the same form, is no forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.documents import Scale, is_refused, measure_scale, read_room, write_at
from stoker.contract.filler import make_seed
from stoker.contract.interview import (
    Heard,
    Style,
    ask_alone,
    find_context,
    find_strength,
    find_style,
)
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.model.contract import Subject
from stoker.ports import Check

_EXPECTED = "facts known wherever they stand in a long prompt"

#: Which part of the filler stands before the fact.
_INNER = (0.15, 0.35, 0.5, 0.7, 0.9)
_ENDS = (0.0, 1.0)

#: A model that knows nearly all of these in a short text of the same form is held to the long one.
_SHORT_TOKENS = 300
_LEAST_SHORT = len(_INNER) - 1

#: Lengths in tokens, and the part of the context that they may fill at most. A weak model truly
#: loses what stands in the middle of more than the first.
_LENGTHS_TOKENS = (1000, 2500, 8000)
_LENGTHS_WEAK_TOKENS = (1000,)
_CONTEXT_SHARE = 1 / 2
_LEAST_TOKENS = 450
_UNKNOWN_CONTEXT_TOKENS = 16384

#: A strong model knows more than one of five; all must be lost by a weak one.
_MOST_KNOWN_STRONG = 1

#: Where one prompt takes longer than this by what was measured, a longer one is not tried.
_MOST_SECONDS = 60.0
_GROWTH = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What is the same for all lengths."""

    subject: Subject
    style: Style
    scale: Scale
    is_strong: bool


def _try_inside(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    scale = yield from measure_scale(subject, style)
    if isinstance(scale, Judgement):
        return scale
    is_strong = yield from find_strength(subject, style)
    trial = _Trial(subject=subject, style=style, scale=scale, is_strong=is_strong)
    room = int((subject.context_tokens or _UNKNOWN_CONTEXT_TOKENS) * _CONTEXT_SHARE)
    known: list[str] = []
    before = 0.0
    for wanted in _LENGTHS_TOKENS if is_strong else _LENGTHS_WEAK_TOKENS:
        tokens = min(wanted, room)
        is_done = known and tokens < wanted * _CONTEXT_SHARE
        if tokens < _LEAST_TOKENS or is_done or before > _MOST_SECONDS:
            break
        heard = yield from _ask(trial, tokens, _INNER, part=0)
        refused = next((each for each in heard if is_refused(each.exchange)), None)
        if refused and subject.context_tokens is None:
            room = int(read_room(refused.exchange, tokens) * _CONTEXT_SHARE)
            continue
        judgement = yield from _judge_length(trial, tokens, heard)
        if judgement:
            return judgement
        known.append(f"{_count(heard)} of {len(heard)} known in about {tokens} tokens")
        seconds = max(each.exchange.seconds for each in heard)
        before = seconds * (_LENGTHS_TOKENS[1] / _LENGTHS_TOKENS[0]) ** _GROWTH
    if not known:
        return skipped(_EXPECTED, "no long prompt fits")
    return passed(_EXPECTED, "; ".join(known))


def _ask(
    trial: _Trial, tokens: int, shares: Sequence[float], *, part: int
) -> Steps[tuple[Heard, ...]]:
    """A prompt for each place, each with a fact of its own; another ``part`` has other words."""
    words = trial.scale.words_for(tokens)
    facts = trial.scale.facts(make_seed("inside", part, tokens, len(shares)), len(shares))
    seed = make_seed(trial.scale.seed, "inside", part, tokens)
    questions = [
        write_at(fact, seed=seed, word_count=words, share=share)
        for fact, share in zip(facts, shares, strict=True)
    ]
    return (yield from ask_alone(trial.subject, trial.style, questions, is_new=True))


def _count(heard: Sequence[Heard]) -> int:
    return sum(each.is_right for each in heard)


def _is_lost(trial: _Trial, heard: Sequence[Heard]) -> bool:
    return _count(heard) <= (_MOST_KNOWN_STRONG if trial.is_strong else 0)


def _judge_length(trial: _Trial, tokens: int, heard: Sequence[Heard]) -> Steps[Judgement | None]:
    """Blame a server for what is lost twice, where the model knows the ends and short texts."""
    fault = next((each.fault for each in heard if each.fault), None)
    if fault or not _is_lost(trial, heard):
        return fault
    short = yield from _ask(trial, _SHORT_TOKENS, _INNER, part=1)
    if _count(short) < _LEAST_SHORT:
        return skipped(
            _EXPECTED,
            f"the model knows {_count(short)} of {len(short)} facts in short texts, too few to "
            "judge long ones",
        )
    ends = yield from _ask(trial, tokens, _ENDS, part=1)
    again = yield from _ask(trial, tokens, _INNER, part=2)
    fault = next((each.fault for each in (*short, *ends, *again) if each.fault), None)
    if fault or not all(each.is_right for each in ends) or not _is_lost(trial, again):
        return fault
    example = again[len(again) // 2]
    return failed(
        _EXPECTED,
        f"in prompts of about {tokens} tokens {_count(again)} of {len(again)} code words between "
        f"the ends are known, twice ({example.quoted} in place of {example.question.mark}); those "
        f"at the ends are, and in short texts {_count(short)} of {len(short)}",
        "long_prompt_forgets",
        prompt_tokens=tokens,
        places=list(_INNER),
    )


CHECK = Check(
    id="long_prompts_inside",
    title="What stands inside a long prompt is read",
    level="full",
    plan=plan_of(_try_inside),
    judge=judge_of(_try_inside),
)
