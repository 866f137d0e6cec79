"""Holding a server to its own answers: what it said rightly once it must say rightly again.

A baseline is what was heard when a question was asked alone and plainly. The same question is then
asked in other circumstances, and what differs is judged here. Wordings may differ, for kernels
compute a little differently in a crowd or with a cache; facts may not, and words must stay words.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.interview import Heard
from stoker.contract.judgement import Judgement, failed
from stoker.contract.questions import holds_word


def find_flips(baseline: Sequence[Heard], heard: Sequence[Heard]) -> tuple[int, ...]:
    """The numbers of the questions that were answered rightly, and now are not."""
    return tuple(
        number
        for number, (before, now) in enumerate(zip(baseline, heard, strict=True))
        if before.is_right and not now.fault and not now.is_right
    )


def find_new_nonsense(
    baseline: Sequence[Heard], heard: Sequence[Heard], *, where: str, symptom: str
) -> Judgement | None:
    """The first answer that is nonsense where the baseline was none. ``where``: ``at the same
    time``, for a sentence."""
    for before, now in zip(baseline, heard, strict=True):
        if now.nonsense and not before.nonsense:
            return failed(
                f"words {where}, as alone",
                f"{where} {now.nonsense.found}; alone {before.quoted}",
                symptom,
                kind=now.nonsense.symptom,
            )
    return None


def find_foreign_mark(heard: Heard, others: Sequence[Heard]) -> str:
    """A word in an answer that only another question can have brought there; empty for none."""
    if heard.fault or heard.is_right:
        return ""
    marks = (other.question.mark for other in others if other is not heard)
    return next(
        (
            mark
            for mark in marks
            if mark and holds_word(heard.text, mark) and not holds_word(heard.question.text, mark)
        ),
        "",
    )
