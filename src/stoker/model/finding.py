"""Findings: a rule's answer, with its evidence and where the rule's knowledge comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stoker.model.facts import Plain


class Severity(StrEnum):
    """``block`` stops a plan; ``warning`` is shown; ``note`` is shown on request."""

    BLOCK = "block"
    WARNING = "warning"
    NOTE = "note"


class Status(StrEnum):
    """Never just two answers: an unknown names the fact that would settle it."""

    FIRED = "fired"
    CLEAR = "clear"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a piece of knowledge comes from.

    ``kind``: observed (somebody measured it), documented (an upstream text says it) or inferred
    (we conclude it; such a rule may warn, never block). ``where``: address or measurement;
    ``version``: of the thing described; ``date``: ISO date on which it was read or measured.
    """

    kind: str
    where: str
    version: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule says about this deployment on this host.

    ``remedy`` is a sentence; ``change`` is the remedy as a change to the deployment (dotted path
    to new value), empty where none exists. ``missing`` names the facts that would settle an
    unknown. ``accepted`` is true when the deployment names the rule under ``accept``.
    """

    rule: str
    status: Status
    severity: Severity
    summary: str
    remedy: str = ""
    change: Mapping[str, Plain] = field(default_factory=dict)
    evidence: Mapping[str, Plain] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    source: Source
    accepted: bool = False

    @property
    def blocks(self) -> bool:
        """Whether this finding stops a plan."""
        return self.status is Status.FIRED and self.severity is Severity.BLOCK and not self.accepted
