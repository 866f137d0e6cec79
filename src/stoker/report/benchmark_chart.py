"""Charts as parts of an SVG: axes with round numbers, series with marks, labels that find room.

No font is at hand here, so the width of a text is taken as that of a wide font. A label that finds
no free place is left out; what it says stands in the mark's own title too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise
from math import ceil, floor, hypot, inf, isfinite, log, log10

WIDTH = 860
_LEFT, _RIGHT, _PLOT_HEIGHT = 90, 830, 250
_TITLE, _LEGEND_LINE, _HEADROOM, _FOOT = 30, 20, 18, 44
_SIZE, _SMALL = 13, 12
#: Of its size; no usual font without serifs is wider in the mean, digits and capitals included.
_CHARACTER = 0.65
_MARK, _LINE_STEP = 4.0, 6.0
#: A circle, a square, a triangle, a diamond, each around a mark.
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5l5 8h-10z",
    "M0 -5l5 5l-5 5l-5 -5z",
)
#: Dashes by the number of a line style: whole, dashed, dotted.
_DASHES = ("", ' stroke-dasharray="7 4"', ' stroke-dasharray="2 4"')
#: How far the largest value may be above the smallest before an axis becomes logarithmic.
_LINEAR_RATIO = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One value. ``low`` and ``high``: its interval. ``label``: what may stand beside it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Marks of one kind, joined in their order. ``colour`` counts from 0, and so does ``line``."""

    title: str
    marks: tuple[Mark, ...]
    colour: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart. ``x_at_marks``: the horizontal axis is logarithmic and names the values that were
    measured. ``may_be_log``: so may the vertical one be, where values are far apart. ``limit``: a
    value of the vertical axis that is drawn across, with ``limit_title``."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    x_at_marks: bool = True
    may_be_log: bool = False
    limit: float | None = None
    limit_title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A place that is taken, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether both share any place."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From values to pixels. ``ticks``: the values that are named."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where a value lies."""
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = log(low), log(high), log(max(value, self.low))
        return self.begin + (self.end - self.begin) * (at - low) / (high - low)


@dataclass(slots=True, kw_only=True)
class _Room:
    """What of a plot is taken, and its bounds."""

    bounds: Box
    taken: list[Box] = field(default_factory=list)

    def find(self, boxes: Sequence[Box]) -> Box | None:
        """The first of some places that is free, which is then taken."""
        for box in boxes:
            if self._is_inside(box) and not any(box.overlaps(each) for each in self.taken):
                self.taken.append(box)
                return box
        return None

    def _is_inside(self, box: Box) -> bool:
        bounds = self.bounds
        return (
            box.left >= bounds.left
            and box.right <= bounds.right
            and box.top >= bounds.top
            and box.bottom <= bounds.bottom
        )


def text_width(text: str, size: float = _SIZE) -> float:
    """How wide a text is at most, in pixels."""
    return len(text) * size * _CHARACTER


def cut_text(text: str, width: float, size: float = _SIZE) -> str:
    """A text of at most this width, with an ellipsis where its end is missing."""
    most = max(1, int(width / size / _CHARACTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def round_ticks(high: float, count: int = 5) -> tuple[float, ...]:
    """From 0 in round steps (1, 2, 2.5 or 5 times a power of ten) to what is not below ``high``."""
    if high <= 0 or not isfinite(high):
        return (0.0, 1.0)
    power = 10.0 ** floor(log10(high / count))
    step = next(each * power for each in (1, 2, 2.5, 5, 10, 20) if each * power * count >= high)
    return tuple(step * number for number in range(ceil(high / step - 1e-9) + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times powers of ten, from what is not above ``low`` to what is not below
    ``high``; powers alone where those would be many."""
    first, last = floor(log10(low)), ceil(log10(high))
    digits = (1.0, 2.0, 5.0) if last - first <= 3 else (1.0,)
    values = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
    below = max(each for each in values if each <= low * (1 + 1e-9))
    above = min((each for each in values if each >= high * (1 - 1e-9)), default=values[-1])
    if above <= below:
        above = below * 10
        values.append(above)
    return tuple(each for each in values if below <= each <= above)


def chart_height(chart: Chart) -> float:
    """How high a chart is, in pixels."""
    return _TITLE + _LEGEND_LINE * len(_legend_rows(chart)) + _HEADROOM + _PLOT_HEIGHT + _FOOT


def draw_chart(chart: Chart, top: float) -> Iterator[str]:
    """The lines of SVG for a chart whose upper edge is at ``top``."""
    yield write_text(20, top + 18, cut_text(chart.title, WIDTH - 40, 15), size=15, kind="ink")
    rows = _legend_rows(chart)
    for number, row in enumerate(rows):
        yield from _draw_legend(row, top + _TITLE + _LEGEND_LINE * number + 12)
    begin = top + _TITLE + _LEGEND_LINE * len(rows) + _HEADROOM
    bounds = Box(left=_LEFT, top=begin, right=_RIGHT, bottom=begin + _PLOT_HEIGHT)
    x, y = _scales(chart, bounds)
    yield from _draw_axes(chart, bounds, x, y)
    yield from _draw_limit(chart, bounds, y)
    for series in chart.series:
        yield from _draw_line(series, x, y)
    yield from _draw_labels(chart, bounds, x, y)


