"""What can be tuned and what was tried: knobs, spaces, trials, campaigns.

A configuration names one choice for each knob. What a choice means in flags and variables stands in
the space, which is built from knowledge and cut down before anything is started; the search itself
knows only names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a knob. ``settings`` and ``variables``: what it writes, None for left out; the
    setting ``draft`` is the deployment file's own key of that name, and no flag.

    ``prior``: how much better than the default it is thought to be before anything is measured, as
    the logarithm of a ratio (0.1 is about 10 %); ``because`` says where that comes from.
    """

    id: str
    settings: Mapping[str, Plain] = field(default_factory=dict)
    variables: Mapping[str, str | None] = field(default_factory=dict)
    prior: float = 0.0
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One thing that can be set. ``choices`` in their natural order where they have one
    (``is_ordered``); ``default`` names the choice that the deployment has now.

    ``restarts``: whether a change needs a restart. ``only_with``: this knob means something only
    where the knobs named here have one of these choices. ``spread``: how much it is thought to
    matter, as the standard deviation of the logarithm of the ratio.
    """

    id: str
    title: str
    choices: tuple[Choice, ...]
    default: str
    is_ordered: bool = False
    restarts: bool = True
    only_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spread: float = 0.1
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Choices that cannot stand together: ``where`` maps knobs to the choices that exclude each
    other. ``because`` is a sentence for a person, ``source`` where it is known from."""

    where: Mapping[str, tuple[str, ...]]
    because: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All that may be tried for one deployment."""

    SCHEMA: ClassVar[str] = "space/1"

    engine: str
    release: str
    knobs: tuple[Knob, ...]
    cuts: tuple[Cut, ...] = ()


#: Which choice each knob has, by knob. All knobs are named, also those that mean nothing here.
Configuration = Mapping[str, str]


class Purpose(StrEnum):
    """Why a configuration is tried."""

    BASELINE = "baseline"
    SCREENING = "screening"
    PROPOSAL = "proposal"
    CONFIRMATION = "confirmation"


class Outcome(StrEnum):
    """What came of a trial.

    ``REFUSED``: the plan would not start it. ``FAILED``: it did not start. ``LIAR``: it broke a
    promise. ``STOPPED``: it was given up early, being slow. ``INTERRUPTED``: by the person or a
    kill.
    """

    MEASURED = "measured"
    STOPPED = "stopped"
    REFUSED = "refused"
    FAILED = "failed"
    LIAR = "liar"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration that was tried.

    ``values``: the objective's value in each repetition, always positive and larger is better
    (for latency 1000 / ms); empty where nothing was
    measured. ``restarted``: whether it cost a restart. ``causes``: what a diagnosis found, by
    kind. ``benchmarks``: ids of what was measured. ``pair``: trials of one interleaved pair share
    a number.
    """

    number: int
    configuration: Configuration
    purpose: Purpose
    outcome: Outcome
    values: tuple[float, ...] = ()
    restarted: bool = True
    seconds: float = 0.0
    reason: str = ""
    said: str = ""
    causes: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    pair: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is wanted.

    ``metric``: throughput (output tokens/s), latency (median E2E in ms, less is better) or goodput
    (requests/s within ``objectives``). The values at all ``concurrencies`` are combined by the
    geometric mean of their ratios to the baseline's.
    """

    metric: str = "throughput"
    concurrencies: tuple[int, ...] = (8,)
    objectives: Mapping[str, float] = field(default_factory=dict)
    workload: str = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a search may cost; 0 is no bound."""

    restarts: int = 0
    minutes: float = 0.0
