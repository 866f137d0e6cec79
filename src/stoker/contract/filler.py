"""Text that says nothing in particular: varied neutral sentences for long prompts, from a seed.

The checks of long prompts and of caches use it. The same seed gives the same text on every machine
and with every Python, so that a recorded trial can be judged again.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

#: No word here is an answer, a code word or a name of :mod:`stoker.contract.questions`.
_OPENINGS = (
    *("Later on", "That spring", "By and by", "In the old town", "Near the river"),
    *("After some time", "In the afternoon", "At the market", "Beyond the hill"),
    *("In those years", "On the way home", "Close to the shore", "Before supper"),
)
_PEOPLE = (
    *("a farmer", "the teacher", "an old sailor", "the neighbours", "a young painter"),
    *("the baker", "a group of travellers", "the gardener", "some students", "a clerk"),
    *("the librarian", "two fishermen", "the carpenter", "a quiet visitor"),
)
_ACTIONS = (
    *("carried", "looked at", "talked about", "cleaned", "remembered", "described"),
    *("waited for", "bought", "repaired", "painted", "found", "counted", "mentioned"),
)
_THINGS = (
    *("a wooden table", "the long letters", "some baskets of fruit", "an empty boat"),
    *("the narrow bridge", "a pile of books", "the garden fence", "several chairs"),
    *("the road to the station", "a map of the valley", "the kitchen window", "fresh bread"),
    *("the story of the mill", "a warm coat", "the plans for a house"),
)
_ENDINGS = (
    *("and went on without hurry", "while the rain fell on the roofs", "as people often do"),
    *("and nobody was surprised", "because the evening was calm", "before the others arrived"),
    *("with great care", "and then returned to work", "until the lamps were lit"),
    *("although the wind was strong", "and put it on paper", "as the season changed"),
)

_SLOTS = (_OPENINGS, _PEOPLE, _ACTIONS, _THINGS, _ENDINGS)

#: The usual constants of a 64-bit linear congruential generator; its upper bits are good enough.
_FACTOR, _STEP, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


@lru_cache(maxsize=32)
def write_filler(seed: int, word_count: int) -> str:
    """Sentences of ``word_count`` words at least, and less than one sentence more."""
    sentences: list[str] = []
    state, count = (seed * _FACTOR + _STEP) & _MASK, 0
    while count < word_count:
        parts = []
        for slot in _SLOTS:
            state = (state * _FACTOR + _STEP) & _MASK
            parts.append(slot[(state >> 33) % len(slot)])
        sentence = f"{parts[0]}, {parts[1]} {parts[2]} {parts[3]} {parts[4]}."
        sentences.append(sentence)
        count += sentence.count(" ") + 1
    return " ".join(sentences)


def make_seed(*parts: object) -> int:
    """A seed from whatever tells one trial from another."""
    return zlib.crc32("\n".join(map(str, parts)).encode("utf-8", "replace"))
