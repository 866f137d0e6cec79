"""Very simple questions whose answers are known, and what counts as a right one.

They are not there to test a model's wit: a server is held to what it answers rightly when it is
asked alone and briefly. Answers may be wrapped in any words. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Sort(StrEnum):
    """What a question is about. The answers of the last two stand in the question itself."""

    ARITHMETIC = "arithmetic"
    OPPOSITE = "opposite"
    NEXT_NUMBER = "next number"
    YES_OR_NO = "yes or no"
    COPY = "copy"
    CODE_WORD = "code word"


#: Whoever answers these wrongly does not read the question.
TOLD = (Sort.COPY, Sort.CODE_WORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. ``answers``: the words any of which is right, without regard to case.

    ``mark`` is a word that only this question can bring up; empty where there is none.
    """

    sort: Sort
    text: str
    answers: tuple[str, ...]
    mark: str = ""

    def is_right(self, answer: str) -> bool:
        """Whether a right word stands in an answer; of yes and no the one that stands first."""
        if self.sort is Sort.YES_OR_NO:
            return find_first(("yes", "no"), answer) in self.answers
        return any(holds_word(answer, word) for word in self.answers)


def holds_word(text: str, word: str) -> bool:
    """Whether a whole word (or number) stands in a text."""
    return _pattern(word).search(text) is not None


def find_first(words: Iterable[str], text: str) -> str:
    """The one of these words that stands first in a text, empty where none does."""
    places = {word: match.start() for word in words if (match := _pattern(word).search(text))}
    return min(places, key=lambda word: places[word], default="")


def _pattern(word: str) -> re.Pattern[str]:
    # A number must not be a part of a longer one, nor of a decimal fraction.
    before, after = (r"(?<![\d.,])", r"(?![.,]?\d)") if word.isdigit() else (r"(?<!\w)", r"(?!\w)")
    return re.compile(before + re.escape(word) + after, re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Who has which code word: told in a prompt, asked at its end, known from nowhere else."""

    name: str
    word: str

    @property
    def sentence(self) -> str:
        """How the fact is told."""
        return f"The code word of {self.name} is {self.word}."

    def ask(self, text: str) -> Question:
        """The question for the code word at the end of a text that tells it."""
        question = f"What is the code word of {self.name}? Answer with the code word only."
        return Question(
            sort=Sort.CODE_WORD,
            text=f"{text}\n\n{question}",
            answers=(self.word,),
            mark=self.word,
        )


def _copy(word: str) -> Question:
    text = f"Repeat this word: {word}"
    return Question(sort=Sort.COPY, text=text, answers=(word,), mark=word)


def _code(name: str, word: str) -> Question:
    fact = Fact(name=name, word=word)
    return fact.ask(fact.sentence)


def _number(sort: Sort, text: str, number: str, spelt: str) -> Question:
    return Question(sort=sort, text=text, answers=(number, spelt))


def _opposite(word: str, *answers: str) -> Question:
    text = f"What is the opposite of {word}? Answer with one word."
    return Question(sort=Sort.OPPOSITE, text=text, answers=answers)


def _yes_or_no(text: str, answer: str) -> Question:
    return Question(sort=Sort.YES_OR_NO, text=f"{text} Answer yes or no.", answers=(answer,))


_ADD = "Answer with the number only."

#: The sorts are mixed, so that any few of them in a row are of several sorts.
QUESTIONS: tuple[Question, ...] = (
    _number(Sort.ARITHMETIC, f"What is 2 + 3? {_ADD}", "5", "five"),
    _code("Alice", "WALRUS"),
    _copy("lantern"),
    _opposite("hot", "cold", "cool"),
    _number(Sort.NEXT_NUMBER, f"Which number comes next: 1, 2, 3, 4, 5? {_ADD}", "6", "six"),
    _copy("velvet"),
    _code("Bruno", "TRUMPET"),
    _number(Sort.ARITHMETIC, f"What is 7 + 1? {_ADD}", "8", "eight"),
    _yes_or_no("Is fire hot?", "yes"),
    _opposite("big", "small", "little", "tiny"),
    _copy("mustard"),
    _code("Carla", "PYRAMID"),
    _number(Sort.ARITHMETIC, f"What is 5 + 4? {_ADD}", "9", "nine"),
    _opposite("up", "down"),
    _copy("harbor"),
    _code("David", "SADDLE"),
    _number(Sort.NEXT_NUMBER, f"Which number comes next: 10, 11, 12, 13? {_ADD}", "14", "fourteen"),
    _yes_or_no("Is snow black?", "no"),
    _number(Sort.ARITHMETIC, f"What is 10 + 10? {_ADD}", "20", "twenty"),
    _copy("walnut"),
    _code("Elena", "COMPASS"),
    _opposite("day", "night"),
    _number(Sort.ARITHMETIC, f"What is 3 + 4? {_ADD}", "7", "seven"),
    _yes_or_no("Is water wet?", "yes"),
)

_NAMES = (
    *("Felix", "Greta", "Henry", "Irene", "Jonas", "Karin", "Louis", "Maria", "Nadia", "Oscar"),
    *("Paula", "Robert", "Sofia", "Thomas", "Ursula", "Victor", "Wanda", "Xavier", "Yvonne"),
    *("Albert", "Bianca", "Conrad", "Daphne", "Edgar", "Fiona", "Gordon", "Helena", "Ivan"),
)
_WORDS = (
    *("ANCHOR", "BUTTON", "CACTUS", "DOLPHIN", "EMERALD", "FALCON", "GUITAR", "HAMMER"),
    *("IVORY", "JACKET", "KETTLE", "LEMON", "MARBLE", "NEEDLE", "ORCHID", "PEPPER", "QUARTZ"),
    *("RIBBON", "SPIDER", "TURTLE", "UMBRELLA", "VIOLIN", "WAGON", "ZEBRA", "BADGER"),
    *("CANDLE", "DRAGON", "ENGINE", "FEATHER", "GINGER", "HELMET", "ISLAND", "JASMINE"),
    *("LADDER", "MAGNET", "NAPKIN", "OYSTER", "PARROT", "ROCKET", "SILVER", "THUNDER"),
)


def make_facts(seed: int, count: int) -> tuple[Fact, ...]:
    """Facts with names and words that differ from each other, in an order that the seed makes.

    At most as many as there are names.
    """
    names, words = _shuffle(_NAMES, seed), _shuffle(_WORDS, seed + 1)
    pairs = zip(names, words, strict=False)
    return tuple(Fact(name=name, word=word) for name, word in pairs)[:count]


def _shuffle(items: Sequence[str], seed: int) -> list[str]:
    rest, mixed, state = list(items), [], seed & 0xFFFFFFFF
    while rest:
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        mixed.append(rest.pop((state >> 16) % len(rest)))
    return mixed
