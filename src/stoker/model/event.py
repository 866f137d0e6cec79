"""What happens now: the stream that progress lines, JSON lines and journals are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain


class EventKind(StrEnum):
    """The closed list of things that can happen."""

    STARTED = "started"
    PHASE = "phase"
    PROGRESS = "progress"
    OBSERVED = "observed"
    FINDING = "finding"
    PREPARATION = "preparation"
    CHANGE = "change"
    ACTIVATION = "activation"
    CHECK = "check"
    NOTE = "note"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. ``text`` is a whole sentence or phrase for a person.

    ``fraction`` is between 0 and 1 where progress is known, else None.
    """

    SCHEMA: ClassVar[str] = "event/1"

    kind: EventKind
    subject: str
    text: str = ""
    fraction: float | None = None
    at_seconds: float = 0.0
    data: Mapping[str, Plain] = field(default_factory=dict)
