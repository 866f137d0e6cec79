"""Asking simple questions of a server in the way that its model answers them, and hearing answers.

The checks that hold a server to its own answers use this: the same question alone and in a crowd,
in a short prompt and in a long one, fresh and from the cache. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.contract.chat import chat, count_tokens, find_form_flaw, read_choice
from stoker.contract.completion import Answer, find_answer_flaw, has_text
from stoker.contract.judgement import Judgement, quote
from stoker.contract.nonsense import find_loop
from stoker.contract.procedure import Steps, ask_each, ask_one
from stoker.contract.published import LIST, read_context_tokens
from stoker.contract.questions import QUESTIONS, Question
from stoker.contract.reply import find_message, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, read_path

#: Room for a sentence around the word that counts. A small model that rambles is cut off here.
_FEW_TOKENS = 48
#: Room for thoughts about 2 + 3, where they cannot be switched off.
_MANY_TOKENS = 1024

#: A queue may be long on a slow machine.
_PATIENCE_SECONDS = 300.0

#: How many questions tell whether a model can be relied on, and which part it must answer rightly.
_STRENGTH_QUESTIONS = 12
_STRENGTH_QUESTIONS_THINKING = 6
_STRONG = 5 / 6

#: What a server says that is there and has too much to do.
_BUSY_WORDS = ("busy", "capacity", "limit", "overload", "queue", "retry", "too many", "try again")

#: Flaws of an answer that are no nonsense: a small model may have nothing to say, and the role is
#: the matter of another check.
_HARMLESS = ("no_text", "empty_answer", "wrong_role")

#: No prompt has more tokens, whatever a server says.
_MOST_TOKENS = 1 << 30

_LOOP_COUNT = 4
_LOOP_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How this server is asked: ``fields`` of the body, the room for an answer, whether it thinks
    whatever is asked of it."""

    fields: Mapping[str, Plain] = field(default_factory=dict)
    max_tokens: int = _FEW_TOKENS
    is_thinking: bool = False

    def ask(
        self, subject: Subject, question: Question, *, stream: bool = False, is_new: bool = False
    ) -> Request:
        """The request for one question."""
        request = chat(
            subject,
            question.text,
            max_tokens=self.max_tokens,
            stream=stream,
            is_new=is_new,
            **self.fields,
        )
        return replace(request, timeout_seconds=_PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came back to a question.

    ``text`` is the answer without thoughts, or they where there is nothing else. ``fault`` says
    why there is no answer, ``nonsense`` why it is one that no working server gives. ``is_limited``:
    the server said that it has too much to do.
    """

    question: Question
    exchange: Exchange
    text: str
    fault: Judgement | None = None
    nonsense: Judgement | None = None
    is_limited: bool = False
    has_ended: bool = False

    @property
    def is_right(self) -> bool:
        """Whether the answer is there and right."""
        return not self.fault and self.question.is_right(self.text)

    @property
    def is_looping(self) -> bool:
        """Whether it is mostly one phrase over and over, as small models do too."""
        loop = find_loop(self.text, _LOOP_COUNT)
        return loop is not None and loop.share >= _LOOP_SHARE and len(loop.unit) > 1

    @property
    def prompt_tokens(self) -> int | None:
        """How long the server says that the prompt was; None where it says nothing that can be."""
        count = count_tokens(self.exchange, "prompt_tokens")
        return count if count is not None and count <= _MOST_TOKENS else None

    @property
    def cached_tokens(self) -> int | None:
        """How much of the prompt the server says that it had; None where it says nothing."""
        body = parse_json(self.exchange.body)
        for path in ("usage.prompt_tokens_details.cached_tokens", "timings.cache_n"):
            value = read_path(body, path)
            is_count = isinstance(value, int) and not isinstance(value, bool)
            if is_count and isinstance(value, int) and 0 <= value <= _MOST_TOKENS:
                return value
        return None

    @property
    def quoted(self) -> str:
        """The answer, short and printable."""
        return quote(self.text)


def hear(question: Question, exchange: Exchange) -> Heard:
    """What an exchange says about a question. Total."""
    fault = find_form_flaw(exchange)
    if fault:
        limited = _is_limit(exchange)
        return Heard(question=question, exchange=exchange, text="", fault=fault, is_limited=limited)
    answer = read_choice(exchange)
    flaw = find_answer_flaw(answer)
    return Heard(
        question=question,
        exchange=exchange,
        text=_without_thoughts(answer),
        nonsense=flaw if flaw and flaw.symptom not in _HARMLESS else None,
        has_ended=answer.finish_reason == "stop",
    )


def hear_all(questions: Sequence[Question], exchanges: Sequence[Exchange]) -> tuple[Heard, ...]:
    """The same for many, in their order."""
    return tuple(hear(each, exchange) for each, exchange in zip(questions, exchanges, strict=True))


def _without_thoughts(answer: Answer) -> str:
    return answer.text.rpartition("</think>")[2].strip() or answer.text.strip()


def _is_limit(exchange: Exchange) -> bool:
    if exchange.status == 429:
        return True
    message = find_message(exchange.body).lower()
    has_word = bool(exchange.retry_after) or any(word in message for word in _BUSY_WORDS)
    return exchange.status == 503 and has_word


def find_context(subject: Subject) -> Steps[Subject]:
    """The same subject with the context that the server publishes, where it was not known."""
    if subject.context_tokens is not None:
        return subject
    listing = yield from ask_one(LIST)
    return replace(subject, context_tokens=read_context_tokens(listing, subject.published_name))


def is_too_long(exchange: Exchange) -> bool:
    """Whether a request was refused, as those are that do not fit."""
    return not exchange.error and exchange.status in (400, 413)


def find_style(subject: Subject) -> Steps[Style]:
    """How to ask this server: without thoughts where they can be switched off, else with room.

    The same few requests for every check, so that they are sent once in a trial.
    """
    plain, quiet = Style(), Style(fields=subject.manners.thinking_off)
    first = yield from _probe(subject, plain)
    if find_form_flaw(first) or _is_brief(read_choice(first)):
        return plain
    second = yield from _probe(subject, quiet)
    if find_form_flaw(second) is None and _is_brief(read_choice(second)):
        return quiet
    room = (subject.context_tokens or 2 * _MANY_TOKENS) // 2
    patient = Style(max_tokens=min(_MANY_TOKENS, room), is_thinking=True)
    third = yield from _probe(subject, patient)
    answer = read_choice(third)
    if has_text(answer.reasoning) or "</think>" in answer.text:
        return patient
    return plain


def _probe(subject: Subject, style: Style) -> Steps[Exchange]:
    return ask_one(style.ask(subject, QUESTIONS[0]))


def _is_brief(answer: Answer) -> bool:
    """Whether the model came to its point without thinking aloud."""
    has_thoughts = has_text(answer.reasoning) or "think>" in answer.text
    return not has_thoughts and answer.finish_reason != "length"


def find_strength(subject: Subject, style: Style) -> Steps[bool]:
    """Whether the model answers nearly all simple questions rightly when it is asked alone.

    What such a model forgets in a long prompt or says twice over is then not for its own smallness.
    """
    count = _STRENGTH_QUESTIONS_THINKING if style.is_thinking else _STRENGTH_QUESTIONS
    heard = yield from ask_alone(subject, style, QUESTIONS[:count])
    return sum(each.is_right for each in heard) >= _STRONG * count


def ask_alone(
    subject: Subject, style: Style, questions: Sequence[Question], *, is_new: bool = False
) -> Steps[tuple[Heard, ...]]:
    """The questions one after the other."""
    requests = [style.ask(subject, question, is_new=is_new) for question in questions]
    exchanges = yield from ask_each(requests)
    return hear_all(questions, exchanges)
