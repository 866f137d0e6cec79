"""What the keys of a config.json mean for memory: package data, typed.

Called by :mod:`stoker.capacity.dimensions`. Loads what ships with the package and reads no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    blocks: tuple[str, ...]
    rotated_share: tuple[str, ...]
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
class Pattern:
    """The kinds of layers that a class has where its file lists none: ``words`` repeat.

    ``needs``: only where the file has this key. ``keys``: further defaults of its own, which
    published files leave out.
    """

    classes: tuple[str, ...]
    words: tuple[str, ...]
    source: Source
    needs: str = ""
    keys: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How many times a layer of a class attends, or how many mergers its image encoder has."""

    what: str
    classes: tuple[str, ...]
    count: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertKeys:
    """Which layers have experts, and what these work on.

    ``flags``: a list of 0 for each layer without. ``words``: a list of words, ``dense`` for one
    without. ``step``: every so many-th layer has them. ``first``: the number of the first that has.
    ``listed``: the numbers of those that have, ``unlisted`` of those that have not.
    ``needs_latent``: classes whose experts work on a narrower vector, told or not.
    ``always_shared``: classes with one shared expert, as wide as the others, that no key tells of.
    """

    flags: tuple[str, ...]
    words: tuple[str, ...]
    step: tuple[str, ...]
    first: tuple[str, ...]
    listed: tuple[str, ...]
    unlisted: tuple[str, ...]
    dense_width: tuple[str, ...]
    latent_width: tuple[str, ...]
    always_shared: tuple[str, ...]
    needs_latent: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKeys:
    """A table of words for each layer: its width for one layer, and its words."""

    width: tuple[str, ...]
    words: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRow:
    """A class of tensors, and a pattern of how files name what they leave as it was."""

    name: str
    pattern: str
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
    pattern: tuple[Pattern, ...]
    listing: Named
    times: tuple[Times, ...]
    undescribed: Keys
    experts: ExpertKeys
    tables: TableKeys
    kept: tuple[KeptRow, ...]


@cache
def load_shape_keys() -> ShapeKeys:
    """The data file. Raises DataError."""
    found = structure(ShapeKeys, read_toml(_WHERE), where=_WHERE)
    rows = [
        *((row.mechanism, row.source) for row in found.state),
        *(("pattern", row.source) for row in found.pattern),
        *((row.what, row.source) for row in found.times),
        *((row.name, row.source) for row in found.kept),
        ("heads", found.heads.source),
        ("vision", found.vision.source),
        ("ungated", found.ungated.source),
        ("beside", found.beside.source),
        ("listing", found.listing.source),
        ("undescribed", found.undescribed.source),
        ("experts", found.experts.source),
        ("tables", found.tables.source),
    ]
    for name, source in rows:
        check_source(source, where=f"{_WHERE}: {name}")
    return found
