"""Requests that a workload makes: what is sent, and what the next turn is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered, as far as the next turn needs it."""

    text: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    finish_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One request to send. ``follow`` makes the next turn from the answer, None ends the session.

    ``due_seconds``: when a replayed trace wants it sent.
    """

    path: str
    body: bytes
    session: int = 0
    asked_tokens: int | None = None
    due_seconds: float | None = None
    follow: Callable[[Answer], Planned | None] | None = None
