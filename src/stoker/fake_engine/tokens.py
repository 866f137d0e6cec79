"""The tokens of the fake model: a word with the space behind it, and parts of rarer characters.

Pure. A token is bytes, as in a real model: an emoji is made of several, each only a part of it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

#: Longer words are several tokens.
_WORD_CHARACTERS = 12

_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_ASTRAL = "\U00010000-\U0010ffff"
_PIECES = re.compile(
    rf"[{_ASTRAL}]|[{_CJK}]\s*|[^\s{_CJK}{_ASTRAL}]{{1,{_WORD_CHARACTERS}}}\s?|\s{{1,8}}"
)
#: The same for the plainest texts, which are also the longest.
_ASCII_PIECES = re.compile(rf"\S{{1,{_WORD_CHARACTERS}}}\s?|\s{{1,8}}".encode("ascii"))


def split_tokens(text: str) -> tuple[bytes, ...]:
    """The text in tokens that join to it. What is no character becomes a question mark."""
    if text.isascii():
        return tuple(_ASCII_PIECES.findall(text.encode("ascii")))
    return tuple(token for piece in _PIECES.findall(text) for token in _split_piece(piece))


def _split_piece(piece: str) -> Iterator[bytes]:
    data = piece.encode("utf-8", "replace")
    if ord(piece[0]) < 0x10000:
        yield data
        return
    # The parts of an emoji are tokens of their own, as in vocabularies made from bytes.
    yield data[:2]
    yield from (data[place : place + 1] for place in range(2, len(data)))


def join_tokens(tokens: Iterable[bytes]) -> str:
    """The text of tokens. A character that was cut off at the end is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(b"".join(tokens))


def whole_pieces(tokens: Sequence[bytes], sizes: Iterable[int]) -> Iterator[tuple[str, int]]:
    """The text of so many tokens at a time, and how many: never half a character.

    ``sizes`` goes on for ever. Tokens that are a part of a character wait for the rest of it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    place, waiting = 0, 0
    for size in sizes:
        if place >= len(tokens):
            return
        group = tokens[place : place + size]
        place += len(group)
        waiting += len(group)
        text = decoder.decode(b"".join(group))
        if text or place >= len(tokens):
            yield text, waiting
            waiting = 0


class Vocabulary:
    """Numbers for tokens, given out as they are first seen; the same for as long as it lives."""

    #: The first ones belong to the special tokens of a model.
    FIRST = 256
    SIZE = 49152

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._tokens: list[bytes] = []
        self._lock = Lock()

    def ids(self, tokens: Iterable[bytes]) -> list[int]:
        """The numbers of tokens."""
        with self._lock:
            return [self._id(token) for token in tokens]

    def _id(self, token: bytes) -> int:
        if token not in self._ids:
            self._ids[token] = self.FIRST + len(self._tokens)
            self._tokens.append(token)
        return self._ids[token]

    def tokens(self, ids: Iterable[int]) -> tuple[bytes, ...]:
        """The tokens of numbers; one that was never given out stands for a word of its own."""
        with self._lock:
            count = len(self._tokens)
            return tuple(
                self._tokens[each - self.FIRST]
                if self.FIRST <= each < self.FIRST + count
                else f"word{each} ".encode()
                for each in ids
            )
