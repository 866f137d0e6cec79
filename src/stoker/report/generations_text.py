"""Generations as a table."""

from __future__ import annotations

from stoker.model.status import Generations
from stoker.report.table import render_table


def render_generations(found: Generations) -> str:
    """One line a generation, the one in force marked."""
    rows = [
        (
            f"{'*' if line.is_current else ' '} {line.number}",
            line.published_name,
            str(line.port),
            line.weights,
            line.note,
            ", ".join(line.changed),
        )
        for line in found.generations
    ]
    return render_table(("  N", "PUBLISHED", "PORT", "MODEL", "NOTE", "CHANGED"), rows)
