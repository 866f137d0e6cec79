"""A sweep in the terminal, in Unicode and in ASCII, within the width."""

from __future__ import annotations

import pytest

from stoker.model.benchmark import ClientHealth
from stoker.report.benchmark_plot import render_plot, takes_unicode
from tests.report.benchmarks import benchmark, point, rate

STARVED = point(512, health=ClientHealth(complaints=("late",)))
SWEEP = benchmark(*(point(each) for each in (1, 8, 64, 256)), STARVED)


@pytest.mark.parametrize("width", [10, 40, 80, 200])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_lines_fit_and_bars_grow(width: int, is_ascii: bool) -> None:
    text = render_plot(SWEEP, width=width, is_ascii=is_ascii)
    assert text.isascii() is is_ascii
    heads = ("tokens/s of all (up)", "TTFT in ms", "TPOT in ms", "output tokens/s")
    for line in text.splitlines():
        assert len(line) <= max(width, 40) or line.startswith(heads)
    full = "#" if is_ascii else "█"
    bars = [line.count(full) for line in text.partition("\n\n")[0].splitlines()[1:]]
    assert bars == [*sorted(bars[:4]), 0]
    assert bars[0] < bars[3]
    assert "  512  no result" in text


def test_every_load_stands_in_the_scatter() -> None:
    scatter = render_plot(SWEEP, is_ascii=True).rpartition("\n\n")[2]
    for label in ("o1", "o8", "o64", "o256"):
        assert label in scatter
    assert "o512" not in scatter
    assert "6,000 |" in scatter


def test_points_on_each_other_keep_one_label() -> None:
    text = render_plot(benchmark(point(8), point(8)), is_ascii=True)
    assert text.rpartition("\n\n")[2].count("o8") == 1


def test_little_or_nothing_measured() -> None:
    assert render_plot(benchmark(STARVED)) == "no load has a result\n"
    lone = render_plot(benchmark(point(found=(rate("output_throughput", 0.0, "tokens/s"),))))
    assert lone.splitlines()[1].split() == ["8", "0.00"]
    assert "(up)" not in lone


@pytest.mark.parametrize(
    ("encoding", "is_able"),
    [
        ("utf-8", True),
        ("UTF-8", True),
        ("ascii", False),
        ("latin-1", False),
        (None, False),
        ("x", False),
    ],
)
def test_signs_are_chosen_by_the_encoding(encoding: str | None, is_able: bool) -> None:
    assert takes_unicode(encoding) is is_able
