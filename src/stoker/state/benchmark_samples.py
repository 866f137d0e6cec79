"""The requests of a benchmark as lines of JSON: a head, then one sample a line.

A file is bounded. Where all would not fit, the gaps between events are left out first, since they
are most of the bytes and the figures were computed from them already; then the last requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from stoker.errors import StateError
from stoker.model.benchmark import Benchmark, Sample, TokenCount
from stoker.model.document import parse_document, render_line
from stoker.model.units import format_bytes

#: More than a head takes.
_HEAD_BYTES = 512
_SAMPLE_FIELDS = tuple(each.name for each in fields(Sample))
_TOKEN_FIELDS = tuple(each.name for each in fields(TokenCount))


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesHead:
    """The first line: whose samples follow, and how many there were. ``has_gaps``: whether the
    gaps between events were kept."""

    SCHEMA: ClassVar[str] = "benchmark-samples/1"

    benchmark: str
    points: int
    samples: int
    has_gaps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One line: a request and the number of its point, counted from 0."""

    point: int
    sample: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSamples:
    """The lines, and a sentence where they are not whole."""

    content: bytes
    complaint: str = ""


def render_samples(
    benchmark: str, samples: Sequence[Sequence[Sample]], *, limit_bytes: int
) -> RenderedSamples:
    """All samples within a size."""
    count = sum(map(len, samples))
    head = SamplesHead(benchmark=benchmark, points=len(samples), samples=count)
    lines = _take(_rows(samples), limit_bytes - _HEAD_BYTES)
    if len(lines) == count:
        return RenderedSamples(content=_join(head, lines))
    lines = _take(_without_gaps(_rows(samples)), limit_bytes - _HEAD_BYTES)
    complaint = (
        f"the gaps between the tokens of single requests were not kept: with them the samples "
        f"take more than {format_bytes(limit_bytes)}"
    )
    if len(lines) < count:
        complaint = (
            f"{len(lines):,} of {count:,} requests were kept, without the gaps between their "
            f"tokens: all take more than {format_bytes(limit_bytes)}"
        )
    return RenderedSamples(content=_join(replace(head, has_gaps=False), lines), complaint=complaint)


def parse_samples(
    text: str, benchmark: Benchmark, *, origin: str
) -> tuple[tuple[Sample, ...], ...]:
    """The samples of each point of a benchmark; those of a point that it has not are left out.

    Raises StateError for a damaged line and for samples of another benchmark.
    """
    # Not splitlines(): a text of a server may hold other characters that end lines.
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    head = parse_document(lines[0] if lines else "", SamplesHead, origin=_place(origin, 1))
    if head.benchmark != benchmark.id:
        raise StateError(f"{origin} has the requests of {head.benchmark}", "move it away")
    points: list[list[Sample]] = [[] for _ in benchmark.points]
    for number, line in enumerate(lines[1:], start=2):
        row = parse_document(line, SampleRow, origin=_place(origin, number))
        if 0 <= row.point < len(points):
            points[row.point].append(row.sample)
    return tuple(map(tuple, points))


def _place(origin: str, line: int) -> str:
    return f"{origin}, line {line},"


def _rows(samples: Sequence[Sequence[Sample]]) -> Iterator[SampleRow]:
    for point, those in enumerate(samples):
        for sample in those:
            yield SampleRow(point=point, sample=sample)


def _without_gaps(rows: Iterable[SampleRow]) -> Iterator[SampleRow]:
    for row in rows:
        yield replace(row, sample=replace(row.sample, gaps_us=()))


def _take(rows: Iterable[SampleRow], limit_bytes: int) -> list[bytes]:
    """The lines of as many rows as fit."""
    lines: list[bytes] = []
    size = 0
    for row in rows:
        line = _render_row(row)
        if size + len(line) > limit_bytes:
            break
        lines.append(line)
        size += len(line)
    return lines


def _render_row(row: SampleRow) -> bytes:
    """The same as :func:`render_line`, which looks at each of a million gaps by itself.

    A byte of a text that is not UTF-8 becomes a question mark.
    """
    plain = {name: getattr(row.sample, name) for name in _SAMPLE_FIELDS}
    tokens = row.sample.tokens
    plain["tokens"] = {name: getattr(tokens, name) for name in _TOKEN_FIELDS}
    text = json.dumps({"point": row.point, "sample": plain}, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode("utf-8", "replace")


def _join(head: SamplesHead, lines: Iterable[bytes]) -> bytes:
    return b"".join((render_line(head).encode(), *lines))
