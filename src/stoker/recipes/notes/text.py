"""Text from strangers: made harmless, and marks for the parts of it that cannot be known.

Called by all readers of notes. A mark stands inside of a word in place of what a shell, a template
or a person would have put there. Marks are made of control characters, which :func:`clean` takes
out of every text first, so that no text can forge one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from stoker.errors import UsageError

#: A note with commands in it is a few pages. Beyond this nobody wrote it for people.
MAX_BYTES = 1 << 20
#: What is shown of something that is not known.
_SHOWN_CHARACTERS = 80

_OPEN, _MIDDLE, _CLOSE = "\x00", "\x01", "\x02"
_MARK = re.compile(f"{_OPEN}([^{_MIDDLE}]*){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_ORDER_MARK = "\ufeff"


def clean(text: str, origin: str) -> str:
    """The text with line feeds alone, and U+FFFD for every character that cannot be seen.

    Controls, marks that turn the direction of writing and joiners are such. Raises UsageError for
    a text that is too large.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UsageError(
            f"{origin} is larger than {MAX_BYTES >> 20} MiB",
            "cut out the part with the command, and import that",
        )
    lines = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")
    return harmless(lines)


def harmless(text: str) -> str:
    """The text with U+FFFD for what cannot be seen: for values whose escapes made them anew."""
    seen = _UNSEEN.sub(REPLACEMENT, text)
    return seen if seen.isascii() else "".join(map(_seen, seen))


def mark(raw: str, reason: str) -> str:
    """A mark for something unknown: how it was written, and why it is not known."""
    return f"{_OPEN}{_short(raw)}{_MIDDLE}{reason}{_CLOSE}"


def has_mark(text: str) -> bool:
    """Whether any part of the text is not known."""
    return _OPEN in text


def find_marks(text: str) -> tuple[tuple[str, str], ...]:
    """What is unknown in the text: how it was written, and why."""
    return tuple((found[1], found[2]) for found in _MARK.finditer(text))


def show(text: str) -> str:
    """The text as it was written, for a person; it must never be used as a value."""
    return _MARK.sub(lambda found: found[1], text)


def split_blanks(text: str) -> list[str]:
    """The words of a text; blanks within a mark separate nothing."""
    return [
        each[0] for each in re.finditer(f"(?:{_OPEN}[^{_CLOSE}]*{_CLOSE}|[^\\s{_OPEN}])+", text)
    ]


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, from 1."""
    return enumerate(text.split("\n"), start=1)


def _seen(character: str) -> str:
    return REPLACEMENT if unicodedata.category(character) in ("Cf", "Co", "Cn") else character


def _short(raw: str) -> str:
    line = " ".join(_MARK.sub(lambda found: found[1], raw).split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"
