"""Progress from outside, on a host in memory and with a clock that the test moves."""

from __future__ import annotations

import pytest

from stoker.errors import PreparationFailed
from stoker.preparing.growth import measure_bytes, watch_growth
from stoker.preparing.tools import Tools
from tests.fakes.host import MemoryHost
from tests.preparing.machine import ListedEvents


class HandClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_seconds(self) -> float:
        return self.seconds

    def monotonic_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Child:
    """What a child writes, and the watcher of it."""

    def __init__(self, expected_bytes: int) -> None:
        self.host, self.clock, self.events = MemoryHost(), HandClock(), ListedEvents()
        self.host.make_folder("/d/work", 0o755)
        tools = Tools(host=self.host, clock=self.clock, reporter=self.events, pip=(), environ={})
        self.poll = watch_growth(
            tools,
            "/d/target",
            title="engine",
            folders=("/d/work", "/d/absent"),
            expected_bytes=expected_bytes,
            patience_seconds=60,
        )

    def write(self, name: str, size_bytes: int) -> None:
        self.host.write_file(f"/d/work/{name}", bytes(size_bytes), 0o644)
        self.clock.sleep(1)
        self.poll()


def test_it_tells_how_much_of_the_whole_is_there() -> None:
    child = Child(expected_bytes=2048)
    child.write("a", 512)
    child.write("sub/b", 1024)
    assert child.events.texts == ["engine: 512 B of 2.0 KiB", "engine: 1.5 KiB of 2.0 KiB"]
    assert child.events.fractions == [0.25, 0.75]
    assert {event.subject for event in child.events.events} == {"/d/target"}


def test_progress_never_goes_back_or_beyond_the_whole() -> None:
    child = Child(expected_bytes=1000)
    child.write("download", 900)
    child.host.remove_file("/d/work/download")
    child.write("installed", 100)
    child.write("more", 5000)
    assert child.events.fractions == [0.9, 0.9, 1.0]


def test_without_a_known_whole_there_is_no_fraction() -> None:
    child = Child(expected_bytes=0)
    child.write("a", 512)
    assert child.events.texts == ["engine: 512 B"]
    assert child.events.fractions == []


def test_a_child_that_brings_nothing_is_given_up() -> None:
    child = Child(expected_bytes=1000)
    child.write("a", 512)
    child.clock.sleep(59)
    child.poll()
    child.clock.sleep(2)
    with pytest.raises(PreparationFailed, match="engine: nothing came for 60 seconds"):
        child.poll()


def test_what_is_not_there_is_nothing() -> None:
    assert measure_bytes(MemoryHost(), "/nowhere") == 0
