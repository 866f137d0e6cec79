"""The status as a person reads it."""

from __future__ import annotations

from stoker.model.status import Status
from stoker.report.table import render_table


def render_status(status: Status) -> str:
    """A table, then what deserves a sentence."""
    if not status.deployments:
        hint = "" if status.busy else " `stoker up` starts the embedded example."
        lines = [f"No deployment yet.{hint}"]
        return "\n".join(lines + _interrupted(status)) + "\n"
    rows = [
        (one.name, one.phase, "yes" if one.verified else "no", one.model, one.url, one.engine)
        for one in status.deployments
    ]
    table = render_table(("NAME", "PHASE", "VERIFIED", "MODEL", "URL", "ENGINE"), rows)
    notes = [f"{one.name}: {one.drift}" for one in status.deployments if one.drift]
    notes += [
        f"{one.name}: this process has not been verified; `stoker verify {one.name}` tries it"
        for one in status.deployments
        if one.phase == "running"
    ]
    notes += [f"{one.name}: {one.detail}" for one in status.deployments if one.detail]
    notes += [f"{one.name}: {one.unmeasured}" for one in status.deployments if one.unmeasured]
    return table + "".join(f"{note}\n" for note in notes + _interrupted(status))


def _interrupted(status: Status) -> list[str]:
    busy = [f"{status.busy} is changing something"] if status.busy else []
    return busy + [
        f"run {run} was cut short; the next apply, start, stop or down recovers it"
        for run in status.interrupted
    ]
