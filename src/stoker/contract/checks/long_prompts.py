"""Promise: what stands in a long prompt is read as well as what stands in a short one.

A server may answer short questions well and talk nonsense above some length: a kernel that
overflows, positions that were scaled wrongly, a prompt that is cut without a word. So the same
small facts are told and asked in short prompts and in longer ones, up to what the server says that
it takes. Small models forget in long texts on correct servers too; they are held to what stands
right before the question, and everybody to words and to a count of tokens that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    ask_alone,
    find_context,
    find_strength,
    find_style,
    hear,
)
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.questions import Fact
from stoker.model.contract import Subject
from stoker.ports import Check

_EXPECTED = "the same facts in long prompts as in short ones"

#: Below this there is no long prompt. Where nobody says how much fits, so much is tried.
_LEAST_CONTEXT_TOKENS = 384
_UNKNOWN_CONTEXT_TOKENS = 16384

#: The longest prompt, half of it, and smaller steps towards that, down to so many tokens.
_HALF, _STEP = 2, 8
_LEAST_STEP_TOKENS = 4096
#: Nobody holds more, whatever a server publishes.
_MOST_CONTEXT_TOKENS = 1 << 24

#: Kept free beside the answer: the length of a prompt is known to a few words in a hundred.
_SPARE_SHARE = 0.03
_SPARE_TOKENS = 64

#: A prompt is cut where the server counts less than this part of it.
_LEAST_COUNTED = 0.8

#: The longest that one prompt may take by what was measured; time grows faster than length.
_MOST_SECONDS = 300.0
_GROWTH = 1.3
_PATIENCE_SECONDS = 900.0
#: Where one takes longer than this, two places must do.
_SLOW_SECONDS = 60.0

#: Up to here a model that answers all else rightly does not forget a plain sentence.
_REMEMBERED_TOKENS = 32768

_SHORT_WORDS = 20

#: In this order: what is asked of the longest prompt, and of shorter ones the first two.
_ALL_PLACES = (Place.BEGINNING, Place.END, Place.MIDDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What is the same for all lengths."""

    subject: Subject
    style: Style
    scale: Scale
    is_strong: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One length: what was heard of each place, and of a fact that the short prompt gave."""

    tokens: int
    heard: Mapping[Place, Heard] = field(default_factory=dict)
    judgement: Judgement | None = None
    lost: tuple[Place, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the slowest prompt took."""
        return max((each.exchange.seconds for each in self.heard.values()), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Climb:
    """What was tried, and what ended it before the longest: a refusal, or what was found."""

    done: tuple[_Step, ...] = ()
    refused: _Step | None = None
    judgement: Judgement | None = None


def _try_lengths(subject: Subject) -> Steps[Judgement]:
    subject = yield from find_context(subject)
    context = subject.context_tokens
    style = yield from find_style(subject)
    if context is not None and context < _LEAST_CONTEXT_TOKENS + style.max_tokens:
        return skipped(_EXPECTED, f"no more than {context} tokens fit, which is no long prompt")
    scale = yield from measure_scale(subject, style)
    if isinstance(scale, Judgement):
        return scale
    is_strong = yield from find_strength(subject, style)
    trial = _Trial(subject=subject, style=style, scale=scale, is_strong=is_strong)
    if context is None:
        return (yield from _search(trial))
    climb = yield from _climb(trial, _list_lengths(context, style))
    if climb.refused and climb.refused.judgement:
        return _judge_refusal(climb.refused.judgement, climb.refused.tokens, context)
    return climb.judgement or _sum_up(trial, climb.done)


def _search(trial: _Trial) -> Steps[Judgement]:
    """Where nobody says what fits: go down until a prompt is taken, and judge what is."""
    room = _UNKNOWN_CONTEXT_TOKENS
    while room >= _LEAST_CONTEXT_TOKENS + trial.style.max_tokens:
        climb = yield from _climb(trial, _list_lengths(room, trial.style))
        if climb.refused is None or climb.done:
            tokens = climb.refused.tokens if climb.refused else 0
            note = f"; {tokens} tokens are refused" if tokens else ""
            return climb.judgement or _sum_up(trial, climb.done, note)
        refusal = next(each for each in climb.refused.heard.values() if is_refused(each.exchange))
        room = read_room(refusal.exchange, climb.refused.tokens)
    return skipped(_EXPECTED, f"prompts of more than {room} tokens are refused")


def _climb(trial: _Trial, lengths: Sequence[int]) -> Steps[_Climb]:
    """One length after the other, until one is refused or says enough by itself."""
    done: list[_Step] = []
    for tokens in lengths:
        if done and _predict_seconds(done[-1], tokens) > _MOST_SECONDS:
            note = f"; {tokens} tokens would take more than 5 minutes"
            return _Climb(judgement=_sum_up(trial, done, note))
        places = _ALL_PLACES if tokens == lengths[-1] else _ALL_PLACES[:2]
        step = yield from _try_length(trial, tokens, places)
        if any(is_refused(each.exchange) for each in step.heard.values()):
            return _Climb(done=tuple(done), refused=step)
        if step.judgement:
            return _Climb(judgement=step.judgement)
        done.append(step)
    return _Climb(done=tuple(done))


def _list_lengths(context: int, style: Style) -> list[int]:
    """Prompts to try, in tokens, from short to long."""
    room = min(context, _MOST_CONTEXT_TOKENS) - style.max_tokens
    longest = int(room * (1 - _SPARE_SHARE)) - _SPARE_TOKENS
    lengths = [longest, longest // _HALF]
    while lengths[-1] // _STEP >= _LEAST_STEP_TOKENS:
        lengths.append(lengths[-1] // _STEP)
    return lengths[::-1]


def _predict_seconds(step: _Step, tokens: int) -> float:
    return step.seconds * float((tokens / max(1, step.tokens)) ** _GROWTH)


def _judge_refusal(refusal: Judgement, tokens: int, context: int) -> Judgement:
    return failed(
        "prompts of all lengths that fit",
        f"a prompt of about {tokens} tokens is refused, where {context} tokens fit: "
        f"{refusal.found}",
        "long_prompt_refused",
        prompt_tokens=tokens,
        context_tokens=context,
    )


def _try_length(trial: _Trial, tokens: int, places: Sequence[Place]) -> Steps[_Step]:
    """Facts at places of prompts of one length; what went wrong is tried again with others."""
    first = yield from _try_places(trial, tokens, part=0, places=places)
    if first.judgement or not _find_strange(trial, tokens, first.lost):
        return first
    again = _find_strange(trial, tokens, first.lost)
    second = yield from _try_places(trial, tokens, part=tokens, places=again)
    judgement = second.judgement or _judge_lost(trial, tokens, second)
    return replace(first, lost=second.lost, judgement=judgement)


def _find_strange(trial: _Trial, tokens: int, lost: Sequence[Place]) -> tuple[Place, ...]:
    """The places for whose loss a server is to blame: the end; more with a model that can."""
    can_remember = trial.is_strong and tokens <= _REMEMBERED_TOKENS
    to_blame = (Place.BEGINNING, Place.END) if can_remember else (Place.END,)
    return tuple(place for place in lost if place in to_blame)


def _try_places(trial: _Trial, tokens: int, *, part: int, places: Sequence[Place]) -> Steps[_Step]:
    """A prompt for each place, each with its own fact, after the same fact in a short prompt."""
    facts = dict(zip(Place, trial.scale.facts(part, len(Place)), strict=True))
    heard: dict[Place, Heard] = {}
    lost: list[Place] = []
    for place in places:
        short = yield from _ask_short(trial, facts[place], place)
        heard[place] = yield from _ask_long(trial, facts[place], place, tokens=tokens, part=part)
        judgement = short.fault or _find_flaw(trial, heard[place], tokens)
        if judgement:
            return _Step(tokens=tokens, heard=heard, judgement=judgement)
        if _is_lost(short, heard[place], is_strong=trial.is_strong):
            lost.append(place)
        if len(heard) > 1 and heard[place].exchange.seconds > _SLOW_SECONDS:
            break
    return _Step(tokens=tokens, heard=heard, lost=tuple(lost))


def _ask_short(trial: _Trial, fact: Fact, place: Place) -> Steps[Heard]:
    question = write_document(fact, seed=trial.scale.seed, word_count=_SHORT_WORDS, place=place)
    (heard,) = yield from ask_alone(trial.subject, trial.style, [question])
    return heard


def _ask_long(trial: _Trial, fact: Fact, place: Place, *, tokens: int, part: int) -> Steps[Heard]:
    # The same filler before the middle and before the end, which a cache may spare.
    seed = make_seed(trial.scale.seed, tokens, part)
    question = write_document(
        fact, seed=seed, word_count=trial.scale.words_for(tokens), place=place
    )
    request = trial.style.ask(trial.subject, question, is_new=True)
    exchange = yield from ask_one(replace(request, timeout_seconds=_PATIENCE_SECONDS))
    return hear(question, exchange)


def _is_lost(short: Heard, long: Heard, *, is_strong: bool) -> bool:
    if not short.is_right:
        return False
    return not long.is_right or (is_strong and long.is_looping and not short.is_looping)


def _find_flaw(trial: _Trial, heard: Heard, tokens: int) -> Judgement | None:
    return heard.fault or _find_nonsense(heard, tokens) or _find_cut(trial, heard, tokens)


def _find_nonsense(heard: Heard, tokens: int) -> Judgement | None:
    if heard.nonsense is None:
        return None
    found = f"in a prompt of about {tokens} tokens {heard.nonsense.found}"
    return failed(
        "words in the answer to a long prompt",
        found,
        "long_prompt_nonsense",
        prompt_tokens=tokens,
        kind=heard.nonsense.symptom,
    )


def _find_cut(trial: _Trial, heard: Heard, tokens: int) -> Judgement | None:
    counted = heard.prompt_tokens
    if not trial.scale.is_measured or counted is None or counted >= _LEAST_COUNTED * tokens:
        return None
    return failed(
        "long prompts that are taken whole or refused",
        f"{counted} tokens counted of a prompt of about {tokens}: it was cut without a word",
        "prompt_cut",
        prompt_tokens=counted,
        sent_tokens=tokens,
    )


def _judge_lost(trial: _Trial, tokens: int, second: _Step) -> Judgement | None:
    """What was lost a second time, with another text and another fact."""
    lost = _find_strange(trial, tokens, second.lost)
    if not lost:
        return None
    example = second.heard[lost[-1]]
    return failed(
        _EXPECTED,
        f"in prompts of about {tokens} tokens the code word at the {' and '.join(lost)} is not "
        f"known, twice ({example.quoted} in place of {example.question.mark}); in short ones it is",
        "long_prompt_forgets",
        prompt_tokens=tokens,
        places=list(map(str, lost)),
    )


def _sum_up(trial: _Trial, done: Sequence[_Step], note: str = "") -> Judgement:
    """All that was tried went well enough."""
    last = done[-1]
    right = sum(each.is_right for step in done for each in step.heard.values())
    count = sum(len(step.heard) for step in done)
    counted = [each.prompt_tokens for each in last.heard.values() if each.prompt_tokens]
    longest = f"{max(counted)} tokens" if counted else f"about {last.tokens} tokens"
    found = f"{right} of {count} facts known in prompts up to {longest}"
    if not trial.scale.is_measured:
        found += "; the server counts no tokens"
    return passed(_EXPECTED, found + note)


CHECK = Check(
    id="long_prompts",
    title="Long prompts are read as well as short ones",
    level="full",
    plan=plan_of(_try_lengths),
    judge=judge_of(_try_lengths),
)
