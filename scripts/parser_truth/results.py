"""What a client has in the end of a reply, in one form for all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Which parsers are on, and whether the request asks for a thought or has no choice."""

    tool: str = ""
    reasoning: str = ""
    thinks: bool = False
    is_always: bool = False


def join_deltas(
    deltas: Sequence[Mapping[str, Any]], finish: Any
) -> tuple[dict[str, Any], list[list[Any]]]:
    """The deltas joined as a client joins them, and as rows: kind, then what came."""
    result: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "finish": finish}
    rows: list[list[Any]] = []
    for delta in deltas:
        _take_delta(delta, result, rows)
    return result, rows


def _take_delta(delta: Mapping[str, Any], result: dict[str, Any], rows: list[list[Any]]) -> None:
    thought = delta.get("reasoning_content") or delta.get("reasoning")
    for key, mark, piece in (
        ("content", "c", delta.get("content")),
        ("reasoning", "r", thought),
    ):
        if piece:
            result[key] += piece
            rows.append([mark, piece])
    for call in delta.get("tool_calls") or ():
        function = call.get("function") or {}
        name, piece = function.get("name"), function.get("arguments") or ""
        rows.append(["t", call["index"], name, piece])
        _take_call(result["calls"], call["index"], name, piece)


def _take_call(calls: list[list[Any]], index: Any, name: Any, piece: str) -> None:
    """Add to the call with this index, as a client does; a name where one was makes it odd."""
    known = next((call for call in calls if call[0] == index), None)
    if known is None:
        calls.append([index, name, piece])
    else:
        known[1] = known[1] if name is None else f"{known[1] or ''}{name}"
        known[2] += piece
