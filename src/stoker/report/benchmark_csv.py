"""A benchmark for a spreadsheet: a row for each load, or a row for each request.

Units stand in the heads. What was not measured is an empty cell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from stoker.model.benchmark import Benchmark, Point, Sample
from stoker.model.visible import visible
from stoker.report.benchmark_words import (
    E2E,
    GOODPUT,
    INPUT,
    ITL,
    OUTPUT,
    REQUESTS,
    TPOT,
    TTFT,
    find_figure,
    server_meanings,
)

Cell = str | int | float | None
_RATES = (
    (OUTPUT, "output_tokens_per_second"),
    (INPUT, "input_tokens_per_second"),
    (REQUESTS, "requests_per_second"),
    (GOODPUT, "good_requests_per_second"),
)
_LATENCIES = ((TTFT, "ttft"), (TPOT, "tpot"), (ITL, "itl"), (E2E, "e2e"))
_PERCENTILES = ("50", "90", "95", "99")
#: How a cell may begin that a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@")
_POINT_HEAD = (
    "benchmark",
    "started",
    "name",
    "engine",
    "release",
    "model",
    "workload",
    "verified",
    "arrival",
    "concurrency",
    "rate_per_second",
    "window_seconds",
    "requests",
    "failed_requests",
    "interrupted",
)
_SAMPLE_HEAD = (
    "benchmark",
    "point",
    "number",
    "session",
    "measured",
    "due_seconds",
    "sent_seconds",
    "ended_seconds",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "asked_tokens",
    "events",
    "status",
    "error",
)


def render_points_csv(benchmarks: Iterable[Benchmark]) -> str:
    """A row for each load of each benchmark. ``complaints``: why a row has no figures."""
    those = list(benchmarks)
    meanings = server_meanings(point for each in those for point in each.points)
    head = [*_POINT_HEAD, *_figure_heads(), *(f"server_{each}" for each in meanings)]
    rows = [
        [
            *_point_cells(each, point),
            *_figure_cells(point),
            *map(point.server.get, meanings),
            "; ".join(point.health.complaints),
            "; ".join(point.notes),
        ]
        for each in those
        for point in each.points
    ]
    return _render([*head, "complaints", "notes"], rows)


def render_samples_csv(benchmark: Benchmark, samples: Sequence[Sequence[Sample]]) -> str:
    """A row for each request, those of warm-up and drain too. Moments since the load began."""
    rows = [
        _sample_cells(benchmark, number, sample)
        for number, those in enumerate(samples)
        for sample in those
    ]
    return _render(_SAMPLE_HEAD, rows)


def find_tpot_ms(sample: Sample) -> float | None:
    """From the first content to the last, divided by the output tokens less one; None where there
    is no such time."""
    output = sample.tokens.output or 0
    if sample.first_seconds is None or sample.last_seconds is None or output < 2:
        return None
    return (sample.last_seconds - sample.first_seconds) * 1000 / (output - 1)


def find_e2e_ms(sample: Sample) -> float | None:
    """From sending to the last content, to the end where none came; None of what failed."""
    if not sample.is_good:
        return None
    last = sample.ended_seconds if sample.last_seconds is None else sample.last_seconds
    return find_span_ms(sample, last)


def find_span_ms(sample: Sample, end_seconds: float | None) -> float | None:
    """From sending the request to a moment of it, as TTFT to its first content."""
    return None if end_seconds is None else (end_seconds - sample.sent_seconds) * 1000


def _figure_heads() -> list[str]:
    heads = []
    for _, word in _RATES:
        heads += [word, f"{word}_low", f"{word}_high"]
    for _, word in _LATENCIES:
        heads += [f"{word}_mean_ms", f"{word}_mean_low_ms", f"{word}_mean_high_ms"]
        heads += [f"{word}_p{each}_ms" for each in _PERCENTILES]
    return heads


def _point_cells(benchmark: Benchmark, point: Point) -> list[Cell]:
    served, load, window = benchmark.served, point.load, point.window
    return [
        benchmark.id,
        benchmark.started,
        served.name,
        served.engine,
        served.release,
        served.model,
        benchmark.workload.name,
        served.verified or "no",
        load.arrival.value,
        load.concurrency or None,
        load.rate_per_second or None,
        _round(window.seconds),
        window.requests,
        window.failed_requests,
        "yes" if point.was_interrupted else "no",
    ]


def _figure_cells(point: Point) -> list[Cell]:
    cells: list[Cell] = []
    for name, _ in (*_RATES, *_LATENCIES):
        figure = find_figure(point, name)
        kept = () if (name, _) in _RATES else _PERCENTILES
        if figure is None:
            cells += [None] * (3 + len(kept))
            continue
        cells += map(_round, (figure.mean, figure.low, figure.high))
        cells += [_round(figure.percentiles.get(each)) for each in kept]
    return cells


def _sample_cells(benchmark: Benchmark, point: int, sample: Sample) -> list[Cell]:
    tokens = sample.tokens
    return [
        benchmark.id,
        point,
        sample.number,
        sample.session,
        "yes" if sample.is_measured else "no",
        _round(sample.due_seconds),
        _round(sample.sent_seconds),
        _round(sample.ended_seconds),
        _round(find_span_ms(sample, sample.first_seconds)),
        _round(find_tpot_ms(sample)),
        _round(find_e2e_ms(sample)),
        tokens.prompt,
        tokens.output,
        tokens.cached,
        tokens.reasoning,
        tokens.asked,
        0 if sample.first_seconds is None else len(sample.gaps_us) + 1,
        sample.status or None,
        sample.error,
    ]


def _round(value: float | None) -> float | None:
    """A microsecond or a millionth of a token is below what anything here can tell."""
    return None if value is None else round(value, 6)


def _render(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return text.getvalue()


def _plain(cell: Cell) -> Cell:
    """A text that no spreadsheet takes for a formula and no terminal for a command."""
    if not isinstance(cell, str):
        return cell
    text = visible(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