def write_text(
    x: float, y: float, text: str, *, size: int = _SIZE, kind: str = "soft", anchor: str = "start"
) -> str:
    """A text at its base line."""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def format_tick(value: float) -> str:
    """A round number in few characters: ``0.5``, ``20``, ``15,000``, ``2.5M``."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.4g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def _legend_rows(chart: Chart) -> list[list[Series]]:
    """The series that have marks, as many in a row as fit; none where there is only one."""
    shown = [each for each in chart.series if each.marks]
    if len(shown) < 2:
        return []
    rows: list[list[Series]] = [[]]
    used = 0.0
    for each in shown:
        width = _entry_width(each)
        if rows[-1] and used + width > _RIGHT - _LEFT:
            rows.append([])
            used = 0.0
        rows[-1].append(each)
        used += width
    return rows


def _entry_width(series: Series) -> float:
    return 36 + min(text_width(series.title, _SMALL), 330) + 22


def _draw_legend(row: Sequence[Series], base: float) -> Iterator[str]:
    left = float(_LEFT)
    for each in row:
        yield (
            f'<path class="s{each.colour}" d="M{left:.1f} {base - 4:.1f}h28" fill="none" '
            f'stroke-width="2"{_DASHES[each.line]}/>'
        )
        yield _draw_mark(left + 14, base - 4, each)
        title = cut_text(each.title, 330, _SMALL)
        yield write_text(left + 36, base, title, size=_SMALL)
        left += _entry_width(each)


def _scales(chart: Chart, bounds: Box) -> tuple[Scale, Scale]:
    marks = [mark for series in chart.series for mark in series.marks]
    xs, ys = sorted({mark.x for mark in marks}), [mark.y for mark in marks]
    highs = [mark.high if mark.high is not None else mark.y for mark in marks]
    inner = (bounds.left + 24, bounds.right - 24)
    if chart.x_at_marks and xs[0] > 0:
        low, high = (xs[0], xs[-1]) if len(xs) > 1 else (xs[0] / 2, xs[0] * 2)
        x = _scale(low, high, inner, is_log=True, ticks=tuple(xs))
    else:
        ticks = round_ticks(max(xs), 8)
        x = _scale(0.0, ticks[-1], (bounds.left, bounds.right), ticks=ticks)
    return x, _vertical_scale(chart, ys, highs, (bounds.bottom, bounds.top))


def _vertical_scale(
    chart: Chart, ys: Sequence[float], highs: Sequence[float], ends: tuple[float, float]
) -> Scale:
    limits = [] if chart.limit is None else [chart.limit]
    top = max([*highs, *limits])
    positive = [each for each in (*ys, *limits) if each > 0]
    if chart.may_be_log and positive and top / min(positive) > _LINEAR_RATIO:
        ticks = log_ticks(min(positive), top)
        return _scale(ticks[0], ticks[-1], ends, is_log=True, ticks=ticks)
    ticks = round_ticks(top * 1.04)
    return _scale(0.0, ticks[-1], ends, ticks=ticks)


def _scale(
    low: float,
    high: float,
    ends: tuple[float, float],
    *,
    ticks: tuple[float, ...],
    is_log: bool = False,
) -> Scale:
    return Scale(low=low, high=high, begin=ends[0], end=ends[1], is_log=is_log, ticks=ticks)


def _draw_axes(chart: Chart, bounds: Box, x: Scale, y: Scale) -> Iterator[str]:
    for tick in y.ticks:
        at = y.place(tick)
        yield f'<path class="grid" d="M{bounds.left:.1f} {at:.1f}H{bounds.right:.1f}"/>'
        yield write_text(bounds.left - 8, at + 4, format_tick(tick), size=_SMALL, anchor="end")
    room = _Room(bounds=Box(left=0, top=0, right=WIDTH, bottom=inf))
    for tick in x.ticks:
        at, text = x.place(tick), format_tick(tick)
        half = text_width(text, _SMALL) / 2 + 3
        base = bounds.bottom + 18
        if room.find([Box(left=at - half, top=base - 10, right=at + half, bottom=base)]):
            yield f'<path class="axis" d="M{at:.1f} {bounds.bottom:.1f}v5"/>'
            yield write_text(at, base, text, size=_SMALL, anchor="middle")
    yield f'<path class="axis" d="M{bounds.left:.1f} {bounds.bottom:.1f}H{bounds.right:.1f}"/>'
    middle = (bounds.left + bounds.right) / 2
    yield write_text(middle, bounds.bottom + 38, chart.x_title, anchor="middle")
    # Rotated about its own place, so that it reads along the axis.
    down = (bounds.top + bounds.bottom) / 2
    yield (
        f'<text class="soft" font-size="{_SIZE}" text-anchor="middle" '
        f'transform="translate(18 {down:.1f}) rotate(-90)">{escape(chart.y_title)}</text>'
    )


def _draw_limit(chart: Chart, bounds: Box, y: Scale) -> Iterator[str]:
    if chart.limit is not None:
        at = y.place(chart.limit)
        yield (
            f'<path class="limit" d="M{bounds.left:.1f} {at:.1f}H{bounds.right:.1f}" '
            'stroke-dasharray="10 3"/>'
        )


def _draw_line(series: Series, x: Scale, y: Scale) -> Iterator[str]:
    places = [(x.place(mark.x), y.place(mark.y)) for mark in series.marks]
    if len(places) > 1:
        path = "L".join(f"{left:.1f} {top:.1f}" for left, top in places)
        yield (
            f'<path class="s{series.colour}" d="M{path}" fill="none" stroke-width="2" '
            f'stroke-linejoin="round"{_DASHES[series.line]}/>'
        )
    for mark, (left, top) in zip(series.marks, places, strict=True):
        if mark.low is not None and mark.high is not None:
            low, high = y.place(max(mark.low, y.low)), y.place(mark.high)
            yield (
                f'<path class="s{series.colour}" stroke-width="1" fill="none" '
                f'd="M{left:.1f} {low:.1f}V{high:.1f}M{left - 4:.1f} {low:.1f}h8'
                f'M{left - 4:.1f} {high:.1f}h8"/>'
            )
        yield _draw_mark(left, top, series, mark.title)


def _draw_mark(x: float, y: float, series: Series, title: str = "") -> str:
    """A shape of the colour, so that series are told apart without it."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    shape = _SHAPES[series.colour % len(_SHAPES)]
    place = f'transform="translate({x:.1f} {y:.1f})"'
    return f'<path class="m{series.colour}" {place} d="{shape}">{inner}</path>'


