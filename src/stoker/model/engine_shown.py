"""The engine that a deployment would start, and one of its flags, as they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.engine_table import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEngine:
    """``stack``: the version of each component, None for what surely is not there.

    ``unknown``: why a component's version is not known. ``flags`` says in a sentence whose list of
    flags counts; ``notes`` what is odd about it.
    """

    SCHEMA: ClassVar[str] = "engine/1"

    engine: str
    environment: str
    command: str
    version: str
    stack: Mapping[str, str | None]
    unknown: Mapping[str, str] = field(default_factory=dict)
    flags: str
    flag_count: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFlag:
    """One flag of the engine. ``option`` is None for one that this release does not have.

    ``releases`` are the first and last releases that have it, in pairs; ``says`` is what is known
    beside, each a phrase; ``set_to`` are its words in the launch, empty where nobody sets it.
    """

    SCHEMA: ClassVar[str] = "engine-flag/1"

    engine: str
    version: str
    name: str
    option: Option | None
    releases: tuple[tuple[str, ...], ...]
    says: tuple[str, ...] = ()
    set_to: tuple[str, ...] = ()
