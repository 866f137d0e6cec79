"""What a repair never does without its owner's consent, as data.

Called by :mod:`stoker.diagnosis.repair`. Code of others, open doors, paths and loader variables are
withheld from notes already, and those rows hold here too.
"""

from __future__ import annotations

from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.notes import Consent, load_note_forms
from stoker.knowledge.structure import structure

_FILE = "repair_consents.toml"


@cache
def load_repair_consents() -> tuple[Consent, ...]:
    """All rows, those of repairs first. Raises DataError."""
    rows = structure(tuple[Consent, ...], read_toml(_FILE).get("consent"), where=_FILE)
    for row in rows:
        check_source(row.source, where=f"{_FILE}: {row.id}")
    return (*rows, *load_note_forms().consent)
