"""Two benchmarks side by side: the verdicts, how sure they are, and what cannot be compared."""

from __future__ import annotations

import re

import pytest

from stoker.model.benchmark import Load
from stoker.model.benchmark_comparison import (
    BenchmarkComparison,
    BenchmarkVerdict,
    FigureComparison,
    SettingDifference,
)
from stoker.report.benchmark_comparison_text import render_benchmark_comparison

FASTER = FigureComparison(
    load=Load(concurrency=8),
    name="output_throughput",
    unit="tokens/s",
    a=1000,
    b=1210,
    ratio=1.21,
    low=1.18,
    high=1.24,
    effect=5.5,
    chance=0.0000001,
    verdict=BenchmarkVerdict.FASTER,
)
SAME = FigureComparison(
    load=Load(concurrency=8),
    name="ttft",
    unit="ms",
    a=50,
    b=51,
    ratio=1.02,
    low=0.98,
    high=1.06,
    effect=0.4,
    chance=0.31,
)
NEITHER = FigureComparison(
    load=Load(concurrency=64),
    name="tpot",
    unit="ms",
    a=12,
    b=8,
    ratio=0.66,
    effect=-9.0,
    chance=0.0,
    verdict=BenchmarkVerdict.INCOMPARABLE,
    note="The client was starved on one side.",
)


def comparison(*figures: FigureComparison) -> BenchmarkComparison:
    return BenchmarkComparison(
        a="20261201-a",
        b="20261202-b",
        figures=figures,
        settings=(SettingDifference(name="--max-running", a=None, b=64),),
        only_a=(Load(concurrency=128),),
        notes=("B was measured a day later.",),
    )


def test_each_load_has_its_verdicts() -> None:
    lines = render_benchmark_comparison(comparison(FASTER, SAME, NEITHER), width=100).splitlines()
    assert lines[:2] == ["A: 20261201-a", "B: 20261202-b"]
    assert "concurrency 8:" in lines
    faster = next(line for line in lines if line.startswith("  tokens/s out"))
    assert re.split(r"\s{2,}", faster.strip()) == [
        "tokens/s out",
        "1,000",
        "1,210",
        "1.210 (1.180 to 1.240)",
        "faster",
        "+5.5",
        "< 0.001",
    ]
    same = next(line for line in lines if line.startswith("  TTFT ms"))
    assert "not distinguishable" in same
    assert "0.310" in same
    assert lines[-1] == "B against A: 1 faster, 1 not distinguishable, 1 not comparable."


def test_what_is_not_comparable_has_no_ratio() -> None:
    text = render_benchmark_comparison(comparison(NEITHER))
    row = next(line for line in text.splitlines() if line.startswith("  TPOT ms"))
    assert row.split() == ["TPOT", "ms", "12.0", "8.00", "-", "not", "comparable", "-", "-"]
    assert "  The client was starved on one side." in text


def test_what_differs_and_what_one_has_alone() -> None:
    text = render_benchmark_comparison(comparison(FASTER))
    assert "  --max-running  (not set)  64" in text
    assert "only A has: concurrency 128" in text
    assert "note: B was measured a day later." in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_columns_give_way_to_the_width(width: int) -> None:
    text = render_benchmark_comparison(comparison(FASTER, SAME), width=width, is_verbose=True)
    assert ("CHANCE" in text.partition("What differs")[0]) is (width == 100)
    assert "VERDICT" in text
    assert "EFFECT: the difference" in text


def test_obstacles_and_nothing_shared() -> None:
    made = BenchmarkComparison(a="a", b="b", obstacles=("The models differ: x and y.",))
    text = render_benchmark_comparison(made)
    assert "These cannot be compared:\n  - The models differ: x and y." in text
    assert text.endswith("B against A: nothing that both have.\n")
