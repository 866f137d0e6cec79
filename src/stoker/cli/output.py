"""Prints results on stdout and errors where they belong. The only module that prints results."""

from __future__ import annotations

import json
import sys

from stoker.cli.streams import write_or_drop
from stoker.errors import Blocked, RollbackFailed, SpecError, StalePlan, StokerError
from stoker.model.document import render_document
from stoker.model.visible import escape_json, visible_lines


def print_text(text: str) -> None:
    """A result for a person: what a terminal would obey in foreign texts is spelled out."""
    print_chunk(_ended(visible_lines(text)))


def print_chunk(text: str) -> bool:
    """A part of a result that is still coming; whether anybody reads it.

    The reader may have left (`| head`), or the disk behind it be full. What was done is done, and
    that is what the exit code says.
    """
    return write_or_drop(sys.stdout, text)


def print_value(value: object) -> None:
    """A result for a program: a value as its JSON document, or JSON-shaped data as it is."""
    is_plain = isinstance(value, (dict, list))
    text = json.dumps(value, indent=2, ensure_ascii=False) if is_plain else render_document(value)
    print_chunk(_ended(escape_json(text)))


def print_error(error: StokerError, *, as_json: bool) -> None:
    """An error: words on stderr, or a document on stdout when JSON was asked for."""
    if as_json:
        print_value(_error_document(error))
        return
    lines = [f"error: {error.summary}", *(f"  {detail}" for detail in _details(error))]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    write_or_drop(sys.stderr, visible_lines("\n".join(lines)) + "\n")


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _details(error: StokerError) -> list[str]:
    """What belongs to the error beyond its sentence."""
    if isinstance(error, SpecError):
        return _problems(error)
    match error:
        case Blocked():
            texts = error.reasons
        case StalePlan():
            texts = error.differences
        case RollbackFailed():
            texts = error.left
        case _:
            texts = ()
    return [line for text in texts for line in _indented(text)]


def _indented(text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _problems(error: SpecError) -> list[str]:
    lines = []
    for problem in error.problems:
        place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
        path = f"{problem.path}: " if problem.path else ""
        lines.append(f"{place}{path}{problem.message}")
        if problem.hint:
            lines.append(f"    {problem.hint}")
    return lines


def _error_document(error: StokerError) -> dict[str, object]:
    document: dict[str, object] = {
        "schema": "error/1",
        "error": type(error).__name__,
        "summary": error.summary,
        "hint": error.hint,
        "exit_code": int(error.exit_code),
        "details": _details(error),
    }
    if isinstance(error, SpecError):
        document["problems"] = [
            {
                "line": problem.line,
                "column": problem.column,
                "path": problem.path,
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in error.problems
        ]
    return document
