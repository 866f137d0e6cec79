"""The kernel ends an engine for want of memory: another one is started, and verified again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.machine import OBEDIENT, UNIT, UNIT_PATH, Machine, eventually

LIMIT_BYTES = 200 << 20
#: A machine with a mixed layout of control groups limits memory here, where no container sees it.
OLD_HIERARCHY = Path("/sys/fs/cgroup/memory")


@contextmanager
def little_memory(machine: Machine) -> Iterator[Path]:
    """Let the kernel allow the engine no more than this; with the file that says so."""
    if OLD_HIERARCHY.is_dir():
        group = OLD_HIERARCHY / f"lab-{machine.container.name}"
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        (group / "cgroup.procs").write_text(str(machine.container.find_pid(engine(machine))))
        yield group / "memory.oom_control"
        eventually(lambda: (group / "cgroup.procs").read_text() == "")
        group.rmdir()
    else:
        machine.write(f"{UNIT_PATH}.d/memory.conf", f"[Service]\nMemoryMax={LIMIT_BYTES}\n")
        machine.systemctl("daemon-reload")
        yield Path(UNIT_PATH)


def engine(machine: Machine) -> int:
    """The pid of the engine's process in the container: what the guard has started."""
    script = (
        'for pid in $(cat "/proc/$1/task/$1/children"); do '
        'if grep -q tests.lab.engine "/proc/$pid/cmdline"; then echo "$pid"; fi; done'
    )
    return int(machine.shell(script, str(machine.status()["pid"])))


@pytest.mark.timeout(200, func_only=True)
def test_an_engine_without_memory_is_replaced(machine: Machine) -> None:
    machine.install_engine("good")
    machine.deploy(engine=OBEDIENT)
    machine.stoker("apply", machine.file)
    first, pid = machine.status(), engine(machine)
    with little_memory(machine) as told:
        machine.order("eat")
        if OLD_HIERARCHY.is_dir():
            eventually(lambda: "oom_kill 1" in told.read_text(), told.read_text)
        eventually(lambda: restarts(machine) > 0)
        machine.order("good")
    eventually(lambda: machine.status()["phase"] == "ready", machine.status)
    assert engine(machine) != pid
    assert machine.status()["generation"] == first["generation"]
    words = " ".join(machine.stoker("logs")["lines"] + machine.stoker("logs", "--journal")["lines"])
    assert "SIGKILL" in words or "oom-kill" in words, words


def restarts(machine: Machine) -> int:
    return int(machine.systemctl("show", "--property=NRestarts", "--value", UNIT))
