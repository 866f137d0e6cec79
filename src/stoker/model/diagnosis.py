"""What went wrong, what shows it, and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain
from stoker.model.finding import Source


class Gravity(StrEnum):
    """``error`` ends a start or makes answers wrong; ``warning`` costs something; ``note``."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Certainty(StrEnum):
    """How sure a cause is: nothing else prints this; most often it is this; it may be this."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One line that was read: ``origin`` names the log or file, ``line_number`` counts from 1
    (0: not a line). ``rank`` is the process of the engine that wrote it, in the engine's word."""

    origin: str
    line_number: int
    text: str
    rank: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One way to mend a cause.

    ``text`` is the sentence. ``changes`` are keys of the deployment file and their new values (None
    takes the key out); ``commands`` are argument vectors for a person, never run by Stoker.
    ``consent`` says what an owner must agree to first, empty where nothing is loosened.
    ``missing`` names what would tell whether it applies here.
    """

    text: str
    changes: Mapping[str, Plain] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    consent: str = ""
    missing: tuple[str, ...] = ()
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One thing that went wrong.

    ``meaning`` is one sentence. ``ranks`` are all that showed it and ``count`` how often.
    ``uncertain`` says what is not sure, ``settled_by`` the one reading that would settle it.
    """

    kind: str
    title: str
    meaning: str
    gravity: Gravity
    certainty: Certainty
    evidence: tuple[Evidence, ...] = ()
    repairs: tuple[Repair, ...] = ()
    ranks: tuple[str, ...] = ()
    count: int = 1
    uncertain: str = ""
    settled_by: str = ""
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInput:
    """What was read: its ``kind`` (log, kernel, reply, facts), lines and bytes; ``note`` where
    it was not read whole."""

    origin: str
    kind: str
    lines: int
    size_bytes: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The whole answer. ``causes`` begin with the first cause; ``consequences`` followed from it.
    ``earlier`` ended starts before the last one, and are over.

    ``unknown`` is a sentence where nothing that was read tells a cause, with ``unexplained`` as
    the first lines that look like an error.
    """

    SCHEMA: ClassVar[str] = "diagnosis/1"

    name: str
    engine: str
    release: str
    causes: tuple[Cause, ...] = ()
    consequences: tuple[Cause, ...] = ()
    earlier: tuple[Cause, ...] = ()
    unknown: str = ""
    unexplained: tuple[Evidence, ...] = ()
    inputs: tuple[ReadInput, ...] = ()
