"""A search as a person reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.cli.tune_space import render_space
from stoker.commands.tuning_space import DescribedSpace, Refusal
from stoker.knowledge.space_cutting import Count
from stoker.knowledge.spaces import Left
from stoker.model.campaign import Campaign
from stoker.model.tuning import Cut
from stoker.model.tuning_table import RefusedTrial, TableCell, TableRow, TuningTable
from stoker.report.tuning_text import render_minutes, render_tuning
from tests.state.test_campaigns import CAMPAIGN

CELL = TableCell(
    concurrency=8, tokens_per_second=1234.5, ttft_ms=80.4, tpot_ms=9.87, is_best_trade=True
)
BASELINE = TableRow(
    title="the deployment as it was",
    ratio=1.0,
    trials=3,
    cells=(TableCell(concurrency=1), replace(CELL, tokens_per_second=1000.0, is_best_trade=False)),
    is_baseline=True,
)
WINNER = TableRow(title="steps 8", ratio=1.234, trials=2, cells=(CELL,), is_winner=True)


def table(campaign: Campaign = CAMPAIGN, rows: tuple[TableRow, ...] = ()) -> TuningTable:
    return TuningTable(
        campaign=campaign,
        rows=rows or (WINNER, BASELINE),
        refused=(RefusedTrial(title="steps 4", outcome="failed", said="out of\x1b[2J memory"),),
        restarts=3,
        seconds=90.0,
    )


def test_a_search_with_a_winner() -> None:
    text = render_tuning(table())
    lines = text.splitlines()
    assert lines[0].startswith("search t20261201-120000-00ff for qwen: goodput (ttft_ms 200)")
    assert lines[1] == "1 trial, 3 restarts, 90 s"
    assert "1.23" in text
    assert "1,234*" in text
    assert "1,000*" not in text
    assert "winner" in text
    assert "as it was" in text
    assert "steps 4: failed: out of" in text
    assert "\x1b" not in text
    assert text.endswith("stands in /root/qwen.yaml:\n  engine.settings.steps: 8\n")


def test_what_is_not_written_or_not_ended_is_said() -> None:
    end = CAMPAIGN.end
    assert end is not None
    unwritten = replace(end, unwritten="/root/qwen.yaml was changed meanwhile")
    text = render_tuning(table(replace(CAMPAIGN, end=unwritten)))
    assert "changed meanwhile. To keep it, change:\n  engine.settings.steps: 8" in text
    assert "not applied yet" in render_tuning(table(replace(CAMPAIGN, is_closed=False)))
    assert "goes on with it" in render_tuning(table(replace(CAMPAIGN, end=None)))
    left_out = replace(end, changes={"engine.settings.steps": None})
    assert "steps: left out" in render_tuning(table(replace(CAMPAIGN, end=left_out)))


def test_of_many_rows_the_best_and_the_baseline_are_shown() -> None:
    others = tuple(replace(WINNER, title=f"row {n}", is_winner=False) for n in range(20))
    text = render_tuning(table(rows=(*others, BASELINE)))
    assert "row 11" in text
    assert "row 12" not in text
    assert "the deployment as it was" in text
    assert "and 8 more configurations" in text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (150, "2 minutes")])
def test_times_for_a_person(seconds: float, text: str) -> None:
    assert render_minutes(seconds) == text


def test_a_space_says_each_reason_once() -> None:
    cut = Cut(where={"steps": ("8",)}, because="too many", source="the manual")
    described = DescribedSpace(
        name="qwen",
        space=replace(CAMPAIGN.space, cuts=(cut, replace(cut, where={"steps": ("1",)}))),
        left=(Left(knob="numa", choices=(), kind="elsewhere", because="it is for others"),),
        blocked=(Refusal(because="no memory"),),
        count=Count(number=2, is_exact=True),
        restarts=4,
        start_seconds=300.0,
        seconds=1200.0,
    )
    text = render_space(described)
    assert text.startswith("qwen: 1 knob, 2 configurations\n")
    assert text.count("too many (the manual)") == 1
    assert "\n  numa: it is for others\n" in text
    assert "blocked: no memory" in text
    assert text.endswith("a start takes about 300 s, 4 of them 20 minutes\n")
    unknown = render_space(replace(described, start_seconds=None, blocked=()))
    assert "not known yet" in unknown
