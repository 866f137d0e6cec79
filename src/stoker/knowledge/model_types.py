"""What the keys of a model's files mean: package data, typed.

Called by :mod:`stoker.knowledge.derived` where a checkpoint is classified. Loads what ships with
the package and never reads a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.model.finding import Source

_TYPES = "model_types.toml"
_METHODS = "quantization_methods.toml"
_FORMS = ("words", "letters", "numbers", "interval", "lists", "indices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A count in a config.json: under which ``names`` it may stand and between what it is sane."""

    part: str
    names: tuple[str, ...]
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A key that lists the kinds of the layers; ``form`` says how, see the data file."""

    key: str
    form: str
    needs: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    nth: str = ""
    other: str = ""
    offset: str = ""
    repeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A kind of linear attention: all keys that it ``needs``; ``alone``: they suffice."""

    kind: str
    needs: tuple[str, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTypes:
    """The whole of model_types.toml."""

    nested: tuple[str, ...]
    multimodal: tuple[str, ...]
    latent: tuple[str, ...]
    sparse: tuple[str, ...]
    counts: Mapping[str, Count]
    words: Mapping[str, str]
    layouts: tuple[Layout, ...]
    mechanisms: tuple[Mechanism, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRow:
    """One row of words by numbers; an attribute that is None fits all."""

    word: str
    type: str
    bits: int
    group: int | None = None
    strategy: str | None = None
    activation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationWords:
    """The whole of quantization_methods.toml: word by method, algorithm, type and numbers."""

    methods: Mapping[str, str]
    blocks: Mapping[str, str]
    algorithms: Mapping[str, str]
    algorithm_methods: Mapping[str, str]
    types: Mapping[str, str]
    caches: Mapping[str, str]
    names: Mapping[str, str]
    weights: tuple[WeightRow, ...]


@cache
def load_model_types() -> ModelTypes:
    """The keys of config.json by what they mean. Raises DataError."""
    data = read_toml(_TYPES)
    names = {part: _named(data, part) for part in ("nested", "multimodal", "latent", "sparse")}
    counts = [_parse_count(row) for row in data["count"]]
    return ModelTypes(
        **names,
        counts={count.part: count for count in counts},
        words=dict(data["words"]),
        layouts=tuple(_parse_layout(row) for row in data["layout"]),
        mechanisms=tuple(_parse_mechanism(row) for row in data["linear"]),
    )


def _named(data: Mapping[str, Any], part: str) -> tuple[str, ...]:
    _check(data[part], f"{_TYPES}, {part}")
    return tuple(data[part]["names"])


def _parse_count(row: Mapping[str, Any]) -> Count:
    _check(row, f"{_TYPES}, count {row['part']}")
    least = row.get("least", 1)
    return Count(part=row["part"], names=tuple(row["names"]), least=least, most=row["most"])


def _parse_layout(row: Mapping[str, Any]) -> Layout:
    _check(row, f"{_TYPES}, layout {row['key']}")
    if row["form"] not in _FORMS:
        raise DataError(f"data file {_TYPES}: {row['form']} is no form of a layout")
    return Layout(**{name: value for name, value in row.items() if name != "source"})


def _parse_mechanism(row: Mapping[str, Any]) -> Mechanism:
    _check(row, f"{_TYPES}, linear {row['kind']}")
    return Mechanism(kind=row["kind"], needs=tuple(row["needs"]), alone=row.get("alone", False))


@cache
def load_quantization_words() -> QuantizationWords:
    """The words for quantizations. Raises DataError."""
    data = read_toml(_METHODS)
    for part, table in data.items():
        if part.endswith("_source"):
            _check(table, f"{_METHODS}, {part}")
    methods: Mapping[str, Mapping[str, str]] = data["methods"]
    return QuantizationWords(
        methods={name: row["word"] for name, row in methods.items()},
        blocks={name: row["block"] for name, row in methods.items() if "block" in row},
        algorithms=data["algorithms"],
        algorithm_methods=data["algorithm_methods"],
        types=data["types"],
        caches=data["caches"],
        names=data["names"],
        weights=tuple(WeightRow(**row) for row in data["weights"]),
    )


def _check(row: Mapping[str, Any], where: str) -> None:
    if "source" not in row:
        raise DataError(f"data file {where}: no source")
    check_source(Source(**row["source"]), where=where)
