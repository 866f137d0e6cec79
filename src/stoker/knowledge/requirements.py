"""What each release of an engine was built for: the versions that it pins and that it asserts.

Called by the derived facts. Generated data from the published packages
(`scripts/read_requirements.py`); a release that was not read has no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, read_json
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_FOLDER = "stack_requirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """``pins`` are specifiers by distribution (``==2.9.1``); ``asserted`` the least versions that
    the engine itself insists on when it starts.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    asserted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """All releases of one engine that were read."""

    engine: str
    source: Source
    releases: Mapping[str, Release]


def requirement_engines() -> tuple[str, ...]:
    """The engines whose packages were read, sorted."""
    return list_data(_FOLDER, ".json")


@cache
def load_requirements(engine: str) -> Requirements | None:
    """What an engine's releases ask for; None for an engine that was not read. DataError."""
    if engine not in requirement_engines():
        return None
    where = f"{_FOLDER}/{engine}.json"
    made = structure(Requirements, read_json(where), where=where)
    check_source(made.source, where=where)
    if made.engine != engine:
        raise DataError(f"{where}: describes {made.engine}")
    return made
