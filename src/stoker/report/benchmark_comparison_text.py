"""Two benchmarks side by side, as a person reads it: a verdict for each figure at each load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from stoker.model.benchmark_comparison import (
    BenchmarkComparison,
    BenchmarkVerdict,
    FigureComparison,
)
from stoker.model.facts import Plain
from stoker.model.visible import visible
from stoker.report.benchmark_words import describe_load, format_number
from stoker.report.table import render_table

_WORDS = {
    "output_throughput": "tokens/s out",
    "events_throughput": "events/s",
    "request_throughput": "requests/s",
    "goodput": "goodput",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "e2e": "E2E",
}
_NOTHING = "-"
_DEFINITIONS = (
    "B/A: the mean of B for each of A, with a 95 % confidence interval.",
    "VERDICT: of a rate more is faster, of a latency less.",
    "EFFECT: the difference in standard deviations of a slice of the window.",
    "CHANCE: how often equal servers would differ as much, raised for the number of figures.",
)


def render_benchmark_comparison(
    comparison: BenchmarkComparison, *, width: int = 80, is_verbose: bool = False
) -> str:
    """The verdicts at each load, what differs between the servers, and what could not be compared.

    ``is_verbose``: also what the columns mean.
    """
    sections = [
        f"A: {visible(comparison.a)}\nB: {visible(comparison.b)}",
        "\n".join(_obstacles(comparison, width)),
        *_loads(comparison, width),
        "\n".join(_settings(comparison)),
        "\n".join(_notes(comparison, width)),
        "\n".join(line for each in _DEFINITIONS for line in _wrap(each, width))
        if is_verbose
        else "",
        _summary(comparison),
    ]
    return "\n\n".join(section.rstrip() for section in sections if section) + "\n"


def _obstacles(comparison: BenchmarkComparison, width: int) -> Iterator[str]:
    if comparison.obstacles:
        yield "These cannot be compared:"
        for each in comparison.obstacles:
            yield from _wrap(each, width, first="  - ", then="    ")


def _loads(comparison: BenchmarkComparison, width: int) -> Iterator[str]:
    """A table for each load, in the order in which they came."""
    loads = list(dict.fromkeys(each.load for each in comparison.figures))
    for load in loads:
        those = [each for each in comparison.figures if each.load == load]
        notes = list(dict.fromkeys(each.note for each in those if each.note))
        lines = [f"{describe_load(load)}:", *_table(those, width)]
        for each in notes:
            if each not in comparison.obstacles:
                lines += _wrap(each, width, first="  ", then="  ")
        yield "\n".join(lines)


def _table(figures: Sequence[FigureComparison], width: int) -> list[str]:
    """With the columns that fit: the verdict always, how sure it is where there is room."""
    head = ["FIGURE", "A", "B", "B/A", "VERDICT", "EFFECT", "CHANCE"]
    rows = [_row(each) for each in figures]
    for count in (7, 6, 5):
        lines = _align([head[:count], *(row[:count] for row in rows)])
        if count == 5 or all(len(line) <= width for line in lines):
            return lines
    return []


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The numbers end below each other."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    for at in (1, 2):
        widest = max(map(len, columns[at]))
        columns[at] = [cell.rjust(widest) for cell in columns[at]]
    head, *others = zip(*columns, strict=True)
    return [f"  {line}" for line in render_table(head, others).splitlines()]


def _row(figure: FigureComparison) -> list[str]:
    word = _WORDS.get(figure.name, visible(figure.name.replace("_", " ")))
    unit = " ms" if figure.unit == "ms" else ""
    is_judged = figure.verdict is not BenchmarkVerdict.INCOMPARABLE
    effect, chance = (figure.effect, figure.chance) if is_judged else (None, None)
    return [
        f"{word}{unit}",
        format_number(figure.a),
        format_number(figure.b),
        _ratio(figure),
        figure.verdict.value,
        _NOTHING if effect is None else f"{effect:+.1f}",
        _NOTHING if chance is None else _chance(chance),
    ]


def _ratio(figure: FigureComparison) -> str:
    if figure.ratio is None or figure.verdict is BenchmarkVerdict.INCOMPARABLE:
        return _NOTHING
    if figure.low is None or figure.high is None:
        return f"{figure.ratio:.3f}"
    return f"{figure.ratio:.3f} ({figure.low:.3f} to {figure.high:.3f})"


def _chance(chance: float) -> str:
    return "< 0.001" if chance < 0.001 else f"{chance:.3f}"


def _settings(comparison: BenchmarkComparison) -> Iterator[str]:
    if comparison.settings:
        yield "What differs between the servers:"
        rows = [
            (visible(each.name), _value(each.a), _value(each.b)) for each in comparison.settings
        ]
        yield from (f"  {line}" for line in render_table(("NAME", "A", "B"), rows).splitlines())


def _value(value: Plain) -> str:
    return "(not set)" if value is None else visible(str(value))


def _notes(comparison: BenchmarkComparison, width: int) -> Iterator[str]:
    for side, loads in (("A", comparison.only_a), ("B", comparison.only_b)):
        if loads:
            told = "; ".join(describe_load(load) for load in loads)
            yield from _wrap(f"only {side} has: {told}", width, then="  ")
    for each in comparison.notes:
        yield from _wrap(f"note: {each}", width, then="  ")


def _summary(comparison: BenchmarkComparison) -> str:
    """How many figures say what."""
    counts = {
        verdict: sum(each.verdict is verdict for each in comparison.figures)
        for verdict in BenchmarkVerdict
    }
    told = [f"{count} {verdict.value}" for verdict, count in counts.items() if count]
    return f"B against A: {', '.join(told) or 'nothing that both have'}."


def _wrap(text: str, width: int, *, first: str = "", then: str = "") -> list[str]:
    return wrap(
        visible(text),
        max(width, 40),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
