"""How engines name their parallel sizes, and what must come out even: package data, typed.

Called by :mod:`stoker.knowledge.derived.parallel`. Loads what ships with the package; the checks
that the rows name are functions of :mod:`stoker.knowledge.derived.divisions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.facts import Plain
from stoker.model.finding import Source

_WHERE = "parallel.toml"
BLOCK, GROUP = "block", "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The share of a GPU's memory that weights may well take, and the most that they can.

    ``whole``: files of more than this share of all the memory surely do not fit.
    """

    share: float
    most: float
    whole: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFlags:
    """How one engine names the sizes, without dashes; empty for what it does not have.

    ``attention``: groups of attention within the tensor ranks; with ``attention_switch``,
    ``replicas`` counts such groups. ``expert`` is a size, ``expert_switch`` a bare flag that gives
    each expert whole to one rank. ``spreads_replicas``: experts are divided over all copies.
    """

    tensor: str
    pipeline: str
    replicas: str
    replicas_here: str = ""
    nodes: str
    expert: str = ""
    expert_switch: str = ""
    attention: str = ""
    attention_switch: str = ""
    spreads_replicas: bool = False
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One thing that must come out even.

    ``multiple`` is a number, or the word for one of the quantization's, and then ``usual`` is the
    largest that is in use; ``experts`` None is any model. Without ``certain`` it makes a size
    doubtful, not impossible.
    """

    engine: str
    check: str
    multiple: int | str = 1
    usual: int = 1
    quantizations: tuple[str, ...] = ()
    experts: bool | None = None
    versions: str = ""
    certain: bool = False
    source: Source

    def is_about(self, release: str) -> bool:
        """Whether it holds for a release; for one without numbers it does."""
        wanted = parse_version_range(self.versions) if self.versions else None
        version = parse_version(release)
        return wanted is None or version is None or version_is_in(version, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelTable:
    """All of it."""

    memory: Room
    engine: Mapping[str, SizeFlags]
    constraints: tuple[Constraint, ...]


@cache
def load_parallel() -> ParallelTable:
    """The data file. Raises DataError."""
    data = read_toml(_WHERE)
    rows = tuple(
        _parse_constraint(row, f"{_WHERE}: constraint {n + 1}")
        for n, row in enumerate(data.pop("constraint"))
    )
    table = structure(ParallelTable, {**data, "constraints": rows}, where=_WHERE)
    sources = (table.memory.source, *(flags.source for flags in table.engine.values()))
    for source in sources:
        check_source(source, where=_WHERE)
    return table


def _parse_constraint(row: Mapping[str, Plain], where: str) -> Constraint:
    # A union takes its first kind of value; the words for the quantization's own are the second.
    multiple = row.get("multiple", 1)
    made = structure(Constraint, {**row, "multiple": 1}, where=where)
    is_word = multiple in (BLOCK, GROUP)
    if not is_word and (not isinstance(multiple, int) or multiple < 1):
        raise DataError(f"{where}: multiple is a number, {BLOCK} or {GROUP}")
    check_source(made.source, where=where)
    if made.certain and made.source.kind == "inferred":
        raise DataError(f"{where}: what is only inferred is not certain")
    return replace(made, multiple=multiple)
