"""Long prompts: filler with one code word in it, and a question for it at the end.

One fact to a document, since small models mix several up on correct servers. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.contract.filler import make_seed, write_filler
from stoker.contract.interview import Style, hear
from stoker.contract.judgement import Judgement
from stoker.contract.procedure import Steps, ask_each
from stoker.contract.questions import Fact, Question, make_facts
from stoker.contract.reply import find_message
from stoker.model.contract import Exchange, Subject


class Place(StrEnum):
    """Where in the text the code word is told."""

    BEGINNING = "beginning"
    MIDDLE = "middle"
    END = "end"


#: Which part of the filler stands before the fact.
_SHARES: Mapping[Place, float] = {Place.BEGINNING: 0.0, Place.MIDDLE: 0.5, Place.END: 1.0}

_INTRODUCTION = "Read this text."

#: Two prompts of these lengths tell how many tokens a word takes.
_FEW_WORDS, _MORE_WORDS = 20, 300

#: Where a server counts no tokens: more than any usual tokenizer makes of a plain English word.
_TOKENS_PER_WORD = 1.5
_FIXED_TOKENS = 100.0
#: A count of fewer or more tokens to a word is none that can be reckoned with.
_LEAST_PER_WORD, _MOST_PER_WORD = 0.5, 8.0

#: How a refusal names what fits: the first number behind the word, in the same sentence.
_LIMIT = re.compile(r"context[^\d.]{0,60}(\d{2,9})(?!\d)", re.IGNORECASE)


def write_document(fact: Fact, *, seed: int, word_count: int, place: Place) -> Question:
    """A text of about ``word_count`` words that tells the fact at a place, and the question."""
    return write_at(fact, seed=seed, word_count=word_count, share=_SHARES[place])


def write_at(fact: Fact, *, seed: int, word_count: int, share: float) -> Question:
    """The same with the fact behind this part of the filler, 0 to 1."""
    before = round(word_count * share)
    parts = [_INTRODUCTION, fact.sentence, ""]
    if before:
        parts[0] += f" {write_filler(seed, before)}"
    if word_count > before:
        parts[2] = write_filler(seed + 1, word_count - before)
    return fact.ask(" ".join(part for part in parts if part))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long prompts are on this server: tokens of a word of filler, and of all that is not.

    ``seed`` is another one in each trial, taken from what the server answered. ``is_measured``:
    the server counts its tokens.
    """

    tokens_per_word: float
    fixed_tokens: float
    seed: int
    is_measured: bool

    def words_for(self, tokens: int) -> int:
        """How many words of filler make a prompt of so many tokens."""
        return max(0, int((tokens - self.fixed_tokens) / self.tokens_per_word))

    def tokens_of(self, word_count: int) -> int:
        """How many tokens a prompt with so many words of filler should have."""
        return round(self.fixed_tokens + word_count * self.tokens_per_word)

    def facts(self, number: int, count: int) -> tuple[Fact, ...]:
        """Facts of the ``number``-th part of a trial."""
        return make_facts(make_seed(self.seed, number), count)


def measure_scale(subject: Subject, style: Style) -> Steps[Scale | Judgement]:
    """Ask two short prompts and look at their tokens; the flaw where one is not answered."""
    (fact,) = make_facts(0, 1)
    questions = [
        write_document(fact, seed=0, word_count=count, place=Place.END)
        for count in (_FEW_WORDS, _MORE_WORDS)
    ]
    # Answers are not of interest, but their ids and times make the seed another one each time.
    requests = [style.ask(subject, question, is_new=True) for question in questions]
    exchanges = yield from ask_each(requests)
    heard = [hear(*pair) for pair in zip(questions, exchanges, strict=True)]
    fault = next((each.fault for each in heard if each.fault), None)
    if fault:
        return fault
    counts = [each.prompt_tokens for each in heard]
    return _scale(counts, _words(questions), seed=_make_fresh_seed(exchanges))


def _words(questions: Sequence[Question]) -> list[int]:
    return [len(question.text.split()) for question in questions]


def _scale(counts: Sequence[int | None], words: Sequence[int], *, seed: int) -> Scale:
    few, more = counts
    per_word = ((more or 0) - (few or 0)) / (words[1] - words[0])
    if few is None or more is None or not _LEAST_PER_WORD <= per_word <= _MOST_PER_WORD:
        return Scale(
            tokens_per_word=_TOKENS_PER_WORD,
            fixed_tokens=_FIXED_TOKENS,
            seed=seed,
            is_measured=False,
        )
    # The first document has its own few words of filler besides what every prompt has.
    fixed = few - per_word * _FEW_WORDS
    return Scale(tokens_per_word=per_word, fixed_tokens=fixed, seed=seed, is_measured=True)


def _make_fresh_seed(exchanges: Sequence[Exchange]) -> int:
    return make_seed(*[part for each in exchanges for part in (each.body, each.seconds)])


def is_refused(exchange: Exchange) -> bool:
    """Whether a server answered readably that it does not take a prompt."""
    return not exchange.error and exchange.status in (400, 413, 422)


def read_room(refusal: Exchange, sent_tokens: int) -> int:
    """What may fit where ``sent_tokens`` do not: as the refusal says, else half of them."""
    limits = [int(each) for each in _LIMIT.findall(find_message(refusal.body))]
    return next((each for each in limits if each < sent_tokens), sent_tokens // 2)
