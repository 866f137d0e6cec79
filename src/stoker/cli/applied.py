"""Prints what apply and up end with: everything that a person needs to use the server."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from stoker.cli.output import print_text, print_value
from stoker.commands.apply import Applied
from stoker.commands.repair import Repaired
from stoker.model.facts import Plain
from stoker.model.finding import Severity
from stoker.report.plan_text import render_finding


def print_applied(applied: Applied, *, as_json: bool) -> None:
    """The published name, the URL, a real answer, a line to copy, and how to stop."""
    if as_json:
        print_value(_document(applied))
        return
    plan = applied.converged.plan
    done = "is up and verified" if applied.converged.run else "was up already; nothing changed"
    answer = applied.verification.answer if applied.verification else ""
    lines = [
        "",
        f"{plan.name} {done}.",
        "",
        f"  model   {applied.published_name}",
        f"  URL     {applied.url}",
    ]
    if answer:
        when = "asked  " if applied.converged.run else "was asked when it was verified:"
        lines += [f"  {when} {applied.question}", f"  answer  {answer.strip()}"]
    lines += ["", "Ask it something:", "", _curl(applied), ""]
    lines += _warnings(applied)
    stoker = command_name(sys.argv[0])
    lines += [
        f"Stop it with `{stoker} stop {plan.name}`; remove it with `{stoker} down {plan.name}`."
    ]
    print_text("\n".join(lines))


def print_repaired(repaired: Repaired, *, as_json: bool) -> None:
    """What was tried and what the file got, and then what apply ends with."""
    if as_json:
        document = _document(repaired.applied)
        print_value({**document, "schema": "repaired/1", **_repair_document(repaired)})
        return
    if repaired.attempts:
        print_text("\n".join(_repair_lines(repaired)))
    print_applied(repaired.applied, as_json=False)


def _repair_lines(repaired: Repaired) -> list[str]:
    lines = ["", "What was tried:"]
    for attempt in repaired.attempts:
        lines += [f"  {attempt.outcome}: {attempt.text}"]
        lines += [f"    {attempt.said}"] if attempt.said else []
    if repaired.unwritten:
        lines += ["", f"It was verified, but {repaired.unwritten}. To keep it, change:"]
    else:
        lines += ["", f"Written into {repaired.file}:"]
    return [*lines, *(f"  {line}" for line in _change_lines(repaired.changes))]


def _change_lines(changes: Mapping[str, Plain]) -> list[str]:
    return [
        f"{key}: left out" if value is None else f"{key}: {json.dumps(value)}"
        for key, value in changes.items()
    ]


def _repair_document(repaired: Repaired) -> dict[str, object]:
    return {
        "attempts": [asdict(attempt) for attempt in repaired.attempts],
        "changes": dict(repaired.changes),
        "file": repaired.file,
        "unwritten": repaired.unwritten,
        "kept": repaired.kept,
    }


def command_name(called_as: str) -> str:
    """What a person types to call this very program again: its name if the shell finds it."""
    path = Path(called_as)
    try:
        if path.name != "stoker" or not path.is_file():
            return f"{Path(sys.executable).name} -m stoker"
        found = shutil.which("stoker")
        if found is not None and Path(found).samefile(path):
            return "stoker"
        whole, here = path.absolute(), Path.cwd()
    except OSError:
        return called_as  # the folder that we were called in is gone
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


def _curl(applied: Applied) -> str:
    body = json.dumps(
        {
            "model": applied.published_name,
            "messages": [{"role": "user", "content": applied.question}],
            "temperature": 0,
        }
    ).replace("'", "'\\''")
    key = f' -H "Authorization: Bearer $(cat {applied.key_file})"' if applied.key_file else ""
    kind = " -H 'Content-Type: application/json'"
    return f"  curl {applied.url}/v1/chat/completions{key}{kind} -d '{body}'"


def _warnings(applied: Applied) -> list[str]:
    """Findings that do not block, without their sources: `stoker plan` shows those."""
    lines = [
        line
        for finding in applied.converged.plan.findings
        if finding.severity is not Severity.NOTE
        for line in render_finding(finding)
        if not line.lstrip().startswith("source:")
    ]
    return [*lines, ""] if lines else []


def _document(applied: Applied) -> dict[str, object]:
    plan = applied.converged.plan
    return {
        "schema": "applied/1",
        "name": plan.name,
        "url": applied.url,
        "model": applied.published_name,
        "verified": bool(applied.verification and applied.verification.has_passed),
        "answer": applied.verification.answer if applied.verification else "",
        "run": applied.converged.run,
        "changed": bool(applied.converged.run),
    }
