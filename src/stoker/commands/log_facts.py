"""What a log tells of its own start beside what went wrong: engine, release, settings.

Called by :mod:`stoker.commands.diagnose` for logs that come without their deployment. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stoker.diagnosis.case_tree import describe_arguments
from stoker.diagnosis.inputs import LogLine
from stoker.engines.reprs import parse_arguments
from stoker.engines.resolved import read_resolved
from stoker.knowledge.engines import load_engine_table
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain

_ARGUMENTS = "arguments"
_VERSION = "engine_version"
_IS_UP = "listening"
#: Lines of one beginning stand so near to each other.
_ONE_BEGINNING = 15
#: How a guard tells that its engine ended; the engine's last lines follow.
_IS_OVER = "; its last lines:"
#: How a start begins stands near its begin.
_MOST_LINES = 4000


def keep_last_start(lines: Sequence[LogLine], engine: str) -> tuple[LogLine, ...]:
    """The lines of the last start in a log; all of them where none is seen to begin."""
    begins = _find_begins(lines, engine)
    return tuple(lines[begins[-1] :] if begins else lines)


def drop_history(lines: Sequence[LogLine], engine: str) -> tuple[LogLine, ...]:
    """The lines from the last start on that came up; all of them where none did.

    What goes stands before them, so it can be told apart by its count.
    Where starts fail one after another, the first of them is nearest to the cause; what was before
    a start that came up is over.
    """
    begins = _find_begins(lines, engine)
    if len(begins) < 2:
        return tuple(lines)
    rows = load_engine_table(engine).log.phases
    is_up = re.compile("|".join(f"(?:{row.pattern})" for row in rows if row.phase == _IS_UP))
    ends = (*begins[1:], len(lines))
    for begin, end in reversed(list(zip(begins, ends, strict=True))):
        if any(is_up.search(line.text) for line in lines[begin:end]):
            return tuple(lines[begin:])
    return tuple(lines)


def _find_begins(lines: Sequence[LogLine], engine: str) -> list[int]:
    """Where starts begin; the first lines of one may each tell it."""
    if not engine:
        return []
    begin = re.compile(load_engine_table(engine).log.begin)
    begins: list[int] = []
    last = -_ONE_BEGINNING
    for at, line in enumerate(lines):
        if _IS_OVER in line.text:
            last = at - _ONE_BEGINNING  # whatever begins now is another start
        # What a guard quotes is indented: of a start that ended soon its beginning too.
        if not line.text.startswith(" ") and begin.search(line.text):
            if at - last >= _ONE_BEGINNING:
                begins.append(at)
            last = at
    return begins


def read_release(lines: Sequence[LogLine], engine: str) -> str:
    """The release that the engine names itself at its last start, empty where it does not."""
    table = load_engine_table(engine)
    start = keep_last_start(lines, engine)[:_MOST_LINES]
    told = read_resolved((line.text for line in start), table).values
    version = told.get(_VERSION)
    release = str(version.value).removeprefix("v") if version is not None else ""
    # A build without a version says so in the place of one.
    return "" if "unknown" in release else release


def read_settings(lines: Sequence[LogLine], engine: str, release: str) -> dict[str, Plain]:
    """The settings that the engine prints of itself at its last start, as rules name them."""
    table = load_engine_table(engine)
    settings: dict[str, Plain] = {}
    for line in keep_last_start(lines, engine)[:_MOST_LINES]:
        told = _read_arguments(line.text, table)
        if told:
            settings |= describe_arguments(told, engine=engine, release=release)
    return settings


def _read_arguments(text: str, table: EngineTable) -> Mapping[str, Plain]:
    for row in table.log.arguments:
        if found := re.search(row.pattern, text):
            return parse_arguments(found[_ARGUMENTS])
    return {}
