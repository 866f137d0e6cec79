"""Why a setting has its value: who chose it, against whom, and what would be without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain
from stoker.model.finding import Status
from stoker.model.launch import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAnswer:
    """What one of our rules says about a setting here.

    ``status`` is fired, clear or unknown; ``missing`` names the facts that would settle an
    unknown, ``evidence`` what was read, by path.
    """

    rule: str
    title: str
    value: str | None
    status: Status
    missing: tuple[str, ...] = ()
    evidence: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One flag or variable of one deployment's engine.

    ``setting`` is None where nobody sets it. ``without`` says what would be if nobody did.
    ``age_days``: since the knowledge behind it was read or measured, None where no date is known.
    ``choices`` are the values that the engine names, empty where it names none. ``since`` and
    ``until`` are the first and the last known release that has the flag, empty where no releases
    are known.
    """

    SCHEMA: ClassVar[str] = "explanation/1"

    name: str
    kind: str
    setting: Setting | None
    without: str
    age_days: int | None = None
    choices: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    rules: tuple[RuleAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """All explanations of one deployment, in the order of its command line."""

    SCHEMA: ClassVar[str] = "explained/1"

    name: str
    engine: str
    build: str
    explanations: tuple[Explanation, ...]
