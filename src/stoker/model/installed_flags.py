"""The flags of an engine that is installed on a host, as its own parser told them.

Kept in the state folder, for asking the parser takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.model.engine_table import FlagCatalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """A file that an answer rests on; another size or time makes the answer an old one."""

    path: str
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFlags:
    """``key`` is the digest of the question; ``seconds`` is how long the answer took."""

    SCHEMA: ClassVar[str] = "engine-flags/1"

    key: str
    catalogue: FlagCatalogue
    files: tuple[FileMark, ...]
    seconds: float
