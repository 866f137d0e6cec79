"""A benchmark as a person reads it: what was measured, a row for each load, and what to know.

Where a client was starved its figures are its own, so its complaints stand in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from stoker.model.benchmark import Benchmark, Lengths, Point, Window
from stoker.model.visible import visible
from stoker.report.benchmark_words import (
    E2E,
    EVENTS,
    GOODPUT,
    INPUT,
    ITL,
    OUTPUT,
    REQUESTS,
    SIZES,
    TPOT,
    TTFT,
    describe_level,
    describe_load,
    describe_objectives,
    describe_server_metric,
    find_figure,
    format_level,
    format_number,
    format_server_metric,
    format_spread,
    half_width,
    interval_of,
    load_level,
    server_meanings,
)
from stoker.report.table import render_table

#: What a terminal is taken for whose width is not known.
USUAL_WIDTH = 80
_NOTHING, _NO_RESULT = "-", "no result"
_MOST_ERRORS = 5
_DEFINITIONS = (
    "TTFT: from sending a request to the first event that carries content.",
    "ITL: between two events that carry content; engines may put several tokens into one.",
    "TPOT: from the first content to the last, divided by the output tokens less one.",
    "E2E: from sending a request to the last content.",
    "Tokens: as the server's own usage counts them, reasoning included.",
    "TOKENS/S, REQ/S: over the window alone; requests that failed count for nothing.",
    "GOODPUT: requests a second that kept every objective.",
    "P50, P99: half and 99 % of all values are at most this.",
    "±: half of a 95 % confidence interval.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of the table. ``cell``: a figure, and half of its interval or nothing.
    ``is_latency``: it goes to the second of two tables."""

    head: str
    cell: Callable[[Point], tuple[str, str]]
    is_latency: bool = False


def render_benchmark(
    benchmark: Benchmark, *, width: int = USUAL_WIDTH, is_verbose: bool = False
) -> str:
    """All of a benchmark, in lines of at most ``width`` where that can be.

    ``is_verbose``: also how each window was cut, the client's own figures and the definitions.
    """
    sections = [
        "\n".join(_head(benchmark, width)),
        _tables(benchmark, width),
        "\n".join(_warnings(benchmark, width)),
        _server(benchmark, width),
        "\n".join(_notes(benchmark, width)),
        "\n".join(_details(benchmark, width)) if is_verbose else "",
    ]
    return "\n\n".join(section.rstrip() for section in sections if section) + "\n"


def render_benchmarks(benchmarks: Sequence[Benchmark], complaints: Sequence[str] = ()) -> str:
    """One line for each benchmark that is kept, and what could not be read."""
    rows = [
        (
            each.id,
            visible(each.started),
            visible(each.served.name or each.served.url),
            visible(each.workload.name),
            ", ".join(format_level(load_level(point)) for point in each.points),
            _best(each),
            "yes" if each.served.verified else "NO",
        )
        for each in benchmarks
    ]
    head = ("ID", "STARTED", "SERVER", "WORKLOAD", "LOADS", "TOKENS/S", "VERIFIED")
    text = render_table(head, rows) if rows else "nothing was measured yet\n"
    return text + "".join(f"note: {visible(each)}\n" for each in complaints)


def _best(benchmark: Benchmark) -> str:
    found = [figure.mean for point in benchmark.points if (figure := find_figure(point, OUTPUT))]
    return format_number(max(found)) if found else _NOTHING


def _head(benchmark: Benchmark, width: int) -> Iterator[str]:
    served, workload = benchmark.served, benchmark.workload
    yield f"benchmark {benchmark.id}, started {visible(benchmark.started)}"
    engine = f"{served.engine} {served.release}".strip() or "engine not known"
    name = f"{served.name}, " if served.name else ""
    yield from _entry("server", f"{name}{engine}, model {served.model}, {served.url}", width)
    if served.verified:
        yield from _entry("verified", f"yes, {served.verified}", width)
    else:
        yield from _entry("verified", "NOT VERIFIED: its answers may be wrong", width)
    lengths = f"prompts of {_lengths(workload.prompt_tokens)}" if workload.shape != "file" else ""
    answers = f"answers of {_lengths(workload.output_tokens)}"
    parts = [f"{workload.name} ({workload.title})", lengths, answers, f"seed {benchmark.seed}"]
    yield from _entry("workload", ", ".join(filter(None, parts)), width)
    yield from _entry("window", _windows([each.window for each in benchmark.points]), width)
    asked = describe_objectives(benchmark.objectives)
    if asked:
        yield from _entry("objectives", asked, width)


def _entry(word: str, text: str, width: int) -> list[str]:
    return _wrap(visible(text), width, first=f"  {word:<12}", then=" " * 14)


