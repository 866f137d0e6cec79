"""A sweep as bars and a scatter in the terminal, in Unicode or in plain ASCII."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.model.benchmark import Benchmark, Point
from stoker.report.benchmark_chart import format_tick, round_ticks
from stoker.report.benchmark_words import (
    OUTPUT,
    TPOT,
    TTFT,
    describe_level,
    find_figure,
    find_percentile,
    format_level,
    format_number,
    load_level,
)

_ROWS = 12
_LEAST_WIDTH, _MOST_BAR = 40, 60
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signs:
    """What is drawn with. ``parts``: a place filled by so many of its parts."""

    full: str
    parts: str
    middle: str
    line: str
    end: str
    point: str
    upright: str
    corner: str
    across: str


_UNICODE = _Signs(
    full="█",
    parts=_EIGHTHS,
    middle="●",
    line="─",
    end="┤",
    point="●",
    upright="│",
    corner="└",
    across="─",
)
_ASCII = _Signs(
    full="#",
    parts=" ",
    middle="o",
    line="-",
    end="|",
    point="o",
    upright="|",
    corner="+",
    across="-",
)


def takes_unicode(encoding: str | None) -> bool:
    """Whether a terminal's encoding has the signs that are drawn with."""
    signs = "".join(_all_signs(_UNICODE))
    try:
        signs.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _all_signs(signs: _Signs) -> tuple[str, ...]:
    """All signs of a set."""
    return tuple(getattr(signs, name) for name in _Signs.__slots__)


def render_plot(benchmark: Benchmark, *, width: int = 80, is_ascii: bool = False) -> str:
    """Throughput and latencies by load, and what one user gets against what all get.

    Loads where the client was starved have no bar.
    """
    signs = _ASCII if is_ascii else _UNICODE
    width = max(width, _LEAST_WIDTH)
    sections = [
        _bars(benchmark, width, signs),
        _ranges(benchmark, TTFT, width, signs),
        _ranges(benchmark, TPOT, width, signs),
        _scatter(benchmark, width, signs),
    ]
    shown = [each for each in sections if each]
    return "\n".join(shown) if shown else "no load has a result\n"


def _bars(benchmark: Benchmark, width: int, signs: _Signs) -> str:
    found = [(point, find_figure(point, OUTPUT)) for point in benchmark.points]
    if not any(figure for _, figure in found):
        return ""
    texts = ["no result" if figure is None else format_number(figure.mean) for _, figure in found]
    room = _bar_room(benchmark, texts, width)
    most = max(figure.mean for _, figure in found if figure) or 1.0
    lines = [f"output tokens/s by {describe_level(benchmark)}"]
    for (point, figure), text in zip(found, texts, strict=True):
        bar = "" if figure is None else _bar(figure.mean / most, room, signs)
        lines.append(f"  {_level(benchmark, point)} {bar} {text}".rstrip())
    return "\n".join(lines) + "\n"


def _bar(share: float, room: int, signs: _Signs) -> str:
    """A bar of a share of the room; what is more than nothing leaves a trace."""
    steps = len(signs.parts)
    parts = max(round(share * room * steps), 1 if share > 0 else 0)
    whole, rest = divmod(parts, steps)
    return signs.full * whole + (signs.parts[rest] if rest else "")


def _ranges(benchmark: Benchmark, name: str, width: int, signs: _Signs) -> str:
    """From the middle of a latency to its 99th percentile."""
    found = [
        (point, find_percentile(point, name, "50"), find_percentile(point, name, "99"))
        for point in benchmark.points
    ]
    highs = [high for _, _, high in found if high is not None]
    if not highs:
        return ""
    texts = [
        "no result"
        if low is None or high is None
        else f"{format_number(low)} to {format_number(high)}"
        for _, low, high in found
    ]
    room = _bar_room(benchmark, texts, width)
    most = max(highs) or 1.0
    lines = [f"{name.upper()} in ms, P50 ({signs.middle}) to P99 ({signs.end})"]
    for (point, low, high), text in zip(found, texts, strict=True):
        line = ""
        if low is not None and high is not None:
            begin, end = round(low / most * (room - 1)), round(high / most * (room - 1))
            between = signs.line * (end - begin - 1)
            tail = between + signs.end if end > begin else ""
            line = " " * begin + signs.middle + tail
        lines.append(f"  {_level(benchmark, point)} {line} {text}".rstrip())
    return "\n".join(lines) + "\n"


