"""Promise: a prompt that the server has in its cache gets the same facts as a fresh one.

A cache may hand out what belongs to another prompt (a stale end after a shared beginning), or
numbers that were damaged while they lay there; the answer is then fluent and wrong. A prompt with
a beginning that nobody has sent before is asked fresh and warm, then prompts that share only its
first half. A code word that stands in an earlier prompt alone can come from nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.documents import Scale, measure_scale
from stoker.contract.filler import make_seed, write_filler
from stoker.contract.interview import (
    Heard,
    Style,
    ask_alone,
    find_context,
    find_style,
    hear,
    is_too_long,
)
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.questions import Fact, Question, holds_word
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "the same facts from the cache as without it"
_SYMPTOM = "cache_changes_answer"

#: Long enough for many blocks of every cache, and no more than a part of what fits.
_PROMPT_TOKENS = 900
_CONTEXT_SHARE = 1 / 3
_MOST_CONTEXT = 1 << 20

#: A fact that flips once may be the arithmetic of a small model; then fresh prompts decide.
_ROUNDS = 3
_LEAST_FLIPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What is the same for all rounds."""

    subject: Subject
    style: Style
    scale: Scale
    word_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One prompt fresh, then others that find it, or a part of it, in the cache.

    ``flips``: what went wrong although it was right fresh, in words. ``cached_tokens``: the most
    that one of them had from the cache by its own account; None where it says nothing.
    """

    judgement: Judgement | None = None
    is_refused: bool = False
    is_known: bool = False
    flips: tuple[str, ...] = ()
    cached_tokens: int | None = None


def _try_cache(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    scale = yield from measure_scale(subject, style)
    if isinstance(scale, Judgement):
        return scale
    context = min(subject.context_tokens or _MOST_CONTEXT, _MOST_CONTEXT)
    tokens = min(_PROMPT_TOKENS, int(context * _CONTEXT_SHARE))
    words = scale.words_for(tokens)
    trial = _Trial(subject=subject, style=style, scale=scale, word_count=words)
    rounds: list[_Round] = []
    for number in range(_ROUNDS):
        done = yield from _try_round(trial, number)
        if done.is_refused and subject.context_tokens is None:
            return skipped(_EXPECTED, f"a prompt of about {tokens} tokens does not fit")
        if done.judgement:
            return done.judgement
        rounds.append(done)
        if done.is_known and not any(each.flips for each in rounds):
            break
    return _judge_rounds(rounds, is_promised=subject.promises(Feature.PREFIX_CACHE))


def _judge_rounds(rounds: Sequence[_Round], *, is_promised: bool) -> Judgement:
    flips = [each.flips[0] for each in rounds if each.flips]
    if len(flips) >= _LEAST_FLIPS:
        found = f"in {len(flips)} of {len(rounds)} trials another answer: {flips[0]}"
        return failed(_EXPECTED, found, _SYMPTOM, kind="wrong", trials=len(flips))
    counts = [each.cached_tokens for each in rounds if each.cached_tokens is not None]
    told = f"{max(counts)} tokens from the cache" if counts else "no word on what was cached"
    if not any(each.is_known for each in rounds):
        return skipped(_EXPECTED, f"the model knows no code word, so nothing can be told; {told}")
    if counts and not max(counts):
        return skipped(_EXPECTED, "nothing came from a cache, by the server's own counts")
    if not counts and not is_promised:
        return skipped(
            _EXPECTED,
            "the same facts when asked again; whether a cache gave them is "
            "not known, since the server does not count what it had",
        )
    note = "; one fact went wrong once, as with small models" if flips else ""
    return passed(_EXPECTED, f"the same facts fresh and warm; {told}{note}")


def _try_round(trial: _Trial, number: int) -> Steps[_Round]:
    """Fresh, warm, two that share a half, and warm again."""
    prompts = _write_prompts(trial, number)
    cold = yield from _ask(trial, prompts[0])
    if cold.fault:
        return _Round(judgement=cold.fault, is_refused=is_too_long(cold.exchange))
    flips: list[str] = []
    counts: list[int] = []
    for prompt in (prompts[0], *prompts[1:], prompts[0]):
        warm = yield from _ask(trial, prompt)
        flaw = _find_flaw(cold, warm, [each for each in prompts if each is not prompt])
        if flaw:
            return _Round(judgement=flaw)
        counts += [warm.cached_tokens] if warm.cached_tokens is not None else []
        if cold.is_right and not warm.is_right and (yield from _is_known_fresh(trial, warm)):
            flips.append(f"{warm.quoted} in place of {warm.question.answers[0]}")
    return _Round(
        is_known=cold.is_right, flips=tuple(flips), cached_tokens=max(counts, default=None)
    )


def _write_prompts(trial: _Trial, number: int) -> tuple[Question, ...]:
    """The prompt; one with another second half; one where only the code word is another.

    They ask for the code word of the same person, which is another one in each.
    """
    first, second, third = trial.scale.facts(number + 1, 3)
    seed, half = make_seed(trial.scale.seed, number), trial.word_count // 2
    head = f"Read text number {seed}. {write_filler(seed, half)}"
    tails = [write_filler(seed + 1 + place, half // 2) for place in range(4)]
    facts = [Fact(name=first.name, word=each.word) for each in (first, second, third)]
    return (
        facts[0].ask(f"{head} {tails[0]} {facts[0].sentence} {tails[1]}"),
        facts[1].ask(f"{head} {tails[2]} {facts[1].sentence} {tails[3]}"),
        facts[2].ask(f"{head} {tails[0]} {facts[2].sentence} {tails[1]}"),
    )


def _ask(trial: _Trial, question: Question) -> Steps[Heard]:
    exchange = yield from ask_one(trial.style.ask(trial.subject, question, is_new=True))
    return hear(question, exchange)


def _is_known_fresh(trial: _Trial, heard: Heard) -> Steps[bool]:
    """Whether the very same text is understood behind a beginning that is in no cache."""
    question = heard.question
    seed = make_seed(trial.scale.seed, question.text)
    fresh = Question(
        sort=question.sort, text=f"Text number {seed}. {question.text}", answers=question.answers
    )
    (control,) = yield from ask_alone(trial.subject, trial.style, [fresh], is_new=True)
    return control.is_right


def _find_flaw(cold: Heard, warm: Heard, others: Sequence[Question]) -> Judgement | None:
    """What proves by itself that the cache is to blame."""
    if warm.fault:
        return warm.fault
    if warm.nonsense and not cold.nonsense:
        found = f"from the cache {warm.nonsense.found}; fresh {cold.quoted}"
        kind = warm.nonsense.symptom
        return failed("words from the cache, as fresh", found, _SYMPTOM, kind=kind)
    for other in others:
        if not warm.is_right and holds_word(warm.text, other.mark):
            found = (
                f"{warm.quoted} in place of {warm.question.mark}: {other.mark} stands in an "
                "earlier prompt that shares the beginning, and not in this one"
            )
            return failed(_EXPECTED, found, _SYMPTOM, kind="stale")
    return None


CHECK = Check(
    id="cache_answers",
    title="The prefix cache changes no answer",
    level="full",
    plan=plan_of(_try_cache),
    judge=judge_of(_try_cache),
)
