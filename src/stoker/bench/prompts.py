"""Prompts of a wanted length, made without a tokenizer from texts that come with Stoker.

Called by :mod:`stoker.bench.requests` and :mod:`stoker.bench.trace`. Pure but for the cached
loader of our own texts: chance is handed in, and the same chance gives the same text.

A *word* is a run of letters and digits, of underscores, or of other signs, with the white space
behind it. So code and prose have nearly the same tokens in a word, and a length in tokens becomes
one in words by a figure that :func:`calibrate` reads from two answers of the server.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

from stoker.errors import DataError
from stoker.model.benchmark import Lengths

_WORD = re.compile(r"(?:[^\W_]+|_+|[^\w\s]+)\s*")
_PLAIN = re.compile(r"[^\W\d_]{4,}")
_GAP = "\n\n"
#: Words at the head of each text that no other text of a plan begins with.
_OPENING_WORDS = 3
#: What a prompt ends with, and for how many words at least; a shorter one is its text alone.
_ASKS = {
    "prose": "Now tell in your own words what the texts above say, and go on in the same manner.",
    "code": "Now explain what the code above does, and write a better version of all of it.",
}
_ASK_FROM_WORDS = 60
#: For a server that tells no usage. SmolLM2's tokenizer: 1.06 for our prose, 1.22 for our code.
USUAL_TOKENS_PER_WORD = 1.1
#: What a tokenizer can make of our texts; outside of it a server's usage counts something else.
_LEAST_TOKENS_PER_WORD, _MOST_TOKENS_PER_WORD = 0.5, 6.0


class Chance(Protocol):
    """A source of chance, such as ``random.Random``."""

    def random(self) -> float:
        """The next number, from 0 up to but not including 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a text that is whole by itself. ``text`` ends with an empty line."""

    text: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What prompts are made of. ``vocabulary``: its plain words, each once.

    ``ask``: what the model is to do with it, empty for nothing.
    """

    passages: tuple[Passage, ...]
    vocabulary: tuple[str, ...]
    ask: str
    ask_words: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a server's tokenizer makes of our words, and what its template adds to each request."""

    tokens_per_word: float
    overhead_tokens: float


def pick(chance: Chance, count: int) -> int:
    """One of the numbers from 0 up to but not including ``count``."""
    return int(chance.random() * count)


def count_words(text: str) -> int:
    """How many words a text has, as this module counts them."""
    return len(_WORD.findall(text))


def count_words_of(tokens: int, tokens_per_word: float) -> int:
    """How many words make so many tokens; one at least."""
    return max(1, round(tokens / tokens_per_word))


def draw_length(lengths: Lengths, chance: Chance) -> int:
    """One length in tokens. Raises ValueError for a spread that does not exist."""
    if lengths.spread == "fixed":
        return lengths.median
    if lengths.spread == "uniform":
        return lengths.least + pick(chance, lengths.most - lengths.least + 1)
    if lengths.spread != "lognormal":
        raise ValueError(f"there is no spread {lengths.spread!r}")
    # Box and Muller's way to a normal number; 1 - x since a logarithm wants more than 0.
    radius = math.sqrt(-2.0 * math.log(1.0 - chance.random()))
    normal = radius * math.cos(2.0 * math.pi * chance.random())
    drawn = round(lengths.median * math.exp(lengths.sigma * normal))
    return min(lengths.most, max(lengths.least, drawn))


def longest(lengths: Lengths) -> int:
    """The most tokens that can be drawn."""
    return lengths.median if lengths.spread == "fixed" else lengths.most


@cache
def load_text(name: str) -> Text:
    """One of the texts of our own package, ``prose`` or ``code``. Raises DataError."""
    place = files("stoker.bench").joinpath("texts", f"{name}.txt")
    try:
        content = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"there is no text {name} for prompts: {error}") from error
    passages = tuple(
        Passage(text=f"{each.strip()}{_GAP}", words=tuple(_WORD.findall(each)))
        for each in content.strip().split(_GAP)
    )
    vocabulary = tuple(dict.fromkeys(word.lower() for word in _PLAIN.findall(content)))
    ask = _ASKS.get(name, "")
    return Text(passages=passages, vocabulary=vocabulary, ask=ask, ask_words=count_words(ask))


def write_text(text: Text, words: int, *, chance: Chance, number: int) -> str:
    """Passages in an order of chance, so many words of them.

    ``number`` decides the first words: texts of different numbers begin differently, so that no
    prefix cache knows one from the other.
    """
    parts = [" ".join(_write_opening(text, number)[:words]), _GAP]
    left = words - _OPENING_WORDS
    last = -1
    while left > 0:
        # Never the same passage twice in a row: one less to pick from, and the last left out.
        chosen = pick(chance, len(text.passages) - (last >= 0))
        chosen += 0 <= last <= chosen
        passage = text.passages[chosen]
        if len(passage.words) <= left:
            parts.append(passage.text)
        else:
            parts.extend(passage.words[:left])
        left -= len(passage.words)
        last = chosen
    return "".join(parts).rstrip()


def write_prompt(text: Text, words: int, *, chance: Chance, number: int) -> str:
    """As :func:`write_text`, with what the model is to do at its end where there is room for it."""
    if words < _ASK_FROM_WORDS:
        return write_text(text, words, chance=chance, number=number)
    body = write_text(text, words - text.ask_words, chance=chance, number=number)
    return f"{body}{_GAP}{text.ask}"


def write_nonsense(text: Text, words: int, *, chance: Chance, number: int) -> str:
    """Plain words of a text without order. The first ones follow from ``number``, as above."""
    vocabulary = text.vocabulary
    count = len(vocabulary)
    draw = chance.random
    rest = [vocabulary[int(draw() * count)] for _ in range(words - _OPENING_WORDS)]
    return " ".join([*_write_opening(text, number)[:words], *rest])


def _write_opening(text: Text, number: int) -> list[str]:
    """The digits of a number, each one written as a word, the lowest first."""
    opening = []
    for _ in range(_OPENING_WORDS):
        number, digit = divmod(number, len(text.vocabulary))
        opening.append(text.vocabulary[digit])
    return opening


def calibrate(
    words_sent: Sequence[int],
    prompt_tokens_told: Sequence[int],
    *,
    overhead_tokens: float = 0.0,
) -> Calibration | None:
    """How many tokens the server counts in a word, from its usage of requests of known length.

    With different lengths the template's overhead is told apart from the words (the line of least
    squares); with one length it is taken to be ``overhead_tokens``. None where the figures cannot
    be those of our words: no answer told its usage, or it does not grow with the prompt.
    """
    points = list(zip(words_sent, prompt_tokens_told, strict=True))
    if not points:
        return None
    middle_words = sum(words for words, _ in points) / len(points)
    middle_tokens = sum(tokens for _, tokens in points) / len(points)
    width = sum((words - middle_words) ** 2 for words, _ in points)
    if width:
        shared = sum((words - middle_words) * (tokens - middle_tokens) for words, tokens in points)
        slope = shared / width
        overhead_tokens = max(0.0, middle_tokens - slope * middle_words)
    else:
        slope = (middle_tokens - overhead_tokens) / max(1.0, middle_words)
    if not _LEAST_TOKENS_PER_WORD <= slope <= _MOST_TOKENS_PER_WORD:
        return None
    return Calibration(tokens_per_word=slope, overhead_tokens=overhead_tokens)
