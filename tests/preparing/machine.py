"""This machine for the tests of preparations: clock, reporter, and a pip that can wait."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stoker.model.event import Event
from stoker.model.plan import Folders

PROJECT = Path(__file__).parents[2]
WHEELS = PROJECT / ".cache" / "wheels"
PIP = (sys.executable, "-m", "pip")

#: A pip that notes that it runs, and goes on once it is told to. Its first argument is a folder.
WAITING_PIP = """
import os, runpy, sys, time
place = sys.argv.pop(1)
open(os.path.join(place, "runs"), "a").write("x")
while not os.path.exists(os.path.join(place, "go")):
    time.sleep(0.02)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""

_DEADLINE_SECONDS = 60.0


class ListedEvents:
    """A reporter that keeps what it gets."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events]

    @property
    def fractions(self) -> list[float]:
        return [event.fraction for event in self.events if event.fraction is not None]


class MachineClock:
    """The machine's own clock."""

    def now_seconds(self) -> float:
        return time.time()

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def waiting_pip(place: Path) -> tuple[str, ...]:
    """The argument vector of a pip that waits until there is a file ``go`` in the folder."""
    program = place / "waiting_pip.py"
    program.write_text(WAITING_PIP)
    return (sys.executable, str(program), str(place))


def index_env(wheels: Path = WHEELS) -> dict[str, str]:
    """Where pip looks: a folder of wheels, if it is there, else the index of this machine."""
    if not wheels.is_dir():
        return dict(os.environ)
    return {**os.environ, "PIP_FIND_LINKS": str(wheels), "PIP_NO_INDEX": "1"}


def folders_in(place: Path) -> Folders:
    return Folders(
        state=str(place / "state"),
        environments=str(place / "environments"),
        models=str(place / "models"),
        services=str(place / "services"),
    )


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for the world; a wait in vain ends as a failure."""
    pause, give_up_at = threading.Event(), time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, "what was waited for did not come"
        pause.wait(0.02)
