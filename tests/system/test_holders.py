"""A server that somebody started by hand holds the port: it is named, and ended before a start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.hosts.worlds import is_running
from tests.system.runner import NAME, Stoker, ask

#: A launcher whose child listens, as servers with workers do.
SERVER = """
import os, socket, sys, time
if os.fork() == 0:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print(os.getpid(), flush=True)
time.sleep(600)
"""


class Launcher:
    """It, and the child that holds the port."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SERVER, str(port)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.listener = int(self.process.stdout.readline())


@pytest.fixture
def launcher(port: int) -> Iterator[Launcher]:
    found = Launcher(port)
    yield found
    with contextlib.suppress(ProcessLookupError):  # a test may have ended all of it
        os.killpg(found.process.pid, signal.SIGKILL)
    found.process.communicate()


def test_the_holder_of_the_port_is_ended_as_the_plan_shows(
    stoker: Stoker, small: str, launcher: Launcher
) -> None:
    blocked = stoker.refuse(3, "apply", small)
    assert f"--end-holders {launcher.listener}" in blocked
    assert is_running(launcher.listener)

    saved = str(stoker.place / "plan.json")
    option = ("--end-holders", str(launcher.listener))
    shown = stoker.succeed("plan", small, *option, "--out", saved).stdout
    assert f"end-holders {NAME}" in shown
    assert f"(process {launcher.listener} of" in shown
    assert "a roll-back cannot bring back what is ended" in shown
    assert is_running(launcher.listener)

    assert "is a saved plan" in stoker.refuse(2, "apply", saved, *option)
    stoker.succeed("apply", saved)
    assert not is_running(launcher.listener)
    assert launcher.process.poll() is None, "who does not hold anything is left alone"
    one = stoker.status()
    assert one["verified"]
    assert ask(one["url"])[0] == 200


def test_a_plan_whose_holder_is_gone_is_stale(
    stoker: Stoker, small: str, launcher: Launcher
) -> None:
    saved = str(stoker.place / "plan.json")
    stoker.succeed("plan", small, "--end-holders", str(launcher.listener), "--out", saved)
    launcher.process.kill()
    launcher.process.wait()
    subprocess.run(["kill", "-9", str(launcher.listener)], check=True)
    assert f"there is no process {launcher.listener}" in stoker.refuse(3, "apply", saved)


@pytest.mark.parametrize(
    ("pids", "says"),
    [
        ("1", "what the whole machine or container runs in"),
        ("4194304", "there is no process 4194304"),
        ("12,x", "`x` is no process"),
    ],
)
def test_nobody_else_is_ended(stoker: Stoker, small: str, pids: str, says: str) -> None:
    assert says in stoker.refuse(2, "apply", small, "--end-holders", pids)
    assert not stoker.stamped()


def test_whoever_holds_nothing_is_refused(stoker: Stoker, small: str, launcher: Launcher) -> None:
    error = stoker.refuse(2, "up", small, "--end-holders", str(launcher.process.pid))
    assert "holds neither the GPUs nor the port of small" in error
    assert is_running(launcher.listener)
