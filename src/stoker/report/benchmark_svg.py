"""Benchmarks as one picture: throughput, TTFT and TPOT against the load, and what one costs the
other. It is an SVG that stands alone and follows the reader's light or dark surroundings.

Points where the client was starved are not drawn; a line below the charts names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from html import escape

from stoker.model.benchmark import Benchmark, Point
from stoker.model.visible import visible
from stoker.report.benchmark_chart import (
    WIDTH,
    Chart,
    Mark,
    Series,
    chart_height,
    cut_text,
    draw_chart,
    write_text,
)
from stoker.report.benchmark_png import render_png
from stoker.report.benchmark_words import (
    OUTPUT,
    TPOT,
    TTFT,
    describe_level,
    describe_load,
    describe_served,
    find_figure,
    find_percentile,
    format_level,
    format_number,
    interval_of,
    load_level,
)
from stoker.report.capacity_svg import SVG_START

#: More benchmarks than colours cannot be told apart.
MOST_BENCHMARKS = 6
#: Named one by one, since not every reader of SVG knows what ``sans-serif`` is on its machine.
_FONTS = "Arial, Helvetica, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', Verdana, sans-serif"
#: The colours of Okabe and Ito, which the colour-blind tell apart (https://jfly.uni-koeln.de/color/),
#: darker on white and lighter on black so that thin lines are seen.
_LIGHT = ("#0072b2", "#c1530a", "#00795a", "#a8518a", "#8a6d00", "#3a3a3a")
_DARK = ("#56b4e9", "#ff9d4d", "#2fc79b", "#e79fca", "#f0c742", "#dddddd")
#: The figures of more lines than these stand in the way of each other.
_MOST_LABELLED = 2
_PERCENTILES = ("50", "90", "99")
_GAP, _TOP, _NOTE = 26, 66, 20


class Theme(StrEnum):
    """Whose colours a picture has. ``AUTO``: those of its surroundings."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"


def render_benchmark_png(*benchmarks: Benchmark, theme: Theme = Theme.LIGHT) -> bytes:
    """The same picture as PNG, which has no surroundings to follow.

    Raises UsageError where its renderer is not installed or this machine has no font, ValueError
    as :func:`render_benchmark_svg`.
    """
    return render_png(render_benchmark_svg(*benchmarks, theme=theme))


