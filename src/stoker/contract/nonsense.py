"""Noticing a text that nobody wrote: what a server says whose numbers or whose text broke down.

The judges of answers use this. Pure, and total for any text. A small model may say foolish things
and say them twice, so :func:`find_nonsense` names only what no model says that was computed and
decoded as it should be. :func:`find_loop`, :func:`measure_entropy_bits` and :func:`mixes_scripts`
are softer: they are for comparing answers, where a single one proves nothing.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.model.facts import Plain


class Kind(StrEnum):
    """What is wrong with a text. The values are the symptoms of judgements."""

    BROKEN_CHARACTERS = "broken_characters"
    ONE_CHARACTER = "one_character"
    REPETITION = "repetition"
    COLLAPSE = "collapse"
    CONTROL_CHARACTERS = "control_characters"
    MIXED_SCRIPTS = "mixed_scripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonsense:
    """One thing that is wrong with a text. ``found`` says it in half a sentence, without quotes."""

    kind: Kind
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A text that ends in the same piece over and over.

    ``unit`` is the piece with single spaces, ``count`` how often it stands (the last may be cut),
    ``share`` which part of the text that is, from 0 to 1.
    """

    unit: str
    count: int
    share: float

    @property
    def is_whole(self) -> bool:
        """Whether the text is nothing else, from its first word on."""
        return self.share > _WHOLE


#: A model that computes nonsense repeats one token. "4", "..." and "444" are answers.
_LEAST_CHARACTERS = 4

#: A text may begin well and break down later. A cry has few letters, a large number many zeros,
#: and a line across the page is drawn with one of these signs.
_LEAST_RUN = 32
_LEAST_DIGITS = 128
_RUN_SHARE = 0.5
_DRAWN = frozenset("-=_*~#.+|\u00b7\u2013\u2014\u2026") | frozenset(map(chr, range(0x2500, 0x25A0)))

#: A word forty times may be asked for and a small model may be caught in a phrase for a while.
_LEAST_REPEATS = 48
_WHOLE = 0.95

#: The loop is looked for at the end of a text; so many characters of it are plenty.
_LOOKED_AT = 20_000

#: Letters of a language carry about 4 bits each, the four letters of a genome 2.
_LEAST_LETTERS = 200
_LEAST_BITS = 1.5

#: Scripts that stand side by side within one word in ordinary texts, or that are used as symbols.
_NEIGHBOURS = frozenset({"LATIN", "EAST_ASIAN", "HANGUL", "GREEK"})
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO"})
_SCRIPTS = (
    _EAST_ASIAN
    | (_NEIGHBOURS - {"EAST_ASIAN"})
    | {"ARABIC", "ARMENIAN", "BENGALI", "CHEROKEE", "CYRILLIC", "DEVANAGARI", "ETHIOPIC"}
    | {"GEORGIAN", "GUJARATI", "GURMUKHI", "HEBREW", "KANNADA", "KHMER", "LAO", "MALAYALAM"}
    | {"MONGOLIAN", "MYANMAR", "ORIYA", "SINHALA", "SYRIAC", "TAMIL", "TELUGU", "THAANA"}
    | {"THAI", "TIBETAN"}
)
_LEAST_SCRIPTS = 4
_LEAST_SWITCHES = 4

#: One may be a decoder's leftover, and ESC [ colours a text that shows a terminal.
_LEAST_CONTROLS = 3

#: U+FFFD stands for bytes that were no character, a lone surrogate is half of one.
_BROKEN = re.compile("[\ufffd\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\x80-\x84\x86-\x9f]")
_NAN = re.compile(r"\bnan\b", re.IGNORECASE)


def find_nonsense(text: str, *, was_cut: bool = False) -> Nonsense | None:
    """What no computed and well decoded answer is, None for any other text, also an empty one.

    ``was_cut``: the token limit ended the text, so its last character may be broken.
    """
    return (
        _find_broken(text, was_cut=was_cut)
        or _find_one_character(text)
        or _find_repetition(text)
        or _find_collapse(text)
        or _find_controls(text)
        or _find_mixture(text)
    )


def has_broken_characters(text: str, *, was_cut: bool = False) -> bool:
    """Whether replaced or half characters stand in a text; at a cut end they are ordinary."""
    return _BROKEN.search(text.rstrip("\ufffd") if was_cut else text) is not None


def is_nan_note(note: Plain) -> bool:
    """Whether an engine's own note on how a text ended says that its numbers broke down."""
    return isinstance(note, str) and _NAN.search(note) is not None


