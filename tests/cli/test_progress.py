"""Progress on a terminal and off it."""

from __future__ import annotations

import io
import json

from stoker.cli.progress import CLEAR_LINE, JsonReporter, TextReporter
from stoker.model.event import Event, EventKind


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def phase(text: str, seconds: float = 0.0) -> Event:
    return Event(kind=EventKind.PHASE, subject="demo", text=text, data={"seconds": seconds})


def test_off_a_terminal_a_phase_is_told_once() -> None:
    stream = io.StringIO()
    reporter = TextReporter(stream)
    for seconds in (0.1, 0.2, 0.3):
        reporter.emit(phase("loading the model", seconds))
    reporter.emit(phase("listening", 0.4))
    reporter.close()
    assert stream.getvalue().splitlines() == [
        "  demo: loading the model (0 s)",
        "  demo: listening (0 s)",
    ]


def test_off_a_terminal_progress_is_told_in_tenths() -> None:
    stream = io.StringIO()
    reporter = TextReporter(stream)
    for done in range(0, 100, 3):
        text = f"{done} of 100"
        event = Event(kind=EventKind.PROGRESS, subject="x", text=text, fraction=done / 100)
        reporter.emit(event)
    assert len(stream.getvalue().splitlines()) == 10


def test_a_terminal_has_one_line_that_is_rewritten_and_goes() -> None:
    stream = Terminal()
    reporter = TextReporter(stream)
    reporter.emit(phase("loading", 1))
    reporter.emit(phase("loading", 2))
    assert "\n" not in stream.getvalue()
    reporter.emit(Event(kind=EventKind.CHANGE, subject="/etc/x", text="write"))
    assert stream.getvalue().endswith(CLEAR_LINE + "  write /etc/x\n")
    reporter.emit(phase("loading", 3))
    reporter.close()
    assert stream.getvalue().endswith(CLEAR_LINE)


def test_a_reader_that_left_does_not_stop_the_work() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    reporter = TextReporter(Gone())
    reporter.emit(phase("loading"))
    reporter.close()


def test_json_lines() -> None:
    stream = io.StringIO()
    reporter = JsonReporter(stream)
    reporter.emit(phase("loading", 1.5))
    event = json.loads(stream.getvalue())
    assert event["schema"] == "event/1"
    assert event["text"] == "loading"
