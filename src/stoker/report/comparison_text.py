"""What differs between two sides, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.model.comparison import Comparison, Difference
from stoker.report.table import render_table

#: Longer values stand below their name instead of beside it.
_LONGEST_CELL = 40
_NOTHING = "(not set)"


def render_comparison(comparison: Comparison) -> str:
    """The differences as a table, then what is the same and what could not be told."""
    a, b = comparison.a, comparison.b
    lines: list[str] = []
    if comparison.is_same:
        lines.append(f"{a} and {b} are the same.")
    else:
        lines += render_differences(comparison.differences, a=a, b=b)
    lines.append(_count(comparison))
    if comparison.same_by_default:
        names = ", ".join(comparison.same_by_default)
        lines.append(f"Same by default, written on one side only: {names}")
    lines += comparison.notes
    return "\n".join(lines) + "\n"


def render_differences(differences: Sequence[Difference], *, a: str, b: str) -> list[str]:
    """The lines of the differences; ``a`` and ``b`` head their columns."""
    narrow = [each for each in differences if _is_narrow(each)]
    lines: list[str] = []
    if narrow:
        rows = [
            (_name(each), each.a or _nothing(each.a), each.b or _nothing(each.b)) for each in narrow
        ]
        lines += render_table(("NAME", f"A: {a}", f"B: {b}"), rows).splitlines()
    for each in differences:
        if each not in narrow:
            lines += [_name(each), f"  A: {each.a or _nothing(each.a)}"]
            lines.append(f"  B: {each.b or _nothing(each.b)}")
    lines += [f"{_name(each)}: {each.note}" for each in differences if each.note]
    return lines


def _is_narrow(difference: Difference) -> bool:
    return all(len(text or "") <= _LONGEST_CELL for text in (difference.a, difference.b))


def _name(difference: Difference) -> str:
    return f"${difference.name}" if difference.what == "variable" else difference.name


def _nothing(value: str | None) -> str:
    """A side that has nothing under a name, and one that has an empty value."""
    return _NOTHING if value is None else '""'


def _count(comparison: Comparison) -> str:
    different, equal = len(comparison.differences), comparison.equal_count
    return f"{different} different, {equal} equal."
