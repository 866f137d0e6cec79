"""Versions and ranges of engines, as rules compare them.

Called by :mod:`stoker.knowledge.conditions`. Engines number themselves in different ways
(``0.5.23``, ``b11549``, ``v0.32.0``), so a version here is just its leading numbers; what
follows them (``rc1``, ``+cu130``) does not take part.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import TypeAlias

Version: TypeAlias = tuple[int, ...]
VersionRange: TypeAlias = tuple[tuple[str, Version], ...]

#: Python itself refuses to read numbers of thousands of digits.
_MOST_DIGITS = 40
_VERSION = re.compile(r"^[A-Za-z]?(\d+(?:\.\d+)*)")
_CLAUSE = re.compile(r"^(>=|<=|==|!=|>|<)\s*([A-Za-z]?\d+(?:\.\d+)*)$")
_HOLDS: Mapping[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def parse_version(text: str) -> Version | None:
    """The leading numbers of a version, or None where there are none or one has no end."""
    found = _VERSION.match(text.strip())
    parts = found[1].split(".") if found else ()
    if not parts or max(map(len, parts)) > _MOST_DIGITS:
        return None
    return tuple(map(int, parts))


# Tables hold some hundred ranges, and a forecast with its options asks each of them many times.
@lru_cache(maxsize=4096)
def parse_version_range(text: str) -> VersionRange | None:
    """Clauses separated by commas (``>=0.5,<0.6``), or None for anything else."""
    clauses = [_CLAUSE.match(part.strip()) for part in text.split(",")]
    pairs = [(clause[1], parse_version(clause[2])) for clause in clauses if clause]
    if len(pairs) != len(clauses):
        return None
    if any(version is None for _, version in pairs):
        return None
    return tuple((sign, version) for sign, version in pairs if version is not None)


def version_is_in(version: Version, version_range: VersionRange) -> bool:
    """Whether every clause of the range holds; missing parts count as zero."""
    return all(_holds(sign, version, limit) for sign, limit in version_range)


def _holds(sign: str, version: Version, limit: Version) -> bool:
    pairs = list(zip_longest(version, limit, fillvalue=0))
    return _HOLDS[sign](tuple(left for left, _ in pairs), tuple(right for _, right in pairs))
