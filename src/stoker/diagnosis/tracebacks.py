"""Python's tracebacks in a log: chains of exceptions, each process for itself.

Called by :mod:`stoker.diagnosis.diagnose`. Pure. Of a chain Python prints the first exception
first, whichever words stand between two of them; the last one is what most people paste.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stoker.diagnosis.inputs import LogLine

_HEADER = "Traceback (most recent call last)"
_LINKS = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)
#: What an engine's own log puts before each line of a trace.
_LEVEL = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]{1,200}\] ?)?"
)
#: Of a group of exceptions every line is set off by a bar.
_BAR = re.compile(r" {2,}\| (?=Traceback|  |[\w.]+(?:Error|Exception|Group)\b)")
_FRAME = re.compile(
    r'\s*File "(?P<path>[^"]{1,1024})"(?:, line (?P<line>\d{1,9}))?, in (?P<name>.+)'
)
_RAISED = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(?P<message>.*))?$")
#: How the name of an exception ends that is not written as classes are.
_ENDS = ("error", "exception", "exit", "interrupt", "warning", "timeout")
_MOST_FRAMES = 200
_MOST_CHAINS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a call stood. ``line_number`` is 0 where it was not told."""

    path: str
    name: str
    line: LogLine
    line_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """One exception. ``line`` is that of the log which names it; ``frames`` end where it was
    raised."""

    kind: str
    message: str
    line: LogLine
    frames: tuple[Frame, ...] = ()

    @property
    def text(self) -> str:
        """As Python prints it."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Exceptions of one process that followed from one another, the first one first."""

    raised: tuple[Raised, ...]

    @property
    def first(self) -> Raised:
        """The cause of the others."""
        return self.raised[0]


@dataclass(slots=True)
class _Process:
    """Where the lines of one process have come to. ``is_open``: a trace has begun."""

    raised: list[Raised] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    is_open: bool = False
    is_linked: bool = False
    indent: int = 0


def find_chains(lines: Sequence[LogLine]) -> tuple[Chain, ...]:
    """All chains, in the order in which their first exceptions stand in the log."""
    processes: dict[tuple[str, str], _Process] = {}
    found: list[Chain] = []
    for line in lines:
        process = processes.setdefault((line.origin, line.rank), _Process())
        found.extend(_read(process, line))
        if len(found) >= _MOST_CHAINS:
            break
    for process in processes.values():
        found.extend(_end(process))
    order = {id(line): at for at, line in enumerate(lines)}
    return tuple(sorted(found, key=lambda chain: order.get(id(chain.first.line), 0)))


def strip_level(text: str) -> str:
    """A line of a trace without what the engine's log puts before it."""
    if found := _LEVEL.match(text):
        text = text[found.end() :]
    if found := _BAR.match(text):
        text = text[found.end() :]
    return text


def _read(process: _Process, line: LogLine) -> Iterator[Chain]:
    """Take one line; a chain that is over by it."""
    text = strip_level(line.text)
    if _HEADER in text:
        if not process.is_linked:
            yield from _end(process)
        _open(process, indent=len(text) - len(text.lstrip()))
    elif frame := _FRAME.match(text):
        if not process.is_open:
            if not process.is_linked:
                yield from _end(process)
            # Its head was cut off, and with it maybe a margin that all of it has.
            _open(process, indent=len(text) - len(text.lstrip()))
        if len(process.frames) < _MOST_FRAMES:
            process.frames.append(_make_frame(frame, line))
    elif process.is_open:
        _read_inside(process, text, line)
    elif any(link in text for link in _LINKS):
        process.is_linked = bool(process.raised)
    elif text.strip() and process.raised and not process.is_linked:
        yield from _end(process)


def _open(process: _Process, *, indent: int) -> None:
    process.is_open, process.is_linked, process.indent = True, False, indent
    process.frames = []


def _read_inside(process: _Process, text: str, line: LogLine) -> None:
    """A line of code, or the one that names the exception: it stands as far left as the trace."""
    bare = text.strip()
    if not bare or len(text) - len(text.lstrip()) > process.indent:
        return
    found = _RAISED.match(bare)
    if found is not None and _is_name(found["type"], is_traced=bool(process.frames)):
        raised = Raised(
            kind=found["type"],
            message=(found["message"] or "").strip(),
            line=line,
            frames=tuple(process.frames),
        )
        process.raised.append(raised)
        process.is_open, process.frames = False, []


def _is_name(name: str, *, is_traced: bool) -> bool:
    """Behind calls a class that is named like one is enough; a level of a log is none."""
    last = name.rpartition(".")[2]
    if last.isupper():
        return False
    return last.lower().endswith(_ENDS) or (is_traced and last[:1].isupper())


def _end(process: _Process) -> Iterator[Chain]:
    if process.raised:
        yield Chain(raised=tuple(process.raised))
    process.raised, process.is_linked = [], False


def _make_frame(found: re.Match[str], line: LogLine) -> Frame:
    return Frame(
        path=found["path"],
        name=found["name"].strip(),
        line=line,
        line_number=int(found["line"] or 0),
    )
