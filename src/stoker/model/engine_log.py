"""What an engine says about itself while it starts, and how that is read, as values.

Part of an engine's table (:mod:`stoker.model.engine_table`): rows of its data file. Log formats
differ between releases, so each row is one format with an example, and a new format is a new row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """A log line that tells how far a start has come.

    ``pattern`` is a regular expression searched in a line; a group named ``percent``, where there
    is one, gives the progress inside the phase. ``phase`` is a word of ours: starting,
    loading-weights, allocating, capturing, warming-up, listening, failed. ``title`` is for a
    person.
    """

    pattern: str
    phase: str
    title: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKind:
    """One thing that engines decide at their start, whatever each of them calls it.

    ``unit``: bytes, tokens, seconds or count for whole numbers and fractions, empty for a word.
    ``across`` says which one counts where the processes of one engine differ: the ``least``, the
    ``most``, or the ``first`` that was told.
    """

    title: str
    unit: str = ""
    across: str = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRow:
    """A log line that tells what the engine decided.

    Each named group of ``pattern`` is one of our values; what stands behind two underscores in
    the group's name only keeps groups apart, and their figures are added. ``units`` are the
    line's own units by value, such as GiB. ``nth``: only the so many-th such line of a process
    counts, where engines log the model and its draft alike; 0 for any. ``combine``: the ``last``
    such line counts, the ``first``, or the ``sum`` of all. ``sets`` are values that the line gives
    by being there. Rows that stand before others are believed before them.
    """

    pattern: str
    example: str
    source: Source
    units: Mapping[str, str] = field(default_factory=dict)
    nth: int = 0
    combine: str = "last"
    sets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsRow:
    """A log line that holds the engine's own arguments, as Python writes a call or a dictionary.

    The group ``arguments`` is that text. ``values`` maps the engine's names, whole paths where
    one lies inside another (``a.b``), to ours; an argument that is None tells nothing.
    """

    pattern: str
    values: Mapping[str, str]
    example: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """An answer of the engine's own interface that tells some of the same values.

    ``path`` is where it is asked for. ``values`` maps ours to places in the JSON: keys and
    indices with dots between. ``units`` as in a log line.
    """

    path: str
    values: Mapping[str, str]
    source: Source
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow:
    """A log line of a start that goes on, which an operator should hear of. ``title`` says why."""

    pattern: str
    title: str
    example: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLog:
    """How the log of an engine is read.

    ``begin`` is found in one of the first lines of each start, ``rank`` in the lines of one of
    several processes: its group ``rank`` names it. ``kinds`` are all values that rows may name.
    """

    begin: str
    rank: str
    phases: tuple[PhaseRow, ...]
    resolved: tuple[ResolvedRow, ...] = ()
    arguments: tuple[ArgumentsRow, ...] = ()
    answers: tuple[AnswerRow, ...] = ()
    notes: tuple[NoteRow, ...] = ()
    kinds: Mapping[str, ValueKind] = field(default_factory=dict)
