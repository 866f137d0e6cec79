"""Logs that are rotated before a start, and lines about a service in a manager's own log."""

from __future__ import annotations

import pytest

from stoker.supervisors.logs import KEPT_COUNT, read_lines_about, rotate_log
from tests.fakes.host import Crash, MemoryHost

LOG = "/var/lib/stoker/logs/one.log"


def contents(host: MemoryHost) -> dict[str, str]:
    folder = "/var/lib/stoker/logs"
    return {name: host.read_text(f"{folder}/{name}") for name in host.list_folder(folder)}


def test_a_log_that_is_too_large_gives_way() -> None:
    host = MemoryHost({LOG: "12345"})
    rotate_log(host, LOG, largest_bytes=5)
    assert contents(host) == {"one.log": "12345"}
    rotate_log(host, LOG, largest_bytes=4)
    assert contents(host) == {"one.log.1": "12345"}
    rotate_log(host, LOG, largest_bytes=4)
    assert contents(host) == {"one.log.1": "12345"}


def test_only_so_many_are_kept() -> None:
    host = MemoryHost()
    for number in range(KEPT_COUNT + 2):
        host.put(LOG, f"log number {number}")
        rotate_log(host, LOG, largest_bytes=4)
    assert contents(host) == {
        "one.log.1": "log number 4",
        "one.log.2": "log number 3",
        "one.log.3": "log number 2",
    }


@pytest.mark.parametrize("effects", range(6))
def test_a_crash_in_the_middle_loses_nothing_but_the_oldest(effects: int) -> None:
    host = MemoryHost({LOG: "new", f"{LOG}.1": "b", f"{LOG}.2": "a"})
    left = effects

    def burn(moment: str, effect: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    host.fuse = burn
    try:
        rotate_log(host, LOG, largest_bytes=1)
    except Crash:
        host.fuse = None
        rotate_log(host, LOG, largest_bytes=1)
    assert {"new", "b"} <= set(contents(host).values())


def test_what_is_no_file_stays() -> None:
    host = MemoryHost()
    host.put_folder(LOG)
    rotate_log(host, LOG, largest_bytes=0)
    assert host.list_folder("/var/lib/stoker/logs") == ("one.log",)


def test_lines_about_a_service_are_not_about_its_namesakes() -> None:
    text = "\n".join(
        [
            "INFO spawned: 'one' with pid 7",
            "INFO exited: one-more (exit status 1)",
            "INFO exited: one (exit status 1; \x1b[31mnot expected)",
            "INFO stopped: one.two (terminated by SIGTERM)",
            "INFO gave up: one entered FATAL state",
        ]
    )
    host = MemoryHost({"/log": text})
    assert read_lines_about(host, "/log", "one", line_count=2) == (
        "INFO exited: one (exit status 1; [31mnot expected)",
        "INFO gave up: one entered FATAL state",
    )
    assert read_lines_about(host, "/log", "one", line_count=0) == ()
    assert read_lines_about(host, "/nothing", "one", line_count=9) == ()
