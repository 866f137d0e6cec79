"""The process table: pure readings, and what a host answers when it does not want to."""

from __future__ import annotations

import pytest

from stoker.supervisors.processes import (
    Process,
    find_descendants,
    find_family,
    parse_process,
    read_environment,
    read_process,
    read_processes,
)
from tests.fakes.host import MemoryHost


def stat_text(pid: int, *, name: str = "serve", state: str = "S", parent: int = 1) -> str:
    return f"{pid} ({name}) {state} {parent} {pid} 7 0 -1 4194560 " + "0 " * 12 + "4711 0 0\n"


def process(pid: int, parent: int, group: int, session: int = 7) -> Process:
    return Process(pid=pid, parent=parent, group=group, session=session, identity=f"{pid}:1")


def test_a_process_is_read() -> None:
    assert parse_process(stat_text(9, parent=3), 9) == Process(
        pid=9, parent=3, group=9, session=7, identity="9:4711"
    )


def test_its_name_may_hold_anything() -> None:
    assert parse_process(stat_text(9, name=") Z 1 (x)\n y"), 9) == parse_process(stat_text(9), 9)


@pytest.mark.parametrize("state", ["Z", "X"])
def test_what_has_ended_is_none(state: str) -> None:
    assert parse_process(stat_text(9, state=state), 9) is None


@pytest.mark.parametrize("text", ["", "9 (serve", "9 (serve) S 1 2 3", "what is this?"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the status line"):
        parse_process(text, 9)


def test_processes_that_go_away_or_hide_are_left_out() -> None:
    host = MemoryHost(
        {
            "/proc/uptime": "1",
            "/proc/7/stat": stat_text(7),
            "/proc/8/stat": "",
            "/proc/9/stat": stat_text(9),
            "/proc/10/environ": "",
        }
    )
    host.denied.add("/proc/9/stat")
    assert [each.pid for each in read_processes(host)] == [7]
    assert read_process(host, 11) is None


def test_the_environment_is_read_as_far_as_it_may_be() -> None:
    host = MemoryHost({"/proc/7/environ": "A=1\0B=x=y\0EMPTY=\0junk\0", "/proc/8/environ": "C=1"})
    host.denied.add("/proc/8/environ")
    assert read_environment(host, 7) == {"A": "1", "B": "x=y", "EMPTY": ""}
    assert read_environment(host, 8) == {}
    assert read_environment(host, 9) == {}


def test_descendants_are_found_at_any_depth() -> None:
    table = [process(2, 1, 2), process(3, 2, 2), process(4, 3, 4), process(5, 1, 5)]
    assert find_descendants(table, 2) == {3, 4}
    assert find_descendants(table, 5) == frozenset()


def test_a_family_is_a_group_and_its_descendants() -> None:
    leader = process(2, 1, 2)
    table = [
        leader,
        process(3, 2, 2),
        process(4, 2, 4, session=4),  # left the group
        process(5, 1, 2),  # left its parent
        process(6, 1, 2, session=8),  # another group that happens to have the number
        process(7, 1, 7),
    ]
    assert find_family(table, leader) == {"2:1", "3:1", "4:1", "5:1"}
