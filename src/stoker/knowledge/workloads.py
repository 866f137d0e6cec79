"""Workloads that come with Stoker, and what makes an engine's answers as long as they ask for.

Called by the command that benchmarks. The rows stand in ``data/workloads`` (a file each, named
after the workload) and ``data/whole_lengths.toml``; a user's own file of the same form is read by
:func:`parse_workload`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, parse_toml, read_text, read_toml
from stoker.knowledge.structure import structure
from stoker.model.benchmark import Lengths, Workload
from stoker.model.facts import Plain
from stoker.model.finding import Source

_FOLDER = "workloads"
_WHOLE_LENGTHS = "whole_lengths.toml"
_SHAPES = ("chat", "shared_prefix", "tool_loop", "random")
_TEXTS = ("prose", "code")
_SPREADS = ("fixed", "uniform", "lognormal")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeLength:
    """The fields of a request that make an engine answer exactly as long as it is asked to."""

    fields: Mapping[str, Plain]
    source: Source


@cache
def load_workloads() -> Mapping[str, Workload]:
    """All workloads by their names. Raises DataError."""
    found = {}
    for name in list_data(_FOLDER, ".toml"):
        origin = f"{_FOLDER}/{name}.toml"
        found[name] = parse_workload(read_text(origin), name=name, origin=origin)
    return found


def parse_workload(text: str, *, name: str, origin: str) -> Workload:
    """A workload from TOML. Raises DataError with every problem of its values; ``origin`` names
    the file in it."""
    data = parse_toml(text, origin=origin)
    source = structure(Source, data.pop("source", None), where=f"{origin}: source")
    check_source(source, where=origin)
    workload = structure(Workload, {**data, "name": name, "source": source.where}, where=origin)
    if problems := list(_find_problems(workload)):
        raise DataError(f"{origin}: {'; '.join(problems)}")
    return workload


def _find_problems(workload: Workload) -> Iterator[str]:
    """What is wrong with the values of a workload."""
    if workload.shape not in _SHAPES:
        yield f"shape is one of {', '.join(_SHAPES)}, not {workload.shape!r}"
    if workload.text not in _TEXTS:
        yield f"text is one of {', '.join(_TEXTS)}, not {workload.text!r}"
    if workload.turns < 1:
        yield "turns is at least 1"
    if min(workload.prefixes, workload.prefix_tokens) < 0:
        yield "prefixes and prefix_tokens are at least 0"
    if bool(workload.prefixes) != bool(workload.prefix_tokens):
        yield "prefixes and prefix_tokens are given together"
    if workload.shape == "shared_prefix" and not workload.prefixes:
        yield "a shared prefix needs prefixes and prefix_tokens"
    yield from _find_length_problems("prompt_tokens", workload.prompt_tokens)
    yield from _find_length_problems("output_tokens", workload.output_tokens)
    if workload.turns > 1:
        yield from _find_length_problems("turn_tokens", workload.turn_tokens)


def _find_length_problems(name: str, lengths: Lengths) -> Iterator[str]:
    if lengths.spread not in _SPREADS:
        yield f"{name}.spread is one of {', '.join(_SPREADS)}, not {lengths.spread!r}"
    if lengths.median < 1:
        yield f"{name}.median is at least 1"
    if lengths.spread == "fixed":
        return
    if not 1 <= lengths.least <= lengths.median <= lengths.most:
        yield f"{name}: least, median and most are at least 1 and stand in this order"
    if not 0.0 <= lengths.sigma <= _MOST_SIGMA:
        yield f"{name}.sigma lies between 0 and {_MOST_SIGMA:g}"


#: With more, nearly all lengths are cut at one of their bounds.
_MOST_SIGMA = 4.0


@cache
def load_whole_lengths() -> Mapping[str, WholeLength]:
    """By the kind of an engine, which fields make its answers whole. Raises DataError."""
    found = {}
    for engine, row in read_toml(_WHOLE_LENGTHS).items():
        where = f"{_WHOLE_LENGTHS}: {engine}"
        found[engine] = structure(WholeLength, row, where=where)
        check_source(found[engine].source, where=where)
    return found


def whole_length_fields(engine: str) -> Mapping[str, Plain]:
    """The fields for one engine; none for an engine that nobody described."""
    row = load_whole_lengths().get(engine)
    return {} if row is None else row.fields
