"""What makes a plan impossible is said when it is made, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.container import Container
from tests.lab.machine import UNIT, UNIT_PATH, Machine
from tests.lab.tree import USER, USER_ID

pytestmark = pytest.mark.timeout(200, func_only=True)

LINGER = f"/var/lib/systemd/linger/{USER}"


@pytest.fixture
def user_machine(shared_container: Container, data: Path) -> Iterator[Machine]:
    """The lab's user on a machine where that user's own systemd runs."""
    machine = Machine(shared_container, data, user=USER_ID)
    yield machine
    shared_container.run(["touch", LINGER])
    shared_container.run(["systemctl", "restart", f"user@{USER_ID}.service"])


def units_of(machine: Machine) -> str:
    return machine.shell("ls -A /etc/systemd/system | grep stoker || true")


def test_for_root(machine: Machine) -> None:
    machine.deploy()
    before = units_of(machine)

    machine.systemctl("mask", UNIT)
    error = machine.refuse(7, "plan", machine.file)
    assert f"{UNIT} is masked" in error
    assert f"systemctl unmask {UNIT}" in error
    machine.systemctl("unmask", UNIT)

    machine.write(UNIT_PATH, "[Service]\nExecStart=/bin/sleep 600\n")
    machine.systemctl("daemon-reload")
    for verb in ("plan", "apply"):
        error = machine.refuse(7, verb, machine.file)
        assert f"{UNIT} belongs to somebody else: {UNIT_PATH}" in error
    machine.shell(f"rm {UNIT_PATH}")
    machine.systemctl("daemon-reload")

    machine.systemctl("stop", "dbus.socket", "dbus.service")
    for verb in ("plan", "apply"):
        error = machine.refuse(7, verb, machine.file)
        assert "systemd cannot be reached" in error
        assert "apt install dbus" in error
        assert "service.supervisor: supervisord" in error
    assert units_of(machine) == before
    assert machine.stoker("status")["deployments"] == []


def test_for_a_user(user_machine: Machine) -> None:
    machine, manager = user_machine, f"user@{USER_ID}.service"
    machine.deploy(supervisor="systemd")
    plan = machine.stoker("plan", machine.file)
    assert "service.no-linger" not in machine.findings(plan)
    assert "service.no-boot" not in machine.findings(plan)

    machine.container.run(["rm", LINGER])
    findings = machine.findings(machine.stoker("plan", machine.file))
    assert "services end when you log out" in findings["service.no-linger"]
    assert "service.no-boot" not in findings

    machine.container.run(["chmod", "0", f"/run/user/{USER_ID}"])
    error = machine.refuse(7, "plan", machine.file)
    assert "Permission denied" in error
    assert "sudo stoker" in error

    machine.container.run(["systemctl", "stop", manager])
    error = machine.refuse(7, "plan", machine.file)
    assert "systemd cannot be reached" in error
    assert "enable-linger" in error
    assert "sudo stoker" in error
    assert not machine.shell("find ~/.config -name 'stoker-*' 2>/dev/null || true")


def test_auto_is_what_outlives_a_logout(user_machine: Machine) -> None:
    machine = user_machine
    machine.deploy()
    assert machine.stoker("plan", machine.file)["origin"]["supervisor"] == "systemd"
    machine.container.run(["rm", LINGER])
    plan = machine.stoker("plan", machine.file)
    assert plan["origin"]["supervisor"] == "supervisord"
    assert "service.no-boot" in machine.findings(plan)
