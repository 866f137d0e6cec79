"""The space of a search as text, for `stoker tune --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.model.visible import visible
from stoker.report.table import render_table
from stoker.report.tuning_text import render_count, render_minutes

if TYPE_CHECKING:
    from stoker.commands.tuning_space import DescribedSpace


def render_space(described: DescribedSpace) -> str:
    """What a search would walk through, what was left out of it and why, and what it would cost."""
    count = described.count
    many = f"{count.number:,}" if count.is_exact else f"at most {count.number:,}"
    knobs = render_count(len(described.space.knobs), "knob")
    lines = [f"{described.name}: {knobs}, {many} configurations"]
    rows = [
        (
            visible(knob.id),
            visible(knob.default),
            visible(", ".join(each.id for each in knob.choices if each.id != knob.default)),
            "" if knob.restarts else "no restart",
        )
        for knob in described.space.knobs
    ]
    if rows:
        lines += ["", render_table(("KNOB", "NOW", "ALSO", ""), rows).rstrip()]
    if described.space.cuts:
        lines += ["", "what cannot stand together:"]
        lines += dict.fromkeys(
            f"  {visible(cut.because)}{_source(cut.source)}" for cut in described.space.cuts
        )
    if described.left:
        lines += ["", "left out:"]
        lines += [
            f"  {visible(' '.join((left.knob, ', '.join(left.choices))).strip())}: "
            f"{visible(left.because)}{_source(left.source)}"
            for left in described.left
        ]
    for each in described.blocked:
        lines += ["", f"blocked: {visible(each.because)}"]
    lines += ["", _describe_cost(described)]
    return "\n".join(lines) + "\n"


def _describe_cost(described: DescribedSpace) -> str:
    start = described.start_seconds
    if start is None:
        return "what a start takes is not known yet: there was none with these weights"
    each = f"a start takes about {start:.0f} s"
    if described.seconds is None:
        return f"{each}, and as long again or more for what is measured"
    return f"{each}, {described.restarts} of them {render_minutes(described.seconds)}"


def _source(source: str) -> str:
    return f" ({visible(source)})" if source else ""
