"""What a search wants next: a trial, or its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from stoker.model.tuning import Configuration, Purpose
from stoker.tuning.student import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """Start (where it does not run yet) and measure a configuration.

    ``restarts``: whether a restart is expected for it. ``short_share``: first a workload of this
    share of the full one is measured; if its value is below ``give_up_below``, the trial ends as
    ``STOPPED`` with this value, otherwise the full workload follows and only its values count. 0:
    the full workload at once. ``pair``: the number of the interleaved pair it belongs to, or 0.
    ``reason``: a sentence for a person. ``incumbent``: what is believed best of all that was
    measured so far; empty before anything was.
    """

    configuration: Configuration
    purpose: Purpose
    reason: str
    restarts: bool
    short_share: float = 0.0
    give_up_below: float = 0.0
    pair: int = 0
    incumbent: Configuration = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The search is over. ``configuration``: what should run, the baseline where nothing better
    was confirmed. ``incumbent``: what the search believed best, confirmed or not. ``ratio``: of the
    last finalist to the baseline by its interleaved pairs; None where none was tried. ``reason``: a
    sentence for a person.
    """

    configuration: Configuration
    is_improved: bool
    reason: str
    ratio: Ratio | None = None
    incumbent: Configuration = field(default_factory=dict)


Step = Try | Finish