def _wrap(text: str, width: int, *, first: str = "", then: str = "") -> list[str]:
    return wrap(
        text,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lengths(lengths: Lengths) -> str:
    if not lengths.median and not lengths.most:
        return "the length that the file says"
    if lengths.spread == "fixed":
        return f"{lengths.median:,} tokens"
    if lengths.spread == "uniform":
        return f"{lengths.least:,} to {lengths.most:,} tokens"
    return f"about {lengths.median:,} tokens ({lengths.least:,} to {lengths.most:,})"


def _windows(windows: Sequence[Window]) -> str:
    """What was measured, and what was left out."""
    if not windows:
        return "nothing was measured"
    seconds = _range([each.seconds for each in windows], "{:.1f}")
    requests = _requests([each.requests for each in windows])
    left_out = [
        f"{word} ({_requests(counts)}, {_range(times, '{:.1f}')} s)"
        for word, counts, times in (
            (
                "warm-up",
                [each.warmup_requests for each in windows],
                [each.warmup_seconds for each in windows],
            ),
            (
                "drain",
                [each.drain_requests for each in windows],
                [each.drain_seconds for each in windows],
            ),
        )
    ]
    each = " at each load" if len(windows) > 1 else ""
    return f"{seconds} s, {requests}{each}; left out: {', '.join(left_out)}"


def _requests(counts: Sequence[int]) -> str:
    return f"{_range(counts, '{:,.0f}')} request{'' if max(counts) == 1 else 's'}"


def _range(values: Sequence[float], form: str) -> str:
    least, most = form.format(min(values)), form.format(max(values))
    return least if least == most else f"{least} to {most}"


def _tables(benchmark: Benchmark, width: int) -> str:
    """One table if it fits, else two, without intervals where need be, else a figure a line."""
    columns = _columns(benchmark)
    whole = _table(benchmark, columns, has_intervals=True)
    if _fits(whole, width):
        return whole
    tables = []
    for is_latency in (False, True):
        those = [each for each in columns if each.is_latency is is_latency]
        choices = [_table(benchmark, those, has_intervals=each) for each in (True, False)]
        tables += [each for each in choices if _fits(each, width)][:1]
    if len(tables) == 2:
        return "\n".join(tables)
    return "\n".join(_list(benchmark, point, columns) for point in benchmark.points)


def _fits(text: str, width: int) -> bool:
    return all(len(line) <= width for line in text.splitlines())


def _columns(benchmark: Benchmark) -> list[_Column]:
    has_events = any(find_figure(point, EVENTS) for point in benchmark.points)
    has_input = any(find_figure(point, INPUT) for point in benchmark.points)
    has_goodput = any(find_figure(point, GOODPUT) for point in benchmark.points)
    return [
        _Column(head="TOKENS/S OUT", cell=_rate(OUTPUT)),
        *([_Column(head="EVENTS/S", cell=_rate(EVENTS))] if has_events else []),
        *([_Column(head="IN", cell=_rate(INPUT))] if has_input else []),
        _Column(head="REQ/S", cell=_rate(REQUESTS)),
        *([_Column(head="GOODPUT", cell=_rate(GOODPUT))] if has_goodput else []),
        _Column(head="FAILED", cell=lambda point: (f"{point.window.failed_requests:,}", "")),
        *(
            _Column(head=head, cell=_percentile(name, percentile), is_latency=True)
            for name, word in ((TTFT, "TTFT"), (ITL, "ITL"), (TPOT, "TPOT"), (E2E, "E2E"))
            for percentile, head in (("50", f"{word} P50"), ("99", "P99"))
        ),
    ]


def _rate(name: str) -> Callable[[Point], tuple[str, str]]:
    def cell(point: Point) -> tuple[str, str]:
        figure = find_figure(point, name)
        if figure is None:
            return _NO_RESULT if name == OUTPUT and point.health.complaints else _NOTHING, ""
        return _with_spread(figure.mean, half_width(interval_of(figure)))

    return cell


def _percentile(name: str, percentile: str) -> Callable[[Point], tuple[str, str]]:
    def cell(point: Point) -> tuple[str, str]:
        figure = find_figure(point, name)
        value = None if figure is None else figure.percentiles.get(percentile)
        if figure is None or value is None:
            return _NOTHING, ""
        # The middle alone: that of a far percentile is too uneven to say it with one sign.
        interval = interval_of(figure, percentile) if percentile == "50" else None
        return _with_spread(value, half_width(interval))

    return cell


def _with_spread(value: float, spread: float | None) -> tuple[str, str]:
    return format_number(value), "" if spread is None else f" ±{format_spread(spread, value)}"


def _table(benchmark: Benchmark, columns: Sequence[_Column], *, has_intervals: bool) -> str:
    first = [describe_level(benchmark).upper(), *map(_label, benchmark.points)]
    cells = [
        [each.head, *(_cell(each, point, has_interval=has_intervals) for point in benchmark.points)]
        for each in columns
    ]
    aligned = [_align_right(column) for column in (first, *cells)]
    head, *rows = zip(*aligned, strict=True)
    unit = "latencies in ms\n" if any(each.is_latency for each in columns) else ""
    return unit + render_table(head, rows)


def _cell(column: _Column, point: Point, *, has_interval: bool) -> str:
    figure, spread = column.cell(point)
    return figure + spread if has_interval else figure


def _label(point: Point) -> str:
    return format_level(load_level(point)) + ("*" if point.was_interrupted else "")


def _align_right(cells: Sequence[str]) -> list[str]:
    """One width for all, so that digits stand below digits."""
    width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells]


