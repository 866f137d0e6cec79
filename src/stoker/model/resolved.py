"""What an engine resolved at its start, as it says itself: a plan is held against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

#: Whole numbers, fractions, words and yes or no; nothing nested.
ResolvedScalar = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedValue:
    """One value. ``unit`` is bytes, tokens, seconds or count, empty for a word.

    ``told_by`` is ``log``, ``arguments`` or the path of an answer. ``by_rank`` are the values of
    the engine's processes where several told one (``TP0``); ``value`` is the one that counts.
    ``line`` is the log line or the engine's own name for it, cut to a few words.
    """

    value: ResolvedScalar
    unit: str = ""
    told_by: str = "log"
    line: str = ""
    by_rank: Mapping[str, ResolvedScalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNote:
    """A line of the log that an operator should hear of, and why."""

    title: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Everything that one start of an engine told. ``values`` by our names.

    ``phase`` is how far the start came: our word, as in the engine's table. ``titles`` are the
    values' names for a person. ``deployment`` is its name, and ``is_running`` whether it runs now,
    so that this is its present start and not only its last; empty and None for a log in a file.
    """

    SCHEMA: ClassVar[str] = "resolved/1"

    engine: str
    phase: str
    title: str
    values: Mapping[str, ResolvedValue] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[LogNote, ...] = ()
    deployment: str = ""
    is_running: bool | None = None
