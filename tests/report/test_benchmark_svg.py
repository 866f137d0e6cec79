"""The picture of a sweep stands alone, says itself in words, and no label covers another."""

from __future__ import annotations

import math
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import pytest

from stoker.errors import UsageError
from stoker.model.benchmark import Benchmark, ClientHealth, Objectives, Served
from stoker.report.benchmark_chart import (
    WIDTH,
    Box,
    cut_text,
    log_ticks,
    round_ticks,
    text_width,
)
from stoker.report.benchmark_png import render_png
from stoker.report.benchmark_svg import (
    MOST_BENCHMARKS,
    Theme,
    render_benchmark_png,
    render_benchmark_svg,
)
from tests.report.benchmarks import SERVED, benchmark, latency, point, poisson, rate

SVG = "{http://www.w3.org/2000/svg}"
LEVELS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SWEEP = benchmark(*(point(each) for each in LEVELS))
STARVED = point(512, health=ClientHealth(complaints=("late",)))


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def boxes(root: ET.Element) -> dict[str, Box]:
    """Where each text lies, from what stands in the document; the numbers keep twins apart."""
    found = {}
    for number, each in enumerate(root.iter(f"{SVG}text")):
        text, size = each.text or "", float(each.get("font-size", ""))
        turned = re.fullmatch(r"translate\(18 ([\d.]+)\) rotate\(-90\)", each.get("transform", ""))
        if turned:
            middle, half = float(turned[1]), text_width(text, size) / 2
            box = Box(left=18 - size, top=middle - half, right=22, bottom=middle + half)
            found[f"{number} {text}"] = box
            continue
        width, left = text_width(text, size), float(each.get("x", ""))
        left -= {"start": 0.0, "middle": width / 2, "end": width}[each.get("text-anchor", "")]
        bottom = float(each.get("y", "")) + 2
        found[f"{number} {text}"] = Box(
            left=left, top=bottom - size, right=left + width, bottom=bottom
        )
    return found


def various() -> list[list[Benchmark]]:
    close = [100, 101, 102, 103, 104]
    flat = [
        point(each, found=(rate("output_throughput", 1000.0, "tokens/s"), latency("tpot", 20)))
        for each in close
    ]
    slower = replace(SWEEP, id="b", served=replace(SERVED, name="n" * 200))
    return [
        [SWEEP],
        [SWEEP, slower],
        [replace(SWEEP, id=f"{number}") for number in range(MOST_BENCHMARKS)],
        [benchmark(*flat)],
        [benchmark(*(point(load=poisson(each)) for each in (0.5, 0.75, 1, 12.5)))],
        [benchmark(*(point(each) for each in range(1, 60)))],
        [benchmark(STARVED, point(8))],
        [benchmark(STARVED)],
        [benchmark(point(8), point(8))],
        [benchmark(point(1, found=(rate("output_throughput", 9.9e5, "tokens/s"),)))],
        [benchmark(point(found=(rate("output_throughput", 0.0, "tokens/s"),)))],
        [benchmark(served=Served(url="http://h:1", model='<b>"&\x1b' * 40))],
    ]


@pytest.mark.parametrize("number", range(12))
def test_no_text_covers_another_or_leaves_the_picture(number: int) -> None:
    root = ET.fromstring(render_benchmark_svg(*various()[number]))
    height = float(root.get("height", ""))
    found = boxes(root)
    for (name, box), (other, second) in combinations(found.items(), 2):
        assert not box.overlaps(second), (name, other)
    for name, box in found.items():
        assert box.left >= 0, name
        assert box.right <= WIDTH, name
        assert box.top >= 0, name
        assert box.bottom <= height, name


def test_all_charts_are_there() -> None:
    found = texts(ET.fromstring(render_benchmark_svg(SWEEP)))
    assert found[0] == "kimi: sglang 0.5.23, acme/large"
    for said in (
        "Output tokens/s",
        "Time to first token (TTFT)",
        "Time per output token (TPOT)",
        "What one user gets against what all get, by concurrency",
        "5,053",
        "P99",
        "objective: 500 ms",
        "objective: 30 ms",
    ):
        assert said in found
    assert [each for each in found if each in map(str, LEVELS)].count("64") == 4


