"""kill -9 of what runs: the truth is told, and the next verb puts it right."""

from __future__ import annotations

import pytest

from tests.system.processes import kill
from tests.system.runner import Stoker, wait_until


def test_killed_engine_comes_back_verified_by_its_guard(running: Stoker, running_file: str) -> None:
    """Ready means verified, and that was another process."""
    (first,) = running.engines()
    (guard,) = running.guards()
    kill(first.pid)
    wait_until(lambda: running.status()["pid"] not in (0, guard.pid))
    wait_until(lambda: running.status()["verified"])
    one = running.status()
    assert (one["phase"], one["pid"]) == ("ready", running.guards()[0].pid)
    assert running.engines()[0].pid != first.pid
    assert running.succeed("apply", running_file).stdout.count("nothing changed") == 1


def test_a_killed_guard_takes_its_engine_along(running: Stoker) -> None:
    """And both come back: nothing may keep a GPU that nobody watches."""
    (engine,) = running.engines()
    (guard,) = running.guards()
    kill(guard.pid)
    wait_until(lambda: engine.pid not in {each.pid for each in running.engines()})
    wait_until(lambda: running.status()["verified"])
    assert running.status()["pid"] != guard.pid
    assert len(running.engines()) == 1


@pytest.mark.parametrize("verb", ["apply", "down"])
def test_killed_supervisord(running: Stoker, running_file: str, *, verb: str) -> None:
    """It leaves an engine behind that nobody holds."""
    before = running.look()
    (daemon,) = running.daemons()
    (orphan,) = running.guards()
    left = {process.pid for process in running.stamped()}
    kill(daemon.pid)
    wait_until(lambda: not running.daemons())
    one = running.status()
    assert (one["phase"], one["verified"], one["pid"]) == ("unknown", False, orphan.pid)
    assert f"process {orphan.pid} was left behind" in one["detail"]
    running.refuse(2, "verify")

    running.succeed(verb, *([running_file] if verb == "apply" else []))
    assert not left & {process.pid for process in running.stamped()}
    if verb == "apply":
        assert running.look() == before
        assert running.status()["verified"]
    else:
        assert not running.stamped()
        assert not running.daemons()


def test_both_killed_and_started_again(running: Stoker) -> None:
    """As after a power cut: files are there, nothing runs."""
    before = running.look()
    running.close()
    one = running.status()
    assert (one["phase"], one["verified"], one["pid"]) == ("stopped", False, 0)
    running.succeed("start")
    assert running.look() == before
