"""Where an output is cut into the pieces that a parser gets one after the other.

A *boundary* is a place between two characters. ``inner`` boundaries lie within what the model's
tokenizer has as one token: no real stream is cut there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to cut. ``is_real``: no token of the model is cut. ``kind`` is what it is called.

    ``is_late``: the word that the turn has ended comes alone, after all text, as it does where the
    end is a token of its own; otherwise with the last piece, as after speculation.
    """

    kind: str
    pieces: tuple[str, ...]
    is_real: bool
    is_late: bool = True

    @property
    def keeps_tokens(self) -> bool:
        """Whether every piece is made of whole tokens of the tokenizer that was asked."""
        return self.kind == "whole" or self.kind.endswith("tokens")


def find_inner(text: str, atoms: Sequence[str]) -> frozenset[int]:
    """The boundaries within atoms; a longer atom wins over one that it holds."""
    inner: set[int] = set()
    position = 0
    longest_first = sorted(atoms, key=len, reverse=True)
    while position < len(text):
        atom = next((each for each in longest_first if text.startswith(each, position)), "")
        inner.update(range(position + 1, position + len(atom)))
        position += len(atom) or 1
    return frozenset(inner)


def cut(text: str, boundaries: Sequence[int]) -> tuple[str, ...]:
    """The pieces between the boundaries, in order."""
    places = [0, *boundaries, len(text)]
    return tuple(text[a:b] for a, b in pairwise(places) if b > a)


def make_splits(text: str, atoms: Sequence[str], tokens: Sequence[int]) -> Iterator[Split]:
    """Every split that is tried; ``tokens`` are the boundaries between a tokenizer's tokens."""
    inner = find_inner(text, atoms)
    places = range(1, len(text))
    fine = [place for place in places if place not in inner]
    real = [place for place in tokens if place not in inner]
    for is_late in (True, False):
        yield Split(kind="whole", pieces=(text,), is_real=True, is_late=is_late)
        yield Split(kind="tokens", pieces=cut(text, real), is_real=True, is_late=is_late)
        yield Split(kind="fine", pieces=cut(text, fine), is_real=True, is_late=is_late)
    for step in (2, 3, 5, 8):
        for first in range(step):
            pieces = cut(text, real[first::step])
            yield Split(kind=f"{step} tokens", pieces=pieces, is_real=True)
    yield Split(kind="characters", pieces=cut(text, places), is_real=not inner)
    for place in places:
        pieces = cut(text, [place])
        yield Split(kind="two pieces", pieces=pieces, is_real=place not in inner)
