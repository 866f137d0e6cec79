"""What a search measured, as a table: configurations against each other at every concurrency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.model.campaign import Campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """One configuration at one concurrency, as the mean of all that was measured of it.

    ``tokens_per_second`` of all requests together; ``tpot_ms`` and ``ttft_ms`` are medians;
    ``is_best_trade``: no other configuration has more tokens/s and a lower TPOT at once.
    """

    concurrency: int
    tokens_per_second: float | None = None
    requests_per_second: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    is_best_trade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One configuration. ``title``: what differs from the deployment as it was. ``ratio``: of the
    objective to the baseline's; ``trials``: how often it was measured."""

    title: str
    ratio: float | None
    trials: int
    cells: tuple[TableCell, ...]
    is_baseline: bool = False
    is_winner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTrial:
    """One configuration that was not measured, and why."""

    title: str
    outcome: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTable:
    """A search and its table, the best row first, the baseline behind the best."""

    SCHEMA: ClassVar[str] = "tuning-table/1"

    campaign: Campaign
    rows: tuple[TableRow, ...]
    refused: tuple[RefusedTrial, ...]
    restarts: int
    seconds: float
