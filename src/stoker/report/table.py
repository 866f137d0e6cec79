"""Plain aligned columns. Two screens of text do not need a table library's start-up time."""

from __future__ import annotations

from collections.abc import Sequence


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two blanks apart, no trailing blanks."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"
