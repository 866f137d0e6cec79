"""How much one reading of a note may do: steps are counted, and no clock is asked.

Opened by the ways in (:mod:`stoker.recipes.notes.read`, :mod:`stoker.recipes.notes.card`); whatever
puts values in or looks a name up spends of it. The same text spends the same on every machine. It
must never stop a reading by an exception: who cannot spend leaves the rest unknown and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

#: A note of many pages takes some ten thousand.
MAX_STEPS = 1_000_000
#: What all variables of one note may grow to when they are put in.
MAX_EXPANDED_CHARACTERS = 1 << 20
#: Names that are compared with all known ones, because no release has them.
MAX_LIKENESSES = 200
SPENT = "the note is too much work to read; what comes here is not known"


@dataclass(slots=True)
class Budget:
    """What is left of it, and the sentences about what was left out; each is said once."""

    steps: int = MAX_STEPS
    characters: int = MAX_EXPANDED_CHARACTERS
    likenesses: int = MAX_LIKENESSES
    complaints: dict[str, None] = field(default_factory=dict)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be done."""
        return self.steps < 0

    def spend(self, steps: int) -> bool:
        """Count some steps; False where they are not there any more."""
        self.steps -= steps
        if self.steps < 0:
            self.complain("the rest was not read: it takes more work than any note should")
        return self.steps >= 0

    def put_in(self, characters: int) -> bool:
        """Count the value of a variable that is put in; False where they grow too much."""
        self.characters -= characters
        if self.characters < 0:
            self.complain("the values of variables were not put in any more: they grow too much")
        return self.characters >= 0

    def spend_likeness(self) -> bool:
        """Count one comparison with all known names; False where there were too many."""
        self.likenesses -= 1
        return self.likenesses >= 0

    def complain(self, sentence: str) -> None:
        """Tell the reader what was left out."""
        self.complaints[sentence] = None


_CURRENT: ContextVar[Budget | None] = ContextVar("budget of a note", default=None)


def current_budget() -> Budget:
    """The budget of the reading that goes on; one of its own where none was opened."""
    return _CURRENT.get() or Budget()


@contextmanager
def open_budget(*, readings: int = 1) -> Iterator[Budget]:
    """One budget for all that is read within the block, and within blocks inside of it.

    ``readings``: how many times as much it is as for one note.
    """
    outer = _CURRENT.get()
    if outer is not None:
        yield outer
        return
    budget = Budget(
        steps=readings * MAX_STEPS,
        characters=readings * MAX_EXPANDED_CHARACTERS,
        likenesses=MAX_LIKENESSES,
    )
    token = _CURRENT.set(budget)
    try:
        yield budget
    finally:
        _CURRENT.reset(token)
