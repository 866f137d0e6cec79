"""The real command under the container's systemd, with the real engine and model."""

from __future__ import annotations

import pytest

from tests.lab.machine import UNIT, Machine, eventually


@pytest.mark.timeout(300, func_only=True)
def test_from_the_file_over_a_reboot_to_down(machine: Machine) -> None:
    machine.deploy(on_boot=True)
    plan = machine.stoker("plan", machine.file)
    assert plan["origin"]["supervisor"] == "systemd", "it is what auto means for root here"
    applied = machine.stoker("apply", machine.file)
    assert applied["verified"] is True
    assert machine.systemctl("is-active", UNIT) == "active"
    assert machine.systemctl("is-enabled", UNIT) == "enabled"
    assert machine.systemctl("show", "--property=Type", UNIT) == "Type=notify"
    assert machine.stoker("plan", machine.file)["changes"] == []
    assert machine.stoker("apply", machine.file)["changed"] is False
    first = machine.status()
    assert (first["phase"], first["drift"]) == ("ready", "")
    machine.container.reboot()
    eventually(lambda: machine.status()["phase"] == "ready", machine.status)
    second = machine.status()
    assert second["verified"] is True, "its guard has tried it"
    assert (second["generation"], second["drift"]) == (first["generation"], "")
    messages = machine.stoker("logs", "--journal")["lines"]
    assert any("Started" in line for line in messages), messages
    machine.stoker("stop")
    assert machine.systemctl("is-active", UNIT) == "inactive"
    machine.stoker("down")
    assert machine.systemctl("show", "--property=LoadState", UNIT) == "LoadState=not-found"
    assert machine.stoker("status")["deployments"] == []
