"""Promise: an answer ends before the text that the client named as its end.

Agents and templates cut answers by such texts. A known answer is taken first and a piece from its
middle becomes the stop text, so that it surely comes up, mostly across the borders of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.chat import chat, find_form_flaw, no_thoughts, read_choice
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_each, ask_one, judge_of, plan_of
from stoker.model.contract import Exchange, Subject
from stoker.ports import Check

_QUESTIONS = (
    "Write one sentence about a river and one about a mountain.",
    "Name four animals and say in a few words where each of them lives.",
    "Describe a kitchen in two sentences.",
)
_MAX_TOKENS = 160
_STOP_CHARACTERS = 7
_LEAST_CHARACTERS = 3

_EXPECTED = "answers that end before the stop text, plain and streamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A known answer, and the text in it before which the next ones must end."""

    question: str
    stop: str
    before: str


def _procedure(subject: Subject) -> Steps[Judgement]:
    reason = "no answer that is long enough for a stop text"
    tried: set[bool] = set()
    for question in _QUESTIONS:
        trial = yield from _find_trial(subject, question)
        if isinstance(trial, Judgement):
            return trial
        if trial is None:
            continue
        judgement = yield from _try_stop(subject, trial, tried)
        if judgement:
            return judgement
        if tried == {False, True}:
            return passed(_EXPECTED, f"answers that ended before {quote(trial.stop)}")
        reason = "the same question was answered in another way each time"
    return skipped(_EXPECTED, reason)


def _find_trial(subject: Subject, question: str) -> Steps[_Trial | Judgement | None]:
    request = chat(subject, question, max_tokens=_MAX_TOKENS, **no_thoughts(subject))
    exchange = yield from ask_one(request)
    flaw = find_form_flaw(exchange)
    if flaw:
        return flaw
    answer = read_choice(exchange)
    thoughts = answer.reasoning if isinstance(answer.reasoning, str) else ""
    content = answer.content if isinstance(answer.content, str) else ""
    stop = _choose_stop(content)
    # A stop text that the thoughts hold would end them instead.
    if not stop or stop in thoughts:
        return None
    return _Trial(question=question, stop=stop, before=content[: content.find(stop)])


def _choose_stop(content: str) -> str:
    """A piece from the middle that did not stand before it, best of two words; empty for none."""
    starts = range(len(content) // 2, len(content) - _STOP_CHARACTERS)
    pieces = [(start, content[start : start + _STOP_CHARACTERS].strip()) for start in starts]
    fitting = [
        piece
        for start, piece in pieces
        if len(piece) >= _LEAST_CHARACTERS and "\n" not in piece and content.find(piece) >= start
    ]
    return next((piece for piece in fitting if " " in piece), fitting[0] if fitting else "")


def _try_stop(subject: Subject, trial: _Trial, tried: set[bool]) -> Steps[Judgement | None]:
    """Ask again in both forms. ``tried`` gets the forms (streamed or not) that stood the trial."""
    stops: Sequence[str | list[str]] = (trial.stop, [trial.stop, "\u2021\u2021\u2021"])
    exchanges = yield from ask_each(
        [
            chat(
                subject,
                trial.question,
                max_tokens=_MAX_TOKENS,
                stream=stream,
                stop=stop,
                **no_thoughts(subject),
            )
            for stream, stop in zip((False, True), stops, strict=True)
        ]
    )
    for stream, exchange in zip((False, True), exchanges, strict=True):
        judgement = find_form_flaw(exchange) or _judge_one(trial, exchange)
        if judgement:
            return judgement
        if _read_content(exchange).rstrip() == trial.before.rstrip():
            tried.add(stream)
    return None


def _read_content(exchange: Exchange) -> str:
    content = read_choice(exchange).content
    return content if isinstance(content, str) else ""


def _judge_one(trial: _Trial, exchange: Exchange) -> Judgement | None:
    content, form = _read_content(exchange), "streamed" if exchange.request.stream else "plain"
    details = {"stop": trial.stop, "form": form}
    if trial.stop in content:
        found = f"it stands in the {form} answer: {quote(content[len(trial.before) :])}"
        return failed(f"no {quote(trial.stop)} in the answer", found, "stop_ignored", **details)
    rest = content.removeprefix(trial.before)
    if rest and rest != content and trial.stop.startswith(rest.rstrip()) and rest.strip():
        found = f"the {form} answer ends in a part of it: {quote(rest)}"
        return failed(f"nothing of {quote(trial.stop)}", found, "stop_leaks", **details)
    reason = read_choice(exchange).finish_reason
    is_ended = content.rstrip() == trial.before.rstrip()
    if is_ended and reason != "stop":
        found = f"finish_reason {quote(reason)} in the {form} answer"
        expected = 'finish_reason "stop" at a stop text'
        return failed(expected, found, "wrong_finish_reason", finish_reason=reason, **details)
    return None


CHECK = Check(
    id="stop_strings",
    title="Answers end before a stop text",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
