"""Requests that keep a server busy as many different users would, and a question to watch it by.

The checks under lasting load use it. Pure: the same number makes the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.contract.agreement import find_flips
from stoker.contract.documents import Place, write_document
from stoker.contract.filler import make_seed
from stoker.contract.interview import Heard, Style, ask_alone, find_style, hear
from stoker.contract.procedure import Steps
from stoker.contract.questions import QUESTIONS, Question, Sort, make_facts
from stoker.model.contract import Exchange, Request, Subject

#: Words of filler of the shorter and the longer prompts, where the context has room for them.
_SHORT_WORDS, _LONG_WORDS = 150, 700
_TOKENS_PER_WORD = 2
_CONTEXT_SHARE = 1 / 2
_UNKNOWN_CONTEXT, _MOST_CONTEXT = 1200, 1 << 20

_STORY_TOKENS = 96
#: A client goes away after so many events.
_EVENTS_SEEN = 3
_PATIENCE_SECONDS = 120.0

#: So many kinds of requests follow each other.
KINDS = 8

#: The canary is one of the first of these that are answered rightly.
_CANDIDATES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A question with what was answered when nobody else asked. ``is_known``: rightly, twice."""

    baseline: Heard
    style: Style
    is_known: bool

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.baseline.question

    def ask(self, subject: Subject) -> Request:
        """Ask it anew, as a stream, so that the time of the first token is seen."""
        return self.style.ask(subject, self.question, stream=True, is_new=True)

    def find_change(self, heard: Heard) -> str:
        """What is wrong with an answer now that was not alone, in a word; empty where nothing is.

        A limit that the server tells of is nothing wrong.
        """
        if heard.is_limited:
            return ""
        if heard.fault:
            return "canary_lost"
        if heard.nonsense and not self.baseline.nonsense:
            return "canary_nonsense"
        is_wrong = self.is_known and find_flips([self.baseline], [heard])
        return "canary_wrong" if is_wrong else ""

    def describe(self, heard: Heard) -> str:
        """What was heard in place of what, in half a sentence."""
        flaw = heard.fault or heard.nonsense
        return f"{flaw.found if flaw else heard.quoted} in place of {self.baseline.quoted}"


def find_canary(subject: Subject) -> Steps[Canary]:
    """Choose the question while the server is quiet. ``subject``: with its context, if known."""
    style = yield from find_style(subject)
    questions = QUESTIONS[:_CANDIDATES]
    first = yield from ask_alone(subject, style, questions)
    second = yield from ask_alone(subject, style, questions, is_new=True)
    both = [
        one for one, other in zip(first, second, strict=True) if one.is_right and other.is_right
    ]
    # What stands in the question itself is the surest.
    told = [each for each in both if each.question.sort is Sort.CODE_WORD]
    chosen = next(iter([*told, *both]), first[0])
    return Canary(baseline=chosen, style=style, is_known=bool(both))


def make_load(subject: Subject, style: Style, number: int) -> Request:
    """The request with this number: long and short, plain and streamed, some given up."""
    kind = number % KINDS
    question = _choose_question(subject, kind, number)
    is_story = kind in (3, 4, 7)
    request = replace(style, max_tokens=_STORY_TOKENS) if is_story else style
    made = request.ask(subject, question, stream=kind in (1, 3, 4, 5), is_new=True)
    events = _EVENTS_SEEN if kind == 4 else 0
    return replace(made, stop_after_events=events, timeout_seconds=_PATIENCE_SECONDS)


def _choose_question(subject: Subject, kind: int, number: int) -> Question:
    if kind in (2, 5):
        wanted = _SHORT_WORDS if kind == 2 else _LONG_WORDS
        context = min(subject.context_tokens or _UNKNOWN_CONTEXT, _MOST_CONTEXT)
        room = int(context * _CONTEXT_SHARE) // _TOKENS_PER_WORD
        (fact,) = make_facts(number, 1)
        place = tuple(Place)[number % len(Place)]
        words = min(wanted, room)
        return write_document(fact, seed=make_seed(number), word_count=words, place=place)
    if kind in (3, 4, 7):
        (fact,) = make_facts(number, 1)
        text = f"Tell me a long story about {fact.name}."
        return Question(sort=Sort.COPY, text=text, answers=())
    return QUESTIONS[number % len(QUESTIONS)]


def find_load_faults(requests: Sequence[Request], exchanges: Sequence[Exchange]) -> list[Heard]:
    """The requests of a load that a server did not answer, limits and given up ones left out."""
    silent = Question(sort=Sort.COPY, text="", answers=())
    heard = [
        hear(silent, exchange)
        for request, exchange in zip(requests, exchanges, strict=True)
        if not request.stop_after_events and _looks_lost(exchange)
    ]
    return [each for each in heard if each.fault and not each.is_limited]


def _looks_lost(exchange: Exchange) -> bool:
    """A first look that costs nothing, since there are very many of them."""
    has_body = bool(exchange.body or exchange.events)
    in_stream = any('"error"' in event for event in exchange.events[-2:])
    return bool(exchange.error) or exchange.status != 200 or in_stream or not has_body
