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
class CampaignWish:
    """What is searched for. Only a search with the same wish is gone on with.

    ``free`` and ``consents``: the knobs that the owner named. ``traffic``: a digest of what is
    sent, since a workload's file may change under its name.
    """

    aim: Aim
    effort: Effort
    free: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    traffic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEnd:
    """How a search ended. ``ratio`` with ``low`` and ``high``: how much better than the deployment
    as it was, by interleaved pairs; None where none was measured. ``changes`` of the deployment
    file, empty where it stays. ``reason``: a sentence. ``unwritten``: why the file could not be
    written, empty where it was or needed not be."""

    configuration: Configuration
    is_improved: bool
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    changes: Mapping[str, Plain] = field(default_factory=dict)
    unwritten: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One search for one deployment.

    ``source``: the text of the deployment file as it was when the search began; everything is
    compared with it. ``under_way``: the trial that is being made; a Stoker that finds one here was
    killed in it. ``broken``: the promises of the full contract that the deployment as it is breaks
    already. ``end`` is kept once it is decided, ``is_closed`` once it runs and the file has it.
    """

    SCHEMA: ClassVar[str] = "campaign/1"

    id: str
    deployment: str
    file: str
    source: str
    space: Space
    wish: CampaignWish
    budget: Budget
    trials: tuple[Trial, ...] = ()
    under_way: Trial | None = None
    broken: tuple[str, ...] | None = None
    end: CampaignEnd | None = None
    is_closed: bool = False

    @property
    def aim(self) -> Aim:
        """What is searched for."""
        return self.wish.aim

    @property
    def effort(self) -> Effort:
        """How each trial is measured."""
        return self.wish.effort
