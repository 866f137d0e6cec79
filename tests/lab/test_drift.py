"""What differs from what was applied is told by status and plan, and mended by apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.lab.machine import OBEDIENT, UNIT, UNIT_PATH, Machine

pytestmark = pytest.mark.timeout(300, func_only=True)

DROP_IN = f"{UNIT_PATH}.d/memory.conf"


def kinds(plan: Any) -> list[str]:
    return [each["kind"] for each in plan["activations"]]


def mend(machine: Machine, expected: Sequence[str]) -> Any:
    """Plan, apply, and see that nothing is left to do; the plan."""
    plan = machine.stoker("plan", machine.file)
    assert kinds(plan) == list(expected)
    machine.stoker("apply", machine.file)
    after = machine.stoker("plan", machine.file)
    assert (after["changes"], after["activations"]) == ([], [])
    assert machine.status()["phase"] == "ready"
    return plan


def test_in_each_of_the_places(machine: Machine) -> None:
    machine.install_engine("good")
    machine.deploy(engine=OBEDIENT)
    machine.stoker("apply", machine.file)
    process = machine.status()["pid"]

    # The file differs from what was planned.
    machine.shell(f"sed -i s/^Restart=.*/Restart=no/ {UNIT_PATH}")
    drift = machine.status()["drift"]
    assert f"{UNIT_PATH} was edited" in drift
    assert "systemd has not read" in drift
    assert "`stoker start small` puts it right" in drift
    plan = mend(machine, ["reload"])
    (change,) = plan["changes"]
    assert (change["path"], "was edited" in change["reasons"][0]) == (UNIT_PATH, True)

    # What systemd has read differs from the file, which was put back together with its old time,
    # so that systemd itself sees nothing.
    machine.shell(
        f"cp -p {UNIT_PATH} /root/unit; sed -i s/^RestartSec=.*/RestartSec=9/ {UNIT_PATH}"
    )
    machine.systemctl("daemon-reload")
    machine.shell(f"cp -p /root/unit {UNIT_PATH}")
    assert machine.systemctl("show", "--property=NeedDaemonReload", UNIT).endswith("=no")
    assert machine.systemctl("show", "--property=RestartUSec", UNIT) == "RestartUSec=9s"
    assert "systemd has not read" in machine.status()["drift"]
    plan = mend(machine, ["reload"])
    assert (plan["changes"], machine.status()["drift"]) == ([], "")
    assert machine.systemctl("show", "--property=RestartUSec", UNIT) == "RestartUSec=1s"
    assert machine.status()["pid"] == process, "the service went on all the while"

    # The same, and the process was started meanwhile.
    machine.shell(f"cp -p {UNIT_PATH} /root/unit; sed -i 's/STOKER_DIGEST=/&0/' {UNIT_PATH}")
    machine.systemctl("daemon-reload")
    machine.systemctl("restart", UNIT)
    machine.shell(f"cp -p /root/unit {UNIT_PATH}")
    plan = mend(machine, ["reload", "restart", "verify"])
    assert "the running process has definition 0" in plan["activations"][1]["because"][0]
    process = machine.status()["pid"]

    # The same, with a newer file.
    machine.shell(f"cp {UNIT_PATH} /root/unit; sed -i s/^RestartSec=.*/RestartSec=9/ {UNIT_PATH}")
    machine.systemctl("daemon-reload")
    machine.shell(f"cp /root/unit {UNIT_PATH}; touch -d '1 minute' {UNIT_PATH}")
    drift = machine.status()["drift"]
    assert ("was edited" in drift, "systemd has not read" in drift) == (False, True)
    plan = mend(machine, ["reload"])
    assert "has not read" in plan["activations"][0]["because"][0]
    assert machine.status()["pid"] == process, "the service went on all the while"

    # The process differs from the unit.
    machine.shell(f"sed -i s/^UMask=.*/UMask=0000/ {UNIT_PATH}")
    machine.systemctl("daemon-reload")
    machine.systemctl("restart", UNIT)
    drift = machine.status()["drift"]
    assert "the process was started after" in drift
    plan = mend(machine, ["reload", "restart", "verify"])
    assert "was started after" in plan["activations"][1]["because"][0]

    # A file beside ours changes what it says.
    machine.write(DROP_IN, "[Service]\nMemoryMax=20G\n")
    assert "systemd has not read" in machine.status()["drift"]
    mend(machine, ["reload"])
    drift = machine.status()["drift"]
    assert DROP_IN in drift
    assert "puts it right" not in drift, "it is its owner's affair"
    plan = machine.stoker("plan", machine.file)
    assert DROP_IN in machine.findings(plan)["service.changed-beside"]
