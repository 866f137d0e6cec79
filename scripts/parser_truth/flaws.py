"""How what a client got differs from what the model wrote.

White space around texts is nobody's promise and not looked at. Runs in an engine's interpreter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.parser_truth.canon import Format, Shape

Result = Mapping[str, Any]


def expect(layout: Format, shape: Shape) -> dict[str, Any]:
    """What a client should get: the texts, the calls as name and arguments, the ending."""
    calls = [[name, arguments] for name, arguments in shape.calls]
    finish = "length" if shape.is_cut else "tool_calls" if calls else "stop"
    content, reasoning = shape.text, shape.thought
    if layout.get("is_kept") and shape.thought:
        content = f"<think>{shape.thought}{'' if shape.is_cut else layout['think'][1]}\n\n{content}"
        reasoning = ""
    return {"content": content, "reasoning": reasoning, "calls": calls, "finish": finish}


def find_flaws(result: Result, expected: Result, marks: Sequence[str]) -> list[str]:
    """Each difference in a word, sorted; none for a faithful reply."""
    if "error" in result:
        return ["error"]
    found = set(_find_call_flaws(result["calls"], expected["calls"]))
    for key, word in (("content", "text"), ("reasoning", "thought")):
        got, wanted = result[key].strip(), expected[key].strip()
        if _squeeze(got) != _squeeze(wanted):
            found.update(_find_text_flaws(got, wanted, word, marks))
    if result["finish"] != expected["finish"] and len(result["calls"]) == len(expected["calls"]):
        found.add("finish_reason")
    return sorted(found)


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _find_text_flaws(got: str, wanted: str, word: str, marks: Sequence[str]) -> list[str]:
    flaws = []
    if any(mark in got and mark not in wanted for mark in marks):
        flaws.append(f"{word}_marked")
    if wanted and got.count(wanted) > 1:
        flaws.append(f"{word}_doubled")
    if wanted not in got:
        flaws.append(f"{word}_lost" if not got else f"{word}_changed")
    elif not flaws:
        flaws.append(f"{word}_added")
    return flaws


def _find_call_flaws(calls: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]) -> list[str]:
    flaws = []
    if len(calls) != len(wanted):
        flaws.append("call_lost" if len(calls) < len(wanted) else "call_added")
    if [call[0] for call in calls] != list(range(len(calls))):
        flaws.append("call_index")
    for (_, name, written), (wanted_name, arguments) in zip(calls, wanted, strict=False):
        if name != wanted_name:
            flaws.append("call_name")
        flaws.extend(_find_argument_flaws(written, arguments))
    return flaws


def _find_argument_flaws(written: str, wanted: Mapping[str, Any]) -> list[str]:
    if not written:
        return ["arguments_missing"]
    try:
        arguments = json.loads(written)
    except ValueError:
        return ["arguments_not_json"]
    if not isinstance(arguments, dict):
        return ["arguments_no_object"]
    return [] if arguments == wanted else ["arguments_changed"]


def find_marks(layout: Format) -> tuple[str, ...]:
    """What of a format is markup and nothing that a person would write."""
    parts = [str(layout.get("call", "")), str(layout.get("pair", ""))]
    for key in ("calls", "think", "text", "preamble"):
        parts.extend(layout.get(key, ()))
    pieces = [piece for part in parts for piece in re.split(r"\{+\w*\}*|\n|\"", part)]
    marks = {piece.strip() for piece in pieces if len(piece.strip()) > 2 and "<" in piece}
    return tuple(sorted({*marks, *layout.get("atomic", ())}))
