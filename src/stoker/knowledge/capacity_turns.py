"""At which releases of an engine its arithmetic of memory changes: for a release nobody knows.

Called by :mod:`stoker.capacity.predict`. Read from the ranges of the rules themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from stoker.knowledge.datafiles import read_toml
from stoker.knowledge.versions import parse_version

_BOUND = re.compile(r"[<>]=?\s*(\d+(?:\.\d+)*)")
#: Before every release.
_FIRST = "0"


@cache
def list_turns(engine: str) -> tuple[str, ...]:
    """Releases at which some rule begins, in order; before them one that is older than all."""
    ranges = _list_ranges(read_toml(f"capacity/{engine}.toml"))
    found = {bound for text in ranges for bound in _BOUND.findall(text)}
    return (_FIRST, *sorted(found - {_FIRST}, key=lambda each: parse_version(each) or ()))


def _list_ranges(value: object) -> Iterator[str]:
    """All ranges of releases in a table, however deep."""
    if isinstance(value, Mapping):
        versions = value.get("versions")
        if isinstance(versions, str):
            yield versions
        for each in value.values():
            yield from _list_ranges(each)
    elif isinstance(value, list):
        for each in value:
            yield from _list_ranges(each)