def render_benchmark_svg(*benchmarks: Benchmark, theme: Theme = Theme.AUTO) -> str:
    """A whole document with the charts of some benchmarks, at most :data:`MOST_BENCHMARKS`.

    Raises ValueError for none or for more.
    """
    if not 0 < len(benchmarks) <= MOST_BENCHMARKS:
        raise ValueError(f"a picture shows 1 to {MOST_BENCHMARKS} benchmarks")
    body: list[str] = []
    top = float(_TOP)
    for chart in _charts(benchmarks):
        body += draw_chart(chart, top)
        top += chart_height(chart) + _GAP
    notes = list(_notes(benchmarks))
    body += [write_text(20, top + _NOTE * at, each) for at, each in enumerate(notes)]
    height = round(top + _NOTE * len(notes))
    title = cut_text(_title(benchmarks), WIDTH - 40, 17)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    look = f'role="img" aria-labelledby="title description" font-family="{escape(_FONTS)}"'
    lines = [
        f"{SVG_START} {size} {look}>",
        f'<title id="title">{escape(_title(benchmarks))}</title>',
        f'<desc id="description">{escape(_describe(benchmarks))}</desc>',
        f"<style>{_style(theme)}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        write_text(20, 30, title, size=17, kind="ink"),
        write_text(20, 50, cut_text(_subtitle(benchmarks), WIDTH - 40)),
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _style(theme: Theme) -> str:
    light = _colours(_LIGHT, page="#ffffff", ink="#1a1a1a", soft="#4d4d4d", grid="#dedede")
    dark = _colours(_DARK, page="#14171a", ink="#f2f2f2", soft="#b9bec4", grid="#353b41")
    if theme is Theme.LIGHT:
        return light
    if theme is Theme.DARK:
        return dark
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _colours(series: Sequence[str], *, page: str, ink: str, soft: str, grid: str) -> str:
    rules = [
        f".page{{fill:{page}}}.ink{{fill:{ink}}}.soft{{fill:{soft}}}",
        f".grid{{stroke:{grid};fill:none}}.axis{{stroke:{soft};fill:none}}",
        f".limit{{stroke:{soft};fill:none}}",
        f".halo{{stroke:{page};stroke-width:3px;stroke-linejoin:round;paint-order:stroke}}",
    ]
    for number, colour in enumerate(series):
        rules.append(f".s{number}{{stroke:{colour}}}.m{number},.t{number}{{fill:{colour}}}")
    return "".join(rules)


def _charts(benchmarks: Sequence[Benchmark]) -> Iterator[Chart]:
    """The charts for which anything was measured."""
    level = _level(benchmarks)
    charts = (
        Chart(
            title="Output tokens/s",
            x_title=level,
            y_title="tokens/s",
            series=tuple(_throughput(each, at, benchmarks) for at, each in enumerate(benchmarks)),
        ),
        _latency(benchmarks, TTFT, "Time to first token (TTFT)"),
        _latency(benchmarks, TPOT, "Time per output token (TPOT)"),
        Chart(
            title=f"What one user gets against what all get, by {level}",
            x_title="tokens/s of one user (1000 / TPOT P50)",
            y_title="tokens/s of all",
            series=tuple(_trade(each, at, benchmarks) for at, each in enumerate(benchmarks)),
            x_at_marks=False,
        ),
    )
    return (chart for chart in charts if any(series.marks for series in chart.series))


def _level(benchmarks: Sequence[Benchmark]) -> str:
    words = {describe_level(each) for each in benchmarks}
    return words.pop() if len(words) == 1 else "load"


def _throughput(benchmark: Benchmark, number: int, among: Sequence[Benchmark]) -> Series:
    marks = []
    has_labels = len(among) <= _MOST_LABELLED
    for point in _ordered(benchmark):
        figure = find_figure(point, OUTPUT)
        if figure is not None:
            low, high = interval_of(figure) or (None, None)
            text = format_number(figure.mean)
            title = f"{describe_load(point.load)}: {text} tokens/s"
            marks.append(
                Mark(
                    x=load_level(point),
                    y=figure.mean,
                    low=low,
                    high=high,
                    label=text if has_labels else "",
                    title=title,
                )
            )
    return Series(title=_name(benchmark, among), marks=tuple(marks), colour=number)


def _latency(benchmarks: Sequence[Benchmark], name: str, title: str) -> Chart:
    """Percentiles of a latency; with several benchmarks two of each, by its colour."""
    wanted = _PERCENTILES if len(benchmarks) == 1 else ("50", "99")
    series = [
        _percentiles(each, at, benchmarks, wanted=(name, percentile, line))
        for at, each in enumerate(benchmarks)
        for line, percentile in enumerate(wanted)
    ]
    limits = {getattr(each.objectives, f"{name}_ms") for each in benchmarks}
    highest = max((mark.y for each in series for mark in each.marks), default=0.0)
    limit = limits.pop() if len(limits) == 1 else None
    if limit is not None and limit > 1.5 * highest:
        limit = None  # it would press all that was measured to the ground
    return Chart(
        title=title,
        x_title=_level(benchmarks),
        y_title="ms",
        series=tuple(series),
        may_be_log=True,
        limit=limit,
        limit_title="" if limit is None else f"objective: {limit:g} ms",
    )


def _percentiles(
    benchmark: Benchmark,
    number: int,
    among: Sequence[Benchmark],
    *,
    wanted: tuple[str, str, int],
) -> Series:
    """One percentile of a latency, drawn in one style of line."""
    name, percentile, line = wanted
    marks = []
    for point in _ordered(benchmark):
        value = find_percentile(point, name, percentile)
        if value is not None:
            said = f"{describe_load(point.load)}: {name.upper()} P{percentile} "
            title = f"{said}{format_number(value)} ms"
            marks.append(Mark(x=load_level(point), y=value, title=title))
    suffix = f", {_name(benchmark, among)}" if len(among) > 1 else ""
    # One benchmark has a colour for each percentile, several have one each.
    colour = number if len(among) > 1 else line
    return Series(title=f"P{percentile}{suffix}", marks=tuple(marks), colour=colour, line=line)


def _trade(benchmark: Benchmark, number: int, among: Sequence[Benchmark]) -> Series:
    marks = []
    for point in _ordered(benchmark):
        tpot, rate = find_percentile(point, TPOT, "50"), find_figure(point, OUTPUT)
        if tpot and rate is not None:
            one = 1000 / tpot
            title = (
                f"{describe_load(point.load)}: {format_number(one)} tokens/s of one user, "
                f"{format_number(rate.mean)} of all"
            )
            label = format_level(load_level(point))
            marks.append(Mark(x=one, y=rate.mean, label=label, title=title))
    return Series(title=_name(benchmark, among), marks=tuple(marks), colour=number)


def _ordered(benchmark: Benchmark) -> list[Point]:
    return sorted(benchmark.points, key=load_level)


def _name(benchmark: Benchmark, among: Sequence[Benchmark]) -> str:
    """What tells a benchmark from the others: its server, its engine, its workload, else its id."""
    choices = (
        lambda each: each.served.name,
        lambda each: f"{each.served.engine} {each.served.release}".strip(),
        lambda each: each.workload.name,
    )
    for choose in choices:
        names = [choose(each) for each in among]
        if all(names) and len(set(names)) == len(names):
            return visible(str(choose(benchmark)))
    return benchmark.id


def _title(benchmarks: Sequence[Benchmark]) -> str:
    if len(benchmarks) == 1:
        return describe_served(benchmarks[0])
    return f"{len(benchmarks)} benchmarks"


def _subtitle(benchmarks: Sequence[Benchmark]) -> str:
    first = benchmarks[0]
    workloads = ", ".join(sorted({visible(each.workload.name) for each in benchmarks}))
    ids = ", ".join(each.id for each in benchmarks)
    checked = "" if all(each.served.verified for each in benchmarks) else "NOT VERIFIED; "
    when = f"{visible(first.started)}; " if len(benchmarks) == 1 else ""
    return f"{checked}workload {workloads}; {when}{ids}"


def _notes(benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """What the charts cannot show."""
    for benchmark in benchmarks:
        name = f"{_name(benchmark, benchmarks)}, " if len(benchmarks) > 1 else ""
        for point in benchmark.points:
            load = f"{name}{describe_load(point.load)}"
            if point.health.complaints:
                yield cut_text(f"{load}: no result, the client was starved", WIDTH - 40)
            elif point.was_interrupted:
                yield cut_text(f"{load}: interrupted, the figures are until then", WIDTH - 40)
    if not any(_charts(benchmarks)):
        yield "No load has a result."


def _describe(benchmarks: Sequence[Benchmark]) -> str:
    """The figures in words, for those who do not see the charts."""
    sentences = []
    for benchmark in benchmarks:
        name = f"{_name(benchmark, benchmarks)}, " if len(benchmarks) > 1 else ""
        for point in _ordered(benchmark):
            rate, ttft = find_figure(point, OUTPUT), find_percentile(point, TTFT, "50")
            said = "no result" if rate is None else f"{format_number(rate.mean)} output tokens/s"
            more = "" if ttft is None else f", TTFT {format_number(ttft)} ms in the middle"
            sentences.append(f"{name}{describe_load(point.load)}: {said}{more}.")
    return " ".join(sentences)
