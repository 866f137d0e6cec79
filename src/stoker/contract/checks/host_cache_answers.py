"""Promise: what comes back from the cache in host memory is what was put there.

A hierarchical cache moves the numbers of a prompt to host memory when the device needs the room,
and back when the prompt comes again. Where that goes wrong the answer is fluent and wrong. Prompts
with code words are asked until they are cached, others push them out, and then they are asked
again: the words stand only in the part that must have come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from stoker.contract.agreement import find_flips, find_foreign_mark, find_new_nonsense
from stoker.contract.chat import find_form_flaw
from stoker.contract.documents import Place, Scale, measure_scale, write_document
from stoker.contract.filler import make_seed
from stoker.contract.interview import Heard, Style, ask_alone, find_context, find_style, is_too_long
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_all, judge_of, plan_of
from stoker.contract.questions import Question
from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.ports import Check

_EXPECTED = "the same facts after the prompts were pushed out of the device's cache"
_SYMPTOM = "host_cache_changes_answer"
_WHERE = "after a return from host memory"

_PROMPTS = 4
_PROMPT_TOKENS = 600
_CONTEXT_SHARE = 1 / 3
_MOST_CONTEXT = 1 << 20
#: Some caches copy to the host only what was asked for more than once.
_WARM_ROUNDS = 2

#: How much is sent to push them out: more than the cache holds; where that is not known, some
#: contexts full. A server that may have no such cache at all is not asked for very many.
_SURPLUS = 1.25
_CONTEXTS = 4
_LEAST_TOKENS, _MOST_TOKENS_IN_DOUBT = 8192, 32768
_PUSH_SHARE = 0.75
_UNKNOWN_CONTEXT = 1200
_MOST_PUSH_TOKENS = 16384
_PUSHES_AT_ONCE = 4
_MOST_PUSHES = 800
_MOST_SECONDS = 300.0
_MOST_SECONDS_IN_DOUBT = 90.0
#: One of them should not take longer than this by what the first prompts took.
_PUSH_SECONDS = 20.0
_PATIENCE_SECONDS = 600.0

_LEAST_FLIPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What is the same in all steps. ``seconds``: how long a fresh prompt took at most."""

    subject: Subject
    style: Style
    scale: Scale
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Push:
    """What was sent to push the prompts out."""

    tokens: int = 0
    is_enough: bool = True
    fault: Judgement | None = None


