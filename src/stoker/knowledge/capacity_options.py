"""Ways to more tokens, by engine and release: package data, typed.

Called by :mod:`stoker.capacity.options`. Loads what ships with the package; what an option gains
is predicted and stands nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.facts import Plain
from stoker.model.finding import Source

_WHERE = "capacity/options.toml"
#: Stands for the new value among the keys that an option sets.
VALUE = "@value"
#: Stands for the context that goes with it, of all requests together.
CONTEXT = "@context"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionBounds:
    """What must stay free on a GPU, and which gains and shares are worth a line."""

    least_free_mib: int
    least_gain: float
    freed_share: float
    most_share: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One change of a deployment; see the data file for the columns."""

    id: str
    engine: str
    change: str
    title: str
    cost: str
    sets: Mapping[str, Plain]
    source: Source
    versions: str = ">=0"
    values: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    frees: bool = False
    risk: str = ""

    def holds_for(self, release: str) -> bool:
        """Whether this release has it; one without numbers is taken as the newest."""
        version, wanted = parse_version(release), parse_version_range(self.versions)
        if wanted is None:
            raise DataError(f"{_WHERE}: {self.versions} is no range of versions")
        return version_is_in(version or _NEWEST, wanted)


_NEWEST = (1 << 30,)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTable:
    """The whole of options.toml."""

    bounds: OptionBounds
    option: tuple[OptionRow, ...] = field(default=())

    def find(self, engine: str, release: str) -> tuple[OptionRow, ...]:
        """What this release of an engine has."""
        rows = (row for row in self.option if row.engine == engine)
        return tuple(row for row in rows if row.holds_for(release))


@cache
def load_options() -> OptionTable:
    """The table. Raises DataError."""
    table = structure(OptionTable, read_toml(_WHERE), where=_WHERE)
    check_source(table.bounds.source, where=f"{_WHERE}: bounds")
    for row in table.option:
        check_source(row.source, where=f"{_WHERE}: {row.engine} {row.id}")
    return table