def find_loop(text: str, least_count: int = 3) -> Loop | None:
    """The longest end of a text that is one piece over and over, None where there is none.

    Small models are caught in loops on correct servers too, so a loop alone proves nothing.
    """
    words = " ".join(text.split())[-_LOOKED_AT:]
    backwards = words[::-1]
    best_length, best_period = 0, 0
    for length, period in enumerate(_list_periods(backwards), start=1):
        # The last of several words has no space behind it.
        if length + (backwards[period - 1] == " ") >= period * least_count:
            best_length, best_period = length, period
    if not best_length:
        return None
    start = len(words) - best_length
    return Loop(
        unit=words[start : start + best_period].strip(),
        count=math.ceil(best_length / best_period),
        share=best_length / len(words),
    )


def _list_periods(text: str) -> Sequence[int]:
    """Of each beginning of a text, one character longer each time, the shortest period."""
    borders, periods, border = [0], [1], 0
    for place in range(1, len(text)):
        while border and text[place] != text[border]:
            border = borders[border - 1]
        border += text[place] == text[border]
        borders.append(border)
        periods.append(place + 1 - border)
    return periods if text else ()


def measure_entropy_bits(items: Sequence[str]) -> float:
    """How many bits each item (a word, a letter) of a text carries; 0 for none or all alike."""
    total = len(items)
    shares = [count / total for count in Counter(items).values()]
    return max(0.0, -sum(share * math.log2(share) for share in shares))


def mixes_scripts(text: str) -> bool:
    """Whether several scripts follow each other within words, as in tokens drawn by chance."""
    scripts, switches, last = set(), 0, ""
    for character in text:
        script = _name_script(character)
        if script:
            scripts.add(script)
            switches += bool(last) and script != last and not {script, last} <= _NEIGHBOURS
        # A mark belongs to the letter before it.
        if script or not unicodedata.category(character).startswith("M"):
            last = script
    return len(scripts) >= _LEAST_SCRIPTS and switches >= _LEAST_SWITCHES


def _name_script(character: str) -> str:
    """The script of a letter; empty for everything that is none or is of a rare script."""
    if not character.isalpha():
        return ""
    name = unicodedata.name(character, "").split(" ", 1)[0]
    if name in _EAST_ASIAN:
        return "EAST_ASIAN"
    return name if name in _SCRIPTS else ""


def _find_broken(text: str, *, was_cut: bool) -> Nonsense | None:
    if not has_broken_characters(text, was_cut=was_cut):
        return None
    return Nonsense(kind=Kind.BROKEN_CHARACTERS, found="broken characters")


def _find_one_character(text: str) -> Nonsense | None:
    visible = "".join(text.split())
    if len(visible) >= _LEAST_CHARACTERS and len(set(visible)) == 1 and not _is_drawing(text):
        return Nonsense(kind=Kind.ONE_CHARACTER, found="one character over and over")
    run = max(re.finditer(r"(.)\1*", visible, re.DOTALL), key=_measure, default=None)
    if run is None or run[1] in _DRAWN:
        return None
    least = _LEAST_DIGITS if run[1].isdigit() else _LEAST_RUN
    if _measure(run) < max(least, _RUN_SHARE * len(visible)):
        return None
    return Nonsense(kind=Kind.ONE_CHARACTER, found="a text that ends up in one character")


def _is_drawing(text: str) -> bool:
    """Whether lines of several lengths make a figure, a triangle of stars for one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return set("".join(lines)) <= _DRAWN | {" "} and len({len(line) for line in lines}) >= 3


def _measure(match: re.Match[str]) -> int:
    return match.end() - match.start()


def _find_repetition(text: str) -> Nonsense | None:
    loop = find_loop(text, _LEAST_REPEATS)
    if loop is None or not loop.is_whole:
        return None
    if len(loop.unit) == 1 or set(loop.unit) <= _DRAWN | {" "}:  # zeros of a number; a table's line
        return None
    return Nonsense(kind=Kind.REPETITION, found=f"the same words {loop.count} times")


def _find_collapse(text: str) -> Nonsense | None:
    letters = [character for character in text if character.isalpha()]
    if len(letters) < _LEAST_LETTERS or measure_entropy_bits(letters) >= _LEAST_BITS:
        return None
    return Nonsense(kind=Kind.COLLAPSE, found="hardly more than two letters")


def _find_controls(text: str) -> Nonsense | None:
    count = len(_CONTROLS.findall(text))
    if count < _LEAST_CONTROLS:
        return None
    return Nonsense(kind=Kind.CONTROL_CHARACTERS, found=f"{count} control characters")


def _find_mixture(text: str) -> Nonsense | None:
    if not mixes_scripts(text):
        return None
    return Nonsense(kind=Kind.MIXED_SCRIPTS, found="words that mix several scripts")
