"""Which commands try a sandbox, and what is said when they cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.errors import HostError
from stoker.model.facts import Target, Trial
from stoker.ports import Command, CommandResult
from stoker.probes.service_sandbox import parse, read
from tests.conftest import PROJECT
from tests.fakes.host import MemoryHost

RECORDED = PROJECT / "tests" / "recorded" / "service_sandbox"
TRIAL = Trial(
    argv=("systemd-run", "--user"),
    env={"XDG_RUNTIME_DIR": "/run/user/1000"},
    layers={"limit": ("LimitCORE=0", "TasksMax=9"), "mount": ("ProtectSystem=strict",)},
    titles={"limit": "limits", "mount": "a view"},
)
TARGET = Target(trial=TRIAL)
OUTPUT = json.loads(Path(RECORDED, "everything-works", "input.json").read_text())["all.output"]


class Systemd:
    """Runs commands as a machine does that refuses these properties."""

    def __init__(self, *refused: str) -> None:
        self.refused = {f"--property={line}" for line in refused}
        self.asked: list[Command] = []
        self.timed_out = False

    def __call__(self, command: Command) -> CommandResult:
        self.asked.append(command)
        is_refused = "*" in self.refused or self.refused & set(command.argv)
        result = CommandResult(argv=(), exit_status=0, stdout=OUTPUT, stderr="")
        if is_refused:
            result = replace(result, exit_status=226, stdout="", stderr="Failed\nat NAMESPACE\n")
        return replace(result, timed_out=self.timed_out)


def test_one_command_tells_that_all_works() -> None:
    systemd = Systemd()
    found = parse(read(MemoryHost(commands=systemd), TARGET))
    assert found["layers"] == {"limit": "works", "mount": "works"}
    (command,) = systemd.asked
    assert command.argv[:2] == ("systemd-run", "--user")
    assert command.argv[-5:-3] == ("--", "cat")
    assert command.env == TRIAL.env
    lines = {"LimitCORE=0", "TasksMax=9", "ProtectSystem=strict"}
    assert {f"--property={line}" for line in lines} <= set(command.argv)


def test_each_layer_is_tried_alone_where_all_together_are_refused() -> None:
    systemd = Systemd("ProtectSystem=strict")
    found = parse(read(MemoryHost(commands=systemd), TARGET))
    assert found["layers"] == {"limit": "works", "mount": "refused"}
    assert (found["statuses"], found["refused"]) == ({"mount": 226}, ["a view"])
    assert len(systemd.asked) == 4


def test_a_machine_that_runs_nothing_is_not_one_without_a_sandbox() -> None:
    systemd = Systemd()
    systemd.refused.add("*")
    with pytest.raises(HostError, match="no command at all here: Failed at NAMESPACE"):
        read(MemoryHost(commands=systemd), TARGET)


def test_a_trial_that_takes_too_long_tells_nothing() -> None:
    systemd = Systemd()
    systemd.timed_out = True
    with pytest.raises(HostError, match="did not end"):
        read(MemoryHost(commands=systemd), TARGET)


def test_a_machine_without_the_program_tells_nothing() -> None:
    with pytest.raises(HostError, match="no program systemd-run"):
        read(MemoryHost(), TARGET)
