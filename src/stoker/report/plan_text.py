"""A plan as a person reads it: what, why, what blocks it, what it will cost."""

from __future__ import annotations

import difflib
import json

from stoker.model.finding import Finding, Status
from stoker.model.launch import Setting
from stoker.model.plan import Activation, Change, Plan
from stoker.model.units import format_bytes
from stoker.model.visible import visible
from stoker.report.capacity_text import render_forecast


def render_plan(plan: Plan) -> str:
    """The whole plan, the settings with their reasons included."""
    lines = [f"Plan {plan.id}: {plan.verb} {plan.name} on {plan.host}", ""]
    if plan.is_empty:
        lines += ["Nothing to do: it is as the file says, running and verified.", ""]
    lines += _preparations(plan)
    lines += _changes(plan)
    lines += _activations(plan)
    if plan.launch is not None and not plan.is_empty:
        lines += ["Settings of the engine, and why:"]
        lines += [_setting(setting) for setting in plan.launch.settings]
        lines.append("")
    if "memory" in plan.origin:
        lines += [f"Memory: {plan.origin['memory']}", ""]
    if plan.served is not None and plan.served.forecast is not None:
        lines += [render_forecast(plan.served.forecast), ""]
    if "unmeasured" in plan.origin:
        lines += [f"Measured: {visible(plan.origin['unmeasured'])}", ""]
    lines += _findings(plan)
    return "\n".join(lines).rstrip() + "\n"


def _preparations(plan: Plan) -> list[str]:
    if not plan.preparations:
        return []
    lines = ["Prepare (disturbs nothing):"]
    for item in plan.preparations:
        size = f"  {format_bytes(item.size_bytes)}" if item.size_bytes else ""
        lines += [f"  + {item.summary}", f"      {item.target}{size}"]
    return [*lines, ""]


def _changes(plan: Plan) -> list[str]:
    if not plan.changes:
        return []
    lines = ["Change:"]
    for change in plan.changes:
        lines += [f"  {_sign(change)} {change.path}"]
        lines += [f"      {reason}" for reason in change.reasons]
        lines += [f"      {line}" for line in render_diff(change)]
    return [*lines, ""]


def _sign(change: Change) -> str:
    if change.before is None:
        return "+"
    return "-" if change.after is None else "~"


def render_diff(change: Change) -> list[str]:
    """The lines that differ; all lines of a new file, but for documents of our own.

    Of a secret nothing is shown.
    """
    before, after = change.before, change.after
    if after is None or (after.content is None):
        return []
    lines = after.content.splitlines()
    if before is None or before.content is None:
        shown = [] if change.path.endswith(".json") else [f"+ {line}" for line in lines]
        return [f"{len(lines)} lines, mode {after.mode:04o}", *shown]
    differing = difflib.unified_diff(
        before.content.splitlines(), after.content.splitlines(), lineterm="", n=0
    )
    lines = [line for line in differing if not line.startswith(("---", "+++", "@@"))]
    if before.mode != after.mode:
        lines.append(f"mode {before.mode:04o} -> {after.mode:04o}")
    return lines


def _activations(plan: Plan) -> list[str]:
    if not plan.activations:
        return []
    lines = ["Activate (once, after all changes):"]
    lines += [_activation(activation) for activation in plan.activations]
    return [*lines, ""]


def _activation(activation: Activation) -> str:
    because = f"  because {'; '.join(activation.because)}" if activation.because else ""
    seconds = activation.expected_seconds
    cost = "" if seconds is None else f"  about {seconds:.0f} s, from earlier starts"
    return f"  > {activation.kind.value} {activation.target}{cost}{because}"


def _setting(setting: Setting) -> str:
    value = "" if setting.value is None else f" {' '.join((setting.value, *setting.more))}"
    by = f" {setting.rule}" if setting.rule else ""
    lines = [f"  {setting.name}{value}", f"      {setting.origin.value}{by}: {setting.reason}"]
    lines += [
        f"      instead of {' '.join((other.value or 'the bare flag', *other.more))}"
        f" of {other.chosen_by}"
        for other in setting.instead_of
    ]
    return "\n".join(lines)


def _findings(plan: Plan) -> list[str]:
    if not plan.findings:
        return []
    lines = ["Findings:"]
    for finding in plan.findings:
        # What blocks comes first; what could not be judged beside it is noise until it is mended.
        if not (plan.blocked_by and finding.status is Status.UNKNOWN):
            lines += render_finding(finding)
    return [*lines, ""]


def render_finding(finding: Finding) -> list[str]:
    """One finding, its remedy and where the rule comes from."""
    if finding.status is Status.UNKNOWN:
        missing = ", ".join(finding.missing)
        return [f"  ? unknown: {finding.summary} [{finding.rule}]", f"      needs: {missing}"]
    mark = "BLOCKS" if finding.blocks else finding.severity.value
    accepted = " (accepted in the file)" if finding.accepted else ""
    lines = [f"  ! {mark}: {finding.summary} [{finding.rule}]{accepted}"]
    if finding.remedy:
        lines.append(f"      {finding.remedy}")
    lines += [
        f"      change: {path}: {json.dumps(value, ensure_ascii=False)}"
        for path, value in finding.change.items()
    ]
    lines.append(f"      source: {finding.source.kind}, {finding.source.where}")
    return lines
