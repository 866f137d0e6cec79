"""Reading one process: of this very machine, and on a machine in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.hosts.local import LocalHost
from stoker.probes.process import read_arguments, read_process
from tests.commands.boxes import Box

WORDS = ["-c", "import time; time.sleep(99)", "", "a b", "\udcff\udc80", "-1", "ü\n"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process with odd words and variables."""
    env = {"A": "", "B": "x=y\n", "C\udcff": "\udc80", "HF_TOKEN": "never-shown"}
    process = subprocess.Popen([sys.executable, *WORDS], env=env, cwd="/usr")
    try:
        host = LocalHost()
        while not read_arguments(host, process.pid)[1:]:  # the fork has not become the program yet
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_real_process_as_it_is(child: subprocess.Popen[bytes]) -> None:
    found = read_process(LocalHost(), child.pid)
    assert found.argv == (sys.executable, *WORDS)
    assert dict(found.env) == {
        "A": "", "B": "x=y\n", "C\udcff": "\udc80", "HF_TOKEN": "never-shown",
    }  # fmt: skip
    assert (found.directory, found.pid) == ("/usr", child.pid)
    assert found.executable == os.path.realpath(sys.executable)
    assert (found.elsewhere, found.is_replaced) == ("", False)
    assert found.identity.startswith(f"{child.pid}:")
    assert "never-shown" not in repr(found)


def test_a_real_zombie() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(HostError, match=f"process {process.pid} has ended and only waits"):
            read_process(LocalHost(), process.pid)
        assert read_arguments(LocalHost(), process.pid) == ()
    finally:
        process.wait()


def test_one_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="there is no process 4194305"):
        read_process(LocalHost(), 4194305)


def test_one_of_another_user() -> None:
    box = Box()
    box.serve()
    box.host.denied.add("/proc/500/environ")
    with pytest.raises(AccessDenied, match="process 500 may not be looked at"):
        read_process(box.host, 500)


def test_what_else_there_is_to_see() -> None:
    box = Box()
    box.run(500, ["x"], uid=1000, mounts="mnt:[2]", cgroup="0::/a.slice/b.service\n")
    found = read_process(box.host, 500)
    assert (found.user, found.unit) == ("ann", "b.service")
    assert found.elsewhere == "a mount namespace of its own"
