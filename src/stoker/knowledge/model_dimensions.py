"""What the keys of a config.json mean for memory: package data, typed.

Called by :mod:`stoker.capacity.dimensions`. Loads what ships with the package and reads no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/shapes.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKeys:
    """Where a mechanism of linear attention says its sizes, and what its convolution spans."""

    mechanism: str
    conv: str
    heads: tuple[str, ...]
    key_heads: tuple[str, ...]
    key_width: tuple[str, ...]
    value_width: tuple[str, ...]
    conv_tokens: tuple[str, ...]
    number_type: tuple[str, ...]
    source: Source
    gated_queries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadKeys:
    """Where heads that differ from the others are told of."""

    full_kv_heads: tuple[str, ...]
    full_width: tuple[str, ...]
    sliding_kv_heads: tuple[str, ...]
    sliding_width: tuple[str, ...]
    sliding_value_width: tuple[str, ...]
    index_width: tuple[str, ...]
    query_latent_width: tuple[str, ...]
    nope_width: tuple[str, ...]
    shared_layers: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionKeys:
    """Where the image encoder says its sizes."""

    tables: tuple[str, ...]
    layers: tuple[str, ...]
    hidden_width: tuple[str, ...]
    intermediate_width: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Some classes of models."""

    classes: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Some keys of a config.json."""

    keys: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeKeys:
    """The whole of shapes.toml."""

    state: tuple[StateKeys, ...]
    heads: HeadKeys
    vision: VisionKeys
    ungated: Named
    beside: Keys


@cache
def load_shape_keys() -> ShapeKeys:
    """The data file. Raises DataError."""
    found = structure(ShapeKeys, read_toml(_WHERE), where=_WHERE)
    rows = [(row.mechanism, row.source) for row in found.state]
    parts = (found.heads, found.vision, found.ungated, found.beside)
    for name, source in [*rows, *((type(part).__name__, part.source) for part in parts)]:
        check_source(source, where=f"{_WHERE}: {name}")
    return found
