"""What kind of tensor a name is, and what becomes of it among several GPUs: package data, typed.

Called by :mod:`stoker.knowledge.derived.ranks`. Loads what ships with the package alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.model.finding import Source

_FILE = "tensor_classes.toml"
_DIVISIONS = ("tensor", "keys", "experts", "replicated", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorClass:
    """A kind of tensor, told by a ``pattern`` in the form of its name."""

    name: str
    division: str
    pattern: re.Pattern[str]


#: Tensors that no row tells of. Counted whole on each rank, so that a sum is never too small.
OTHER = TensorClass(name="other", division="replicated", pattern=re.compile(""))


@cache
def load_tensor_classes() -> tuple[TensorClass, ...]:
    """The rows in their order. Raises DataError."""
    found = []
    for row in read_toml(_FILE)["class"]:
        where = f"{_FILE}, {row['name']}"
        check_source(Source(**row["source"]), where=where)
        if row["division"] not in _DIVISIONS:
            raise DataError(f"data file {where}: {row['division']} is no division")
        pattern = re.compile(row["pattern"])
        found.append(TensorClass(name=row["name"], division=row["division"], pattern=pattern))
    return tuple(found)


def class_of(form: str) -> TensorClass:
    """The class of a tensor by the form of its name, :data:`OTHER` where no row fits."""
    rows = load_tensor_classes()
    return next((row for row in rows if row.pattern.search(form)), OTHER)
