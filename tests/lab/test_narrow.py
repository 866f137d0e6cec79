"""A container that refuses services a part of their sandbox, as LXC without nesting does."""

from __future__ import annotations

import pytest

from tests.lab.container import Narrow
from tests.lab.machine import UNIT_PATH, Machine

pytestmark = pytest.mark.timeout(200, func_only=True)

#: No mounts, so no service has a view of the files of its own; and little memory may be locked.
#: systemd itself wants /run/lock before it begins.
NARROW = (
    "--system-call-filter=~mount",
    "--tmpfs=/run/lock",
    "--drop-capability=CAP_SYS_RESOURCE",
    "--rlimit=MEMLOCK=1M",
)
LOCKING = "{kind: llamacpp, settings: {threads: 1, load-mode: mlock}}"


class TestWithoutMounts:
    @pytest.fixture
    def narrow(self) -> Narrow:
        return Narrow(options=NARROW)

    def test_a_service_starts_with_what_it_can_have(self, machine: Machine) -> None:
        refused = machine.container.run(
            ["systemd-run", "--quiet", "--wait", "--property=PrivateTmp=yes", "true"]
        )
        assert refused.returncode == 226, "this machine is not what this test is about"
        machine.deploy(engine=LOCKING)
        plan = machine.stoker("plan", machine.file)
        findings = machine.findings(plan)
        assert "a private /tmp" in findings["service.sandbox-refused"]
        assert "lock 1.0 MiB of memory" in findings["service.locked-memory"]
        assert machine.stoker("apply", machine.file)["verified"] is True
        unit = machine.shell(f"cat {UNIT_PATH}")
        assert "PrivateTmp" not in unit
        assert "ReadWritePaths" not in unit
        assert "NoNewPrivileges=yes" in unit
        assert "CapabilityBoundingSet=\n" in unit
        again = machine.stoker("plan", machine.file)
        assert (again["changes"], again["activations"]) == ([], [])
        assert "service.sandbox-refused" in machine.findings(again)


class TestWithoutNamespaces:
    @pytest.fixture
    def narrow(self) -> Narrow:
        return Narrow(options=("--system-call-filter=~unshare",))

    def test_what_is_passed_over_in_silence_is_told(self, machine: Machine) -> None:
        machine.deploy()
        facts = machine.stoker("facts", machine.file)["observations"]["service_sandbox"]["value"]
        assert facts["layers"]["mount"] == "ignored"
        findings = machine.findings(machine.stoker("plan", machine.file))
        assert "a private /tmp" in findings["service.sandbox-ignored"]
        assert "service.sandbox-refused" not in findings