def _try_return(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    style = yield from find_style(subject)
    scale = yield from measure_scale(subject, style)
    if isinstance(scale, Judgement):
        return scale
    trial = _Trial(subject=subject, style=style, scale=scale)
    questions = _write_prompts(trial)
    cold = yield from ask_alone(subject, style, questions, is_new=True)
    seconds = max(each.exchange.seconds for each in cold)
    flaw = next((each.fault for each in cold if each.fault), None)
    if subject.context_tokens is None and is_too_long(cold[0].exchange):
        return skipped(_EXPECTED, "prompts that are long enough do not fit")
    for _ in range(_WARM_ROUNDS):
        warm = yield from ask_alone(subject, style, questions, is_new=True)
        # What flips already here is the matter of another check.
        cold = tuple(old if new.is_right else new for old, new in zip(cold, warm, strict=True))
    if flaw:
        return flaw
    return (yield from _push_and_ask(replace(trial, seconds=seconds), cold))


def _push_and_ask(trial: _Trial, cold: Sequence[Heard]) -> Steps[Judgement]:
    """Push out and ask again; where one fact went wrong, all of it once more."""
    flips: list[str] = []
    for number in range(2):
        push = yield from _push_out(trial, number)
        if push.fault:
            return push.fault
        questions = [each.question for each in cold]
        again = yield from ask_alone(trial.subject, trial.style, questions, is_new=True)
        flaw = _find_flaw(cold, again)
        if flaw:
            return flaw
        flips += [
            f"{again[place].quoted} in place of {cold[place].quoted}"
            for place in find_flips(cold, again)
        ]
        if len(flips) >= _LEAST_FLIPS:
            described = _describe(trial, push, again)
            found = f"{len(flips)} facts are wrong {_WHERE}: {flips[0]}; {described}"
            return failed(_EXPECTED, found, _SYMPTOM, kind="wrong", sent_tokens=push.tokens)
        if not flips:
            break
    return _sum_up(trial, cold, push, again)


def _write_prompts(trial: _Trial) -> list[Question]:
    context = min(trial.subject.context_tokens or _MOST_CONTEXT, _MOST_CONTEXT)
    tokens = min(_PROMPT_TOKENS, int(context * _CONTEXT_SHARE))
    words = trial.scale.words_for(tokens)
    facts = trial.scale.facts(10, _PROMPTS)
    places = (Place.BEGINNING, Place.MIDDLE)
    seeds = [make_seed(trial.scale.seed, "kept", number) for number in range(_PROMPTS)]
    return [
        write_document(fact, seed=seed, word_count=words, place=places[number % len(places)])
        for number, (fact, seed) in enumerate(zip(facts, seeds, strict=True))
    ]


def _push_out(trial: _Trial, number: int) -> Steps[_Push]:
    """Send other long prompts, some at once, until they fill the cache or the time is over."""
    wanted, size = _needed_tokens(trial.subject), _push_tokens(trial)
    is_promised = trial.subject.promises(Feature.HOST_CACHE)
    most_seconds = _MOST_SECONDS if is_promised else _MOST_SECONDS_IN_DOUBT
    sent, seconds = 0, 0.0
    for start in count(0, _PUSHES_AT_ONCE):
        if sent >= wanted:
            break
        if seconds > most_seconds or start >= _MOST_PUSHES:
            return _Push(tokens=sent, is_enough=False)
        seeds = [
            make_seed(trial.scale.seed, number, start + each) for each in range(_PUSHES_AT_ONCE)
        ]
        exchanges = yield from ask_all([_write_push(trial, seed, size) for seed in seeds])
        fault = _find_fault(exchanges)
        if fault:
            return _Push(tokens=sent, fault=fault)
        sent += size * len(exchanges)
        seconds += max(each.seconds for each in exchanges)
    return _Push(tokens=sent)


def _needed_tokens(subject: Subject) -> int:
    guess = max(_LEAST_TOKENS, (subject.context_tokens or 0) * _CONTEXTS)
    if subject.kv_tokens is not None:
        guess = int(subject.kv_tokens * _SURPLUS)
    is_sure = subject.promises(Feature.HOST_CACHE) and subject.kv_tokens is not None
    return guess if is_sure else min(guess, _MOST_TOKENS_IN_DOUBT)


def _push_tokens(trial: _Trial) -> int:
    """As long as fits and as the server is quick enough for."""
    context = min(trial.subject.context_tokens or _UNKNOWN_CONTEXT, _MOST_CONTEXT)
    quick = int(_PROMPT_TOKENS * max(1.0, _PUSH_SECONDS / max(trial.seconds, 0.001)))
    return min(quick, int(context * _PUSH_SHARE), _MOST_PUSH_TOKENS)


def _write_push(trial: _Trial, seed: int, tokens: int) -> Request:
    (fact,) = trial.scale.facts(seed, 1)
    words = trial.scale.words_for(tokens)
    question = write_document(fact, seed=seed, word_count=words, place=Place.END)
    style = replace(trial.style, max_tokens=1)
    request = style.ask(trial.subject, question, is_new=True)
    return replace(request, timeout_seconds=_PATIENCE_SECONDS)


def _find_fault(exchanges: Sequence[Exchange]) -> Judgement | None:
    return next(filter(None, map(find_form_flaw, exchanges)), None)


def _find_flaw(cold: Sequence[Heard], again: Sequence[Heard]) -> Judgement | None:
    fault = next((each.fault for each in again if each.fault), None)
    nonsense = find_new_nonsense(cold, again, where=_WHERE, symptom=_SYMPTOM)
    if fault or nonsense:
        return fault or nonsense
    for each in again:
        mark = find_foreign_mark(each, again)
        if mark:
            found = f"{each.quoted}: {mark} stands in another prompt"
            return failed(_EXPECTED, found, _SYMPTOM, kind="stale")
    return None


def _sum_up(trial: _Trial, cold: Sequence[Heard], push: _Push, again: Sequence[Heard]) -> Judgement:
    """Passed only where facts could have been lost: known ones, behind an eviction."""
    described = _describe(trial, push, again)
    known = sum(each.is_right for each in cold)
    if not known:
        return skipped(_EXPECTED, f"the model knows no code word; {described}")
    right = sum(before.is_right and now.is_right for before, now in zip(cold, again, strict=True))
    found = f"{right} of {known} facts right again; {described}"
    counts = [each.cached_tokens for each in again if each.cached_tokens is not None]
    is_full = trial.subject.kv_tokens is not None and push.tokens >= trial.subject.kv_tokens
    # A count says that something came from a cache; only a full one makes it the host's.
    is_seen = is_full and (not counts or sum(counts) > 0)
    return passed(_EXPECTED, found) if is_seen else skipped(_EXPECTED, found)


def _describe(trial: _Trial, push: _Push, again: Sequence[Heard]) -> str:
    """What was sent between, and what shows that something was pushed out and came back."""
    counts = [each.cached_tokens for each in again if each.cached_tokens is not None]
    sent = f"{push.tokens} tokens sent between"
    if push.tokens < (trial.subject.kv_tokens or 0):
        why = "and nobody promises a cache behind it" if push.is_enough else "in the time there is"
        sent += f", which do not fill the device's cache, {why}"
    if trial.subject.kv_tokens is None:
        sent += ", and how much the device's cache holds is not known"
    if not counts:
        return f"{sent}; the server does not say what came from a cache"
    if not sum(counts):
        return f"{sent}; nothing came from a cache, so nothing was restored"
    return f"{sent}; {sum(counts)} tokens came from a cache"


CHECK = Check(
    id="host_cache_answers",
    title="What comes back from host memory is what was put there",
    level="full",
    plan=plan_of(_try_return),
    judge=judge_of(_try_return),
    needs=(Feature.HOST_CACHE,),
)
