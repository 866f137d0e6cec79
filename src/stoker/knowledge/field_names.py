"""Flags of engines that are named otherwise than the fields they fill, as notes often name them.

Called by whoever explains a flag that no parser knows. The files under ``data/field_names`` are
made by a script from the published packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, read_json
from stoker.knowledge.structure import structure
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """By field: its flag, and the first and the last release whose parser says so."""

    engine: str
    source: Source
    fields: Mapping[str, tuple[str, ...]]

    def find(self, name: str) -> tuple[str, str, str] | None:
        """Flag, first and last release for a field, however it is spelled; None for no field."""
        row = self.fields.get(name.lstrip("-").replace("-", "_"))
        return (row[0], row[1], row[2]) if row else None


@cache
def load_field_names(kind: str) -> FieldNames | None:
    """The fields of an engine; None where nobody read them. Raises DataError."""
    if kind not in list_data("field_names", ".json"):
        return None
    where = f"field_names/{kind}.json"
    found = structure(FieldNames, read_json(where), where=where)
    check_source(found.source, where=where)
    if found.engine != kind or any(len(row) != 3 for row in found.fields.values()):
        raise DataError(f"{where}: describes {found.engine}, or a row is not whole")
    return found
