"""What an engine decided at its start, read from its log and from its own answers.

Called for a service that runs, for a log that somebody sends, and by tests that hold a plan
against the engine. Pure: text and a table in, values out. What is not told is left out, never
guessed; lines come from a program, so their number and length are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stoker.engines.phases import read_phase
from stoker.engines.reprs import LIMIT_CHARACTERS, parse_arguments
from stoker.model.engine_log import EngineLog, ResolvedRow
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.resolved import LogNote, Resolved, ResolvedScalar, ResolvedValue

#: So many lines of one start are read; later ones are about requests.
MOST_LINES = 20_000
#: A longer line is cut, unless it holds the arguments.
_LINE_CHARACTERS = 4096
_SHOWN_CHARACTERS = 200
_MOST_NOTES = 50
_ARGUMENTS = "arguments"
#: What a log's unit means, in our own.
_FACTORS: Mapping[str, float] = {
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "ms": 1e-3, "%": 1e-2,
}  # fmt: skip
_NOTHING = frozenset({"", "None", "null", "none", "nan"})
#: What an argument says that the engine decides later.
_UNDECIDED = frozenset({"auto"})

#: For each value, for each process that told it: what each line said, in order.
_Told: TypeAlias = dict[str, dict[str, ResolvedScalar]]


@dataclass(slots=True)
class _Start:
    """What one start has told so far."""

    lines: list[str] = field(default_factory=list)
    values: dict[int, _Told] = field(default_factory=dict)
    shown: dict[int, str] = field(default_factory=dict)
    seen: dict[tuple[int, str], int] = field(default_factory=dict)
    arguments: dict[str, ResolvedValue] = field(default_factory=dict)
    notes: dict[str, LogNote] = field(default_factory=dict)


def read_resolved(lines: Iterable[str], table: EngineTable) -> Resolved:
    """Everything that the last start in these lines told. Carriage returns end a line too."""
    log = table.log
    begin, rank = re.compile(log.begin), re.compile(log.rank)
    start = _Start()
    for line in _pieces(lines):
        short = line[:_LINE_CHARACTERS]
        if begin.search(short):
            start = _Start()
        if len(start.lines) >= MOST_LINES:
            continue
        start.lines.append(short)
        found = rank.search(short)
        _hear_values(start, log, short, (found["rank"] or "").strip() if found else "")
        _hear_arguments(start, log, line)
        _hear_notes(start, log, short)
    phase = read_phase(start.lines, table)
    values = _settle(start, log)
    return Resolved(
        engine=table.kind,
        phase=phase.phase,
        title=phase.title,
        values=values,
        titles=_titles(log, values),
        notes=tuple(start.notes.values()),
    )


def read_answer(document: Plain, path: str, table: EngineTable) -> Mapping[str, ResolvedValue]:
    """What an answer of the engine's own interface at ``path`` tells, by our names."""
    rows = [row for row in table.log.answers if row.path == path]
    values: dict[str, ResolvedValue] = {}
    for row in rows:
        for name, place in row.values.items():
            told = _convert(_find(document, place), row.units.get(name, ""), table.log, name)
            if told is not None and told not in _UNDECIDED and name not in values:
                values[name] = _value(table.log, name, told, told_by=path, line=place)
    return values


def add_answers(
    resolved: Resolved, answers: Mapping[str, Mapping[str, ResolvedValue]], table: EngineTable
) -> Resolved:
    """The same with what answers tell, by their path, where the log tells nothing."""
    values = dict(resolved.values)
    for told in answers.values():
        for name, value in told.items():
            values.setdefault(name, value)
    return replace(resolved, values=_in_order(table.log, values), titles=_titles(table.log, values))


def answer_paths(table: EngineTable) -> tuple[str, ...]:
    """Where the engine can be asked, in the order of its table."""
    return tuple(dict.fromkeys(row.path for row in table.log.answers))


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from line[:LIMIT_CHARACTERS].split("\r")


def _hear_values(start: _Start, log: EngineLog, line: str, rank: str) -> None:
    for number, row in enumerate(log.resolved):
        found = re.search(row.pattern, line)
        if found is None:
            continue
        count = start.seen[number, rank] = start.seen.get((number, rank), 0) + 1
        if row.nth not in (0, count):
            continue
        for name, told in _tell(row, found, log).items():
            by_rank = start.values.setdefault(number, {}).setdefault(name, {})
            by_rank[rank] = _combine(row, by_rank.get(rank), told)
            start.shown.setdefault(number, line[:_SHOWN_CHARACTERS])


