"""Progress on stderr: one line that rewrites itself on a terminal, one line a phase elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from typing import TextIO

from stoker.cli.streams import write_or_drop
from stoker.model.document import render_line
from stoker.model.event import Event, EventKind
from stoker.model.visible import escape_json, visible_lines

CLEAR_LINE = "\r\x1b[K"
#: Told by the result itself, or too fine for a line of their own.
_QUIET = frozenset({EventKind.OBSERVED, EventKind.FINDING, EventKind.STARTED, EventKind.FINISHED})


class TextReporter:
    """Events as short lines for a person."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._last = ""
        self._is_open = False

    def emit(self, event: Event) -> None:
        """See :class:`stoker.ports.Reporter`."""
        if event.kind in _QUIET:
            return
        is_passing = event.kind in (EventKind.PHASE, EventKind.PROGRESS)
        text = visible_lines(_line(event))
        if is_passing and self._is_terminal:
            self._rewrite(text)
        elif not is_passing or self._key(event) != self._last:
            self._print(text)
        if is_passing:
            self._last = self._key(event)

    def close(self) -> None:
        """Leave no half line behind."""
        if self._is_open:
            self._write(CLEAR_LINE)
            self._is_open = False

    def _key(self, event: Event) -> str:
        """Off a terminal, a phase is told once, and a known fraction in tenths."""
        tenth = "" if event.fraction is None else int(event.fraction * 10)
        has_own_fraction = event.kind is EventKind.PROGRESS
        return f"{event.subject} {event.text if not has_own_fraction else ''} " + (
            f"{tenth}" if has_own_fraction else ""
        )

    def _rewrite(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._write(CLEAR_LINE + text[:width])
        self._is_open = True

    def _print(self, text: str) -> None:
        self.close()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        if not write_or_drop(self._stream, text):
            self._is_terminal = False  # nobody reads our progress any more; the work goes on


class JsonReporter:
    """Events as JSON lines on stderr, for programs that follow along."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def emit(self, event: Event) -> None:
        """See :class:`stoker.ports.Reporter`."""
        write_or_drop(self._stream, escape_json(render_line(_stamped(event))))

    def close(self) -> None:
        """Nothing is left half-written."""


class SilentReporter:
    """Tells nothing: for verbs whose result repeats every event."""

    def emit(self, event: Event) -> None:
        """See :class:`stoker.ports.Reporter`."""

    def close(self) -> None:
        """Nothing is left half-written."""


def _stamped(event: Event) -> Event:
    """With the time, where the one who told it had no clock."""
    return event if event.at_seconds else replace(event, at_seconds=time.time())


def _line(event: Event) -> str:
    match event.kind:
        case EventKind.PHASE:
            return f"  {event.subject}: {event.text}{_fraction(event)}{_elapsed(event)}"
        case EventKind.PROGRESS:
            return f"  {event.text}{_fraction(event)}"
        case EventKind.CHANGE:
            return f"  {event.text} {event.subject}"
        case EventKind.ACTIVATION:
            return f"  {event.subject} {event.text}"
        case EventKind.CHECK:
            return f"  check {event.subject}: {event.text}"
        case EventKind.PREPARATION:
            return f"  prepare {event.text}"
        case _:
            return f"  {event.text or event.subject}"


def _fraction(event: Event) -> str:
    return "" if event.fraction is None else f" {event.fraction:.0%}"


def _elapsed(event: Event) -> str:
    seconds = event.data.get("seconds")
    if seconds is None:
        return ""
    expected = event.data.get("expected_seconds")
    of = f" of about {expected:.0f} s" if expected else " s"
    return f" ({seconds:.0f}{of})"
