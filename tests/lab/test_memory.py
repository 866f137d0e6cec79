"""The kernel ends an engine for want of memory: another one is started, and verified again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.container import find_hierarchies
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


#: A unit's own group can be limited where the one hierarchy of version 2 has this controller.
CONTROLLERS = find_hierarchies()[-1] / "cgroup.controllers"
IS_LIMITED = CONTROLLERS.exists() and "memory" in CONTROLLERS.read_text().split()


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


@pytest.mark.skipif(
    not IS_LIMITED,
    reason="systemd sees no want of memory here: control groups of version 1 have that controller",
)
@pytest.mark.timeout(200, func_only=True)
def test_what_is_left_of_it_is_ended_with_it(machine: Machine) -> None:
    """OOMPolicy=kill: the kernel ends the whole group, guard and all, and systemd says why."""
    machine.install_engine("good")
    machine.deploy(engine=OBEDIENT)
    machine.stoker("apply", machine.file)
    before = machine.status()["pid"]
    assert machine.systemctl("show", "--property=OOMPolicy", UNIT) == "OOMPolicy=kill"
    group = machine.systemctl("show", "--property=ControlGroup", "--value", UNIT)
    assert machine.shell('cat "/sys/fs/cgroup$1/memory.oom.group"', group) == "1\n"
    with little_memory(machine):
        machine.order("eat")
        eventually(lambda: restarts(machine) > 0)
        machine.order("good")
    eventually(lambda: machine.status()["phase"] == "ready", machine.status)
    assert machine.status()["pid"] != before
    lines = machine.stoker("logs", "--journal")["lines"]
    assert any("Failed with result 'oom-kill'" in line for line in lines), lines


def restarts(machine: Machine) -> int:
    return int(machine.systemctl("show", "--property=NRestarts", "--value", UNIT))