def _list(benchmark: Benchmark, point: Point, columns: Sequence[_Column]) -> str:
    """The same of one load, one figure a line: for a narrow terminal."""
    lines = [f"{describe_level(benchmark)} {_label(point)}"]
    word = ""
    for each in columns:
        word = each.head.partition(" ")[0] if " P50" in each.head else word
        head = f"{word} P99" if each.head == "P99" else each.head
        told = _cell(each, point, has_interval=True)
        unit = " ms" if each.is_latency and told != _NOTHING else ""
        lines.append(f"  {head:<12}  {told}{unit}")
    return "\n".join(lines) + "\n"


def _warnings(benchmark: Benchmark, width: int) -> Iterator[str]:
    """What makes figures none, or fewer than they seem."""
    for point in benchmark.points:
        load = describe_load(point.load)
        if point.health.complaints:
            yield f"{load}: NO RESULT, what was measured is the client and not the server:"
            for each in point.health.complaints:
                yield from _wrap(visible(each), width, first="  - ", then="    ")
        if point.was_interrupted:
            yield f"* {load} was interrupted; these are the figures until then"
        yield from _errors(point, load, width)


def _errors(point: Point, load: str, width: int) -> Iterator[str]:
    if not point.errors:
        return
    yield f"{load}: {_requests([sum(point.errors.values())])} failed:"
    ordered = sorted(point.errors.items(), key=lambda pair: (-pair[1], pair[0]))
    for text, count in ordered[:_MOST_ERRORS]:
        yield from _wrap(f"{count:,} x {visible(text)}", width, first="  ", then="    ")
    if len(ordered) > _MOST_ERRORS:
        yield f"  and {len(ordered) - _MOST_ERRORS} other reasons"


def _server(benchmark: Benchmark, width: int) -> str:
    """The server's own word: a row for each figure, a column for each load, as many as fit."""
    meanings = server_meanings(benchmark.points)
    sizes = [each for each in SIZES if any(find_figure(point, each) for point in benchmark.points)]
    if not meanings and not sizes:
        return ""
    names = [
        describe_level(benchmark),
        *(SIZES[each] for each in sizes),
        *map(describe_server_metric, meanings),
    ]
    tables: list[str] = []
    columns: list[list[str]] = []
    for point in benchmark.points:
        told = [_size(point, each) for each in sizes]
        told += [
            format_server_metric(each, point.server[each]) if each in point.server else _NOTHING
            for each in meanings
        ]
        column = _align_right([_label(point), *told])
        if columns and _is_wider(names, [*columns, column], width):
            tables.append(_join(names, columns))
            columns = []
        columns.append(column)
    tables.append(_join(names, columns))
    return "What the server itself told:\n" + "\n".join(tables)


def _size(point: Point, name: str) -> str:
    figure = find_figure(point, name)
    return _NOTHING if figure is None else format_server_metric(name, figure.mean)


def _is_wider(names: Sequence[str], columns: Sequence[Sequence[str]], width: int) -> bool:
    return max(map(len, names)) + sum(2 + len(each[0]) for each in columns) > width


def _join(names: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    head, *rows = zip(names, *columns, strict=True)
    return render_table(head, rows)


def _notes(benchmark: Benchmark, width: int) -> Iterator[str]:
    notes = [
        f"{describe_load(point.load)}: {each}" for point in benchmark.points for each in point.notes
    ]
    for each in (*notes, *benchmark.notes):
        yield from _wrap(visible(each), width, first="note: ", then="  ")


def _details(benchmark: Benchmark, width: int) -> Iterator[str]:
    for point in benchmark.points:
        window, health = point.window, point.health
        yield from _wrap(f"{describe_load(point.load)}: window of {_windows([window])}", width)
        client = (
            f"client: its loop was late by {format_number(health.lag_p50_ms)} ms (P50), "
            f"{format_number(health.lag_p99_ms)} ms (P99), {format_number(health.lag_max_ms)} ms "
            f"(most), requests by {format_number(health.late_p99_ms)} ms (P99); it used "
            f"{100 * health.busy_share:.0f} % of a core"
        )
        yield from _wrap(client, width, first="  ", then="  ")
        if point.batches:
            told = ", ".join(map(format_number, point.batches))
            yield from _wrap(f"tokens/s in equal slices: {told}", width, first="  ", then="  ")
    if benchmark.served.digest:
        yield f"digest of facts and launch: {visible(benchmark.served.digest)}"
    if benchmark.client:
        yield f"measured by {visible(benchmark.client)}"
    yield ""
    for each in _DEFINITIONS:
        yield from _wrap(each, width, then="  ")