def test_it_stands_alone_and_follows_light_and_dark() -> None:
    text = render_benchmark_svg(SWEEP)
    assert "prefers-color-scheme:dark" in text
    addresses = re.findall(r"https?://[^\s\"<']+", text)
    assert set(addresses) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|image|use|foreignObject)|url\(|@import|href", text)
    assert "prefers-color-scheme" not in render_benchmark_svg(SWEEP, theme=Theme.LIGHT)
    assert "#14171a" in render_benchmark_svg(SWEEP, theme=Theme.DARK)


def test_it_says_itself_in_words() -> None:
    root = ET.fromstring(render_benchmark_svg(benchmark(point(8), STARVED)))
    assert root.get("role") == "img"
    names = (root.get("aria-labelledby") or "").split()
    said = {each.get("id"): each.text or "" for each in root if each.get("id")}
    assert set(names) == set(said)
    assert said["title"] == "kimi: sglang 0.5.23, acme/large"
    assert (
        "concurrency 8: 1,500 output tokens/s, TTFT 64.6 ms in the middle." in said["description"]
    )
    assert "concurrency 512: no result." in said["description"]


def test_a_starved_load_is_named_and_not_drawn() -> None:
    text = render_benchmark_svg(benchmark(point(8), STARVED))
    assert "concurrency 512: no result, the client was starved" in texts(ET.fromstring(text))
    assert "concurrency 512: 5" not in text
    nothing = texts(ET.fromstring(render_benchmark_svg(benchmark(STARVED))))
    assert "No load has a result." in nothing
    assert "Output tokens/s" not in nothing


def test_an_objective_far_above_is_not_drawn() -> None:
    far = replace(benchmark(point(1)), objectives=Objectives(ttft_ms=100_000))
    assert not any(
        each.startswith("objective") for each in texts(ET.fromstring(render_benchmark_svg(far)))
    )


def test_not_verified_is_told_in_the_picture() -> None:
    unverified = benchmark(served=replace(SERVED, verified=""))
    assert texts(ET.fromstring(render_benchmark_svg(unverified)))[1].startswith("NOT VERIFIED")


def test_a_picture_of_none_or_too_many_is_refused() -> None:
    for count in (0, MOST_BENCHMARKS + 1):
        with pytest.raises(ValueError, match="1 to 6"):
            render_benchmark_svg(*[SWEEP] * count)


@pytest.mark.parametrize("high", [1e-9, 0.03, 0.99, 1.0, 7.3, 99.9, 1e6, 3.3e12])
def test_ticks_are_round_and_reach_the_end(high: float) -> None:
    ticks = round_ticks(high)
    assert ticks[0] == 0
    assert ticks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 7
    above = log_ticks(high, high * 55)
    assert above[0] <= high * 1.0001
    assert above[-1] >= high * 55 * 0.9999
    assert list(above) == sorted(set(above))
    assert 2 <= len(log_ticks(high, high)) <= 4


def test_ticks_of_nothing() -> None:
    assert round_ticks(0) == round_ticks(-1) == round_ticks(math.inf) == (0.0, 1.0)


def test_long_texts_end_in_an_ellipsis() -> None:
    assert cut_text("abc", 100) == "abc"
    cut = cut_text("a" * 100, 100)
    assert cut.endswith("a…")
    assert text_width(cut) <= 100


def test_png_is_drawn_by_the_optional_package() -> None:
    pytest.importorskip("resvg_py")
    svg = render_benchmark_svg(SWEEP, theme=Theme.LIGHT)
    picture = render_benchmark_png(SWEEP)
    assert picture == render_png(svg)
    assert picture.startswith(b"\x89PNG\r\n")
    assert int.from_bytes(picture[16:20], "big") == 2 * WIDTH
    with pytest.raises(UsageError, match="no font"):
        render_png(re.sub('font-family="[^"]*"', 'font-family="no-such-font"', svg))


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError, match="not installed") as missing:
        render_png(render_benchmark_svg(SWEEP))
    assert "-m pip install 'resvg_py>=0.5'" in missing.value.hint
