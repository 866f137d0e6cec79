"""kill -9 of what runs: the truth is told, and the next verb puts it right."""

from __future__ import annotations

import pytest

from tests.system.processes import kill
from tests.system.runner import NAME, Stoker, wait_until


def test_killed_engine_comes_back_unverified(running: Stoker, running_file: str) -> None:
    """Ready means verified, and that was another process."""
    (first,) = running.engines()
    kill(first.pid)
    wait_until(lambda: running.status()["phase"] == "running")
    one = running.status()
    assert (one["phase"], one["verified"]) == ("running", False)
    assert one["pid"] != first.pid
    wait_until(lambda: running.look().published)

    planned = running.succeed("plan", running_file).stdout
    assert f"> verify {NAME}" in planned
    assert "> restart" not in planned
    running.succeed("apply", running_file)
    again = running.status()
    assert (again["phase"], again["verified"], again["pid"]) == ("ready", True, one["pid"])


@pytest.mark.parametrize("verb", ["apply", "down"])
def test_killed_supervisord(running: Stoker, running_file: str, *, verb: str) -> None:
    """It leaves an engine behind that nobody holds."""
    before = running.look()
    (daemon,) = running.daemons()
    (orphan,) = running.engines()
    kill(daemon.pid)
    wait_until(lambda: not running.daemons())
    one = running.status()
    assert (one["phase"], one["verified"], one["pid"]) == ("unknown", False, orphan.pid)
    assert f"process {orphan.pid} was left behind" in one["detail"]
    running.refuse(2, "verify")

    running.succeed(verb, *([running_file] if verb == "apply" else []))
    assert orphan.pid not in {engine.pid for engine in running.engines()}
    if verb == "apply":
        assert running.look() == before
        assert running.status()["verified"]
    else:
        assert not running.engines()
        assert not running.daemons()


def test_both_killed_and_started_again(running: Stoker) -> None:
    """As after a power cut: files are there, nothing runs."""
    before = running.look()
    running.close()
    one = running.status()
    assert (one["phase"], one["verified"], one["pid"]) == ("stopped", False, 0)
    running.succeed("start")
    assert running.look() == before
