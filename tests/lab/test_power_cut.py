"""The power goes off in the middle of an apply: what systemd does at boot, and the next Stoker."""

from __future__ import annotations

import pytest

from tests.lab.machine import OBEDIENT, UNIT, UNIT_PATH, Machine, eventually

pytestmark = pytest.mark.timeout(200, func_only=True)


def cut_power_while_it_loads(machine: Machine) -> None:
    machine.order("load")
    with machine.begin("apply", machine.file):
        eventually(lambda: machine.systemctl("is-active", UNIT) == "activating")
        machine.container.run(["sync"])
        machine.container.cut_power()
    machine.container.start()


def test_a_first_apply_is_taken_back(machine: Machine) -> None:
    machine.install_engine("load")
    machine.deploy(engine=OBEDIENT)
    cut_power_while_it_loads(machine)
    eventually(lambda: machine.systemctl("is-active", UNIT) == "activating")
    assert machine.stoker("status")["interrupted"], "systemd goes on with what it found"
    error = machine.refuse(2, "stop")
    assert "no deployment" in error
    assert machine.systemctl("show", "--property=LoadState", UNIT) == "LoadState=not-found"
    assert machine.shell("ls /etc/systemd/system/multi-user.target.wants").count("stoker-") == 0
    machine.order("good")
    assert machine.stoker("apply", machine.file)["verified"] is True


def test_a_later_apply_is_taken_back_to_what_was_verified(machine: Machine) -> None:
    machine.install_engine("good")
    machine.deploy(engine=OBEDIENT)
    machine.stoker("apply", machine.file)
    first, unit = machine.status(), machine.shell(f"cat {UNIT_PATH}")
    machine.deploy(engine=OBEDIENT.replace("{kind", "{env: {MODE: new}, kind"))
    cut_power_while_it_loads(machine)
    machine.order("good")
    machine.stoker("start")
    second = machine.status()
    assert (second["phase"], second["generation"]) == ("ready", first["generation"])
    assert second["drift"] == ""
    assert machine.shell(f"cat {UNIT_PATH}") == unit
    assert machine.stoker("status")["interrupted"] == []