def _draw_labels(chart: Chart, bounds: Box, x: Scale, y: Scale) -> Iterator[str]:
    """The labels of marks and of the limit, each where it covers nothing."""
    # A label may stand above the plot, below the title.
    room = _Room(bounds=replace(bounds, top=bounds.top - _HEADROOM + 2))
    for series in chart.series:
        room.taken += _line_boxes(series, x, y)
    marks = [(series, mark) for series in chart.series for mark in series.marks]
    for _, mark in marks:
        left, top = x.place(mark.x), y.place(mark.y)
        room.taken.append(
            Box(left=left - _MARK, top=top - _MARK, right=left + _MARK, bottom=top + _MARK)
        )
    if chart.limit is not None and chart.limit_title:
        yield from _draw_limit_title(chart, bounds, room, y)
    for series, mark in marks:
        box = (
            room.find(_around(x.place(mark.x), y.place(mark.y), mark.label)) if mark.label else None
        )
        if box is not None:
            middle = (box.left + box.right) / 2
            yield write_text(
                middle,
                box.bottom - 3,
                mark.label,
                size=_SMALL,
                kind=f"halo t{series.colour}",
                anchor="middle",
            )


def _line_boxes(series: Series, x: Scale, y: Scale) -> Iterator[Box]:
    """What the lines between marks take, in small squares."""
    places = [(x.place(mark.x), y.place(mark.y)) for mark in series.marks]
    for (left, top), (right, bottom) in pairwise(places):
        steps = max(1, ceil(hypot(right - left, bottom - top) / _LINE_STEP))
        for step in range(steps + 1):
            across, down = left + (right - left) * step / steps, top + (bottom - top) * step / steps
            yield Box(left=across - 1, top=down - 1, right=across + 1, bottom=down + 1)


def _draw_limit_title(chart: Chart, bounds: Box, room: _Room, y: Scale) -> Iterator[str]:
    at, width = y.place(chart.limit or 0.0), text_width(chart.limit_title, _SMALL)
    lefts = (bounds.left + 6, bounds.right - 6 - width)
    boxes = [
        Box(left=left, top=top, right=left + width, bottom=top + 15)
        for left in lefts
        for top in (at - 17, at + 2)
    ]
    box = room.find(boxes)
    if box is not None:
        yield write_text(box.left, box.bottom - 3, chart.limit_title, size=_SMALL, kind="halo soft")


def _around(x: float, y: float, label: str) -> list[Box]:
    """Places for a label beside a mark, the best first."""
    width, height, gap = text_width(label, _SMALL), 15.0, 7.0
    corners = (
        (x - width / 2, y - gap - height),
        (x + gap, y - gap - height),
        (x - gap - width, y - gap - height),
        (x + gap, y - height / 2),
        (x - gap - width, y - height / 2),
        (x + gap, y + gap),
        (x - width / 2, y + gap),
        (x - gap - width, y + gap),
    )
    return [
        Box(left=left, top=top, right=left + width, bottom=top + height) for left, top in corners
    ]
