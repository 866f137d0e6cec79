"""A run: one execution of a plan, as its write-ahead journal tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain
from stoker.model.plan import Image


class EntryPhase(StrEnum):
    """``begin`` is on disk before the effect; ``done`` after it; ``ended`` closes the run."""

    OPENED = "opened"
    BEGIN = "begin"
    DONE = "done"
    FAILED = "failed"
    ROLLING_BACK = "rolling-back"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a run ended."""

    DONE = "done"
    ROLLED_BACK = "rolled-back"
    NOT_ROLLED_BACK = "not-rolled-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal, flushed to the disk before what it announces happens.

    ``subject`` is what it is about (``file:/path``, ``start:name``, ``run``); ``before`` the
    image that a roll-back restores (its content lies beside the journal, by digest).
    """

    SCHEMA: ClassVar[str] = "entry/1"

    sequence: int
    run: str
    host: str
    phase: EntryPhase
    subject: str
    at_seconds: float
    before: Image | None = None
    details: Mapping[str, Plain] = field(default_factory=dict)
