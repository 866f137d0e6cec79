"""What an engine decided at its start, as a person reads it."""

from __future__ import annotations

from stoker.model.resolved import Resolved, ResolvedScalar, ResolvedValue
from stoker.model.units import format_bytes
from stoker.model.visible import visible
from stoker.report.table import render_table


def render_resolved(resolved: Resolved) -> str:
    """One line a value: what it is, its figure, and who told it; then what one should know."""
    lines = [_head(resolved)]
    rows = [
        (resolved.titles.get(name, name), _figure(value.value, value.unit), _told_by(value))
        for name, value in resolved.values.items()
    ]
    if rows:
        lines.append(render_table(("WHAT", "VALUE", "TOLD BY"), rows).rstrip())
    for note in resolved.notes:
        lines += [f"note: {note.title}", f"    {visible(note.line)}"]
    return "\n".join(lines) + "\n"


def _head(resolved: Resolved) -> str:
    """Whose start this is, whether it still runs, and how far it came."""
    title = visible(resolved.title)
    is_more = title and title != resolved.phase
    reached = f"{resolved.phase} ({title})" if is_more else resolved.phase
    if not resolved.deployment:
        return f"{resolved.engine}: {reached}"
    who = f"{resolved.deployment} ({resolved.engine})"
    if resolved.is_running:
        return f"{who}: {reached}"
    return f"{who} does not run; this is what its last start told, which came to: {reached}"


def _told_by(value: ResolvedValue) -> str:
    if len(set(value.by_rank.values())) > 1:
        each = ", ".join(
            f"{rank or 'all'} {_figure(told, value.unit)}"
            for rank, told in sorted(value.by_rank.items())
        )
        return f"{value.told_by}: {each}"
    return value.told_by


def _figure(value: ResolvedScalar, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return visible(value)
    if unit == "bytes":
        return format_bytes(int(value))
    text = f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return f"{text} s" if unit == "seconds" else text