def _level(benchmark: Benchmark, point: Point) -> str:
    widest = max(len(format_level(load_level(each))) for each in benchmark.points)
    return format_level(load_level(point)).rjust(widest)


def _bar_room(benchmark: Benchmark, texts: Sequence[str], width: int) -> int:
    used = 4 + len(_level(benchmark, benchmark.points[0])) + max(map(len, texts))
    return max(4, min(_MOST_BAR, width - used))


def _scatter(benchmark: Benchmark, width: int, signs: _Signs) -> str:
    """Tokens/s of one user (across) against those of all (up), each load by its number."""
    places = list(_trades(benchmark))
    if len(places) < 2:
        return ""
    ups, acrosses = (
        round_ticks(max(y for _, y, _ in places), 4),
        round_ticks(max(x for x, _, _ in places), 4),
    )
    margin = max(len(format_tick(each)) for each in ups) + 2
    columns = max(20, min(_MOST_BAR + 10, width - margin - 2))
    grid = [[" "] * columns for _ in range(_ROWS)]
    marks = [
        (round(x / acrosses[-1] * (columns - 1)), round((1 - y / ups[-1]) * (_ROWS - 1)), label)
        for x, y, label in places
    ]
    for column, row, _ in marks:
        grid[row][column] = signs.point
    for column, row, label in marks:
        _write(grid[row], column, label)
    lines = [f"tokens/s of all (up), of one user (across), by {describe_level(benchmark)}"]
    lines += _with_axis(grid, ups, margin, signs)
    lines.append(" " * margin + signs.corner + signs.across * columns)
    lines.append((" " * (margin + 1) + _axis_numbers(acrosses, columns)).rstrip())
    return "\n".join(lines) + "\n"


def _trades(benchmark: Benchmark) -> Iterator[tuple[float, float, str]]:
    for point in benchmark.points:
        tpot, rate = find_percentile(point, TPOT, "50"), find_figure(point, OUTPUT)
        if tpot and rate is not None:
            yield 1000 / tpot, rate.mean, format_level(load_level(point))


def _write(row: list[str], column: int, label: str) -> None:
    """Put a label right of its point, else left of it, where all places and one more are free."""
    right = range(column + 1, column + 1 + len(label))
    left = range(column - len(label), column)
    for places, beyond in ((right, right.stop), (left, left.start - 1)):
        is_inside = places.start >= 0 and places.stop <= len(row)
        if is_inside and all(_is_free(row, at) for at in (*places, beyond)):
            row[places.start : places.stop] = label
            return


def _is_free(row: Sequence[str], at: int) -> bool:
    return not 0 <= at < len(row) or row[at] == " "


def _with_axis(
    grid: Sequence[Sequence[str]], ticks: Sequence[float], margin: int, signs: _Signs
) -> Iterator[str]:
    named = {round((1 - tick / ticks[-1]) * (_ROWS - 1)): format_tick(tick) for tick in ticks}
    for number, row in enumerate(grid):
        head = named.get(number, "").rjust(margin - 1)
        yield f"{head} {signs.upright}{''.join(row)}".rstrip()


def _axis_numbers(ticks: Sequence[float], columns: int) -> str:
    """The numbers below their places, as many as stay apart."""
    line = [" "] * columns
    for tick in ticks:
        text = format_tick(tick)
        begin = round(tick / ticks[-1] * (columns - 1)) - len(text) // 2
        begin = min(max(begin, 0), columns - len(text))
        end = begin + len(text)
        if all(_is_free(line, at) for at in range(begin - 1, end + 1)):
            line[begin:end] = text
    return "".join(line)
