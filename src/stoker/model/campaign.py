"""A tuning campaign: what is searched, what was tried, and how it ended; kept after every trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain
from stoker.model.tuning import Aim, Budget, Configuration, Space, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much goes into one trial. ``seconds``: of each load; ``repetitions`` of all of them.
    ``seed``: of the search and of what is sent."""

    seconds: float = 15.0
    repetitions: int = 2
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEnd:
    """How a search ended. ``ratio`` with ``low`` and ``high``: how much better than the deployment
    as it was, by interleaved pairs; None where none was measured. ``changes`` of the deployment
    file, empty where it stays. ``reason``: a sentence."""

    configuration: Configuration
    is_improved: bool
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    changes: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One search for one deployment.

    ``source``: the text of the deployment file as it was when the search began; everything is
    compared with it. ``under_way``: the configuration that is being tried, empty between trials; a
    Stoker that finds one here was killed in it. ``effort``: how each trial is measured. ``broken``:
    the promises of the full contract that the deployment as it is breaks already.
    """

    SCHEMA: ClassVar[str] = "campaign/1"

    id: str
    deployment: str
    file: str
    source: str
    space: Space
    aim: Aim
    budget: Budget
    effort: Effort
    trials: tuple[Trial, ...] = ()
    under_way: Configuration = field(default_factory=dict)
    broken: tuple[str, ...] | None = None
    end: CampaignEnd | None = None
