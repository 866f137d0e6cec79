"""Promise: at an ordinary temperature answers are still answers.

Engines that answer each question alike compute the likeliest token alone, and sampling is a path
of its own. A broken one makes a salad of words wherever a client asks for temperature. A few
words are to be repeated: a model that does so without temperature does so with a little of it.
"""

from __future__ import annotations

from stoker.contract.chat import chat, find_form_flaw, is_declined, no_thoughts, read_choice
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_each, ask_one, judge_of, plan_of
from stoker.contract.reply import describe_status
from stoker.model.contract import Exchange, Request, Subject
from stoker.ports import Check

_TEXTS = (
    "the small boat carries seven lamps",
    "a green kettle stands under the window",
    "three horses wait beside the old bridge",
)
_MAX_TOKENS = 48
_TEMPERATURE = 0.4
_BASELINES = 2
_TRIALS = 5

#: So many texts must fail: one may be hard for a small model.
_LEAST_TEXTS = 2

_EXPECTED = f"right answers at temperature {_TEMPERATURE}, as without temperature"


def _procedure(subject: Subject) -> Steps[Judgement]:
    lost: list[str] = []
    for text in _TEXTS:
        heard = yield from _try_text(subject, text)
        if isinstance(heard, Judgement):
            return heard
        lost += [heard] if heard else []
        if len(lost) == _LEAST_TEXTS:
            found = (
                f"none of {_TRIALS} answers right to each of {_LEAST_TEXTS} questions that are "
                f"answered rightly without temperature: {lost[0]}"
            )
            return failed(_EXPECTED, found, "sampling_scrambles", trials=_TRIALS)
    return skipped(_EXPECTED, "a model that does not repeat a few words without temperature")


def _try_text(subject: Subject, text: str) -> Steps[Judgement | str]:
    """A sampled answer in quotes where none is right; empty where the baseline is not."""
    baselines = yield from ask_each(
        [_ask(subject, text, 0, is_new=number > 0) for number in range(_BASELINES)]
    )
    flaw = next(filter(None, map(find_form_flaw, baselines)), None)
    if flaw:
        return flaw
    if not all(_holds(exchange, text) for exchange in baselines):
        return ""
    for _ in range(_TRIALS):
        exchange = yield from ask_one(_ask(subject, text, _TEMPERATURE, is_new=True))
        if is_declined(exchange):
            return skipped(_EXPECTED, f"not offered: {describe_status(exchange)}")
        flaw = find_form_flaw(exchange)
        if flaw:
            return flaw
        if _holds(exchange, text):
            return passed(_EXPECTED, quote(read_choice(exchange).content))
    return quote(read_choice(exchange).content)


def _ask(subject: Subject, text: str, temperature: float, *, is_new: bool) -> Request:
    return chat(
        subject,
        f"Repeat this text exactly: {text}",
        max_tokens=_MAX_TOKENS,
        is_new=is_new,
        **{**no_thoughts(subject), "temperature": temperature},
    )


def _holds(exchange: Exchange, text: str) -> bool:
    content = read_choice(exchange).content
    return isinstance(content, str) and text in " ".join(content.lower().split())


CHECK = Check(
    id="sampled_answers",
    title="Answers stay right with temperature",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