def _tell(row: ResolvedRow, found: re.Match[str], log: EngineLog) -> Mapping[str, ResolvedScalar]:
    """What one line says: groups with one name before their underscores are added up."""
    told: dict[str, ResolvedScalar] = {}
    for group, text in found.groupdict().items():
        name = group.partition("__")[0]
        value = _convert(text, row.units.get(name, ""), log, name)
        if value is not None:
            told[name] = _add(told[name], value) if name in told else value
    for name, text in row.sets.items():
        value = _convert(text, "", log, name)
        if value is not None:
            told.setdefault(name, value)
    return told


def _combine(
    row: ResolvedRow, before: ResolvedScalar | None, told: ResolvedScalar
) -> ResolvedScalar:
    if before is None or row.combine == "last":
        return told
    return _add(before, told) if row.combine == "sum" else before


def _add(one: ResolvedScalar, other: ResolvedScalar) -> ResolvedScalar:
    is_text = isinstance(one, str) or isinstance(other, str)
    return other if is_text else one + other  # type: ignore[operator]


def _hear_arguments(start: _Start, log: EngineLog, line: str) -> None:
    for row in log.arguments:
        found = re.search(row.pattern, line)
        if found is None:
            continue
        told = parse_arguments(found[_ARGUMENTS])
        for engines_name, name in row.values.items():
            value = _convert(told.get(engines_name), "", log, name)
            if value is not None and value not in _UNDECIDED:
                shown = f"{engines_name}={value}"[:_SHOWN_CHARACTERS]
                made = _value(log, name, value, told_by=_ARGUMENTS, line=shown)
                start.arguments.setdefault(name, made)


def _hear_notes(start: _Start, log: EngineLog, line: str) -> None:
    for row in log.notes:
        is_new = len(start.notes) < _MOST_NOTES and row.title not in start.notes
        if is_new and re.search(row.pattern, line):
            shown = line.strip()[:_SHOWN_CHARACTERS]
            start.notes[row.title] = LogNote(title=row.title, line=shown)


def _settle(start: _Start, log: EngineLog) -> dict[str, ResolvedValue]:
    """One value a name: of the first row that told it, then of the arguments."""
    values: dict[str, ResolvedValue] = {}
    for number in sorted(start.values):
        for name, by_rank in start.values[number].items():
            if name not in values:
                values[name] = _value(
                    log,
                    name,
                    _choose(log.kinds[name].across, by_rank),
                    line=start.shown[number].strip(),
                    by_rank=by_rank if set(by_rank) != {""} else {},
                )
    for name, value in start.arguments.items():
        values.setdefault(name, value)
    return _in_order(log, values)


def _choose(across: str, by_rank: Mapping[str, ResolvedScalar]) -> ResolvedScalar:
    told = list(by_rank.values())
    if across == "first" or any(isinstance(value, str) for value in told):
        return told[0]
    return min(told) if across == "least" else max(told)


def _value(
    log: EngineLog,
    name: str,
    value: ResolvedScalar,
    *,
    line: str,
    told_by: str = "log",
    by_rank: Mapping[str, ResolvedScalar] | None = None,
) -> ResolvedValue:
    return ResolvedValue(
        value=value,
        unit=log.kinds[name].unit,
        told_by=told_by,
        line=line,
        by_rank=dict(by_rank or {}),
    )


def _in_order(log: EngineLog, values: Mapping[str, ResolvedValue]) -> dict[str, ResolvedValue]:
    return {name: values[name] for name in log.kinds if name in values}


def _titles(log: EngineLog, values: Iterable[str]) -> dict[str, str]:
    told = set(values)
    return {name: kind.title for name, kind in log.kinds.items() if name in told}


def _convert(told: Plain, unit: str, log: EngineLog, name: str) -> ResolvedScalar | None:
    """The value in our own unit; None for nothing, and for a figure that is none."""
    kind = log.kinds[name]
    if isinstance(told, list):
        told = ",".join(str(item) for item in told)
    if told is None or isinstance(told, dict) or str(told).strip() in _NOTHING:
        return None
    if not kind.unit:
        return told if isinstance(told, bool) else str(told).strip()
    if isinstance(told, bool):
        return None
    return _figure(str(told), unit, is_whole=kind.unit in ("bytes", "tokens"))


def _figure(text: str, unit: str, *, is_whole: bool) -> int | float | None:
    try:
        figure = float(text.replace(",", "").strip())
    except ValueError:
        return None
    if not abs(figure) < float("inf"):
        return None
    figure *= _FACTORS.get(unit, 1)
    return round(figure) if is_whole or figure.is_integer() else figure


def _find(document: Plain, place: str) -> Plain:
    """What lies at ``a.0.b`` in JSON; None where nothing does."""
    found: Plain = document
    for part in place.split("."):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found
