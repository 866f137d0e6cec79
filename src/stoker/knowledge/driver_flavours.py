"""Which flavour of NVIDIA's kernel driver a GPU needs: data.

Called by the derived facts. It looks at no machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavourRow:
    """GPUs with these numbers, both ends included, need the flavour: open or proprietary."""

    name: str
    first: str
    last: str
    needs: str
    source: Source


def find_flavour(device: str) -> FlavourRow | None:
    """The row of a device's number on the bus (``0x2bb1``); None where either flavour will do.

    Raises ValueError for what is no number.
    """
    number = int(device, 16)
    rows = load_flavours()
    return next((row for row in rows if int(row.first, 16) <= number <= int(row.last, 16)), None)


@cache
def load_flavours() -> tuple[FlavourRow, ...]:
    """The data file. Raises DataError."""
    where = "driver_flavours.toml"
    rows = structure(tuple[FlavourRow, ...], read_toml(where).get("row"), where=where)
    for row in rows:
        check_source(row.source, where=f"{where}: {row.name}")
    return rows
