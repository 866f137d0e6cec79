"""The kernel's words: whom they are asked of, and which of them are of this failure."""

from __future__ import annotations

import pytest

from stoker.commands.kernel_log import read_kernel, read_kernel_text
from stoker.model.facts import Unknown
from stoker.ports import Command, CommandResult
from tests.laws.worlds import Machine

OOM = "Out of memory: Killed process 7 (python)"


def answering(machine: Machine, texts: dict[str, str]) -> None:
    """``texts`` by the beginning of a command; every other one fails."""

    def run(command: Command) -> CommandResult:
        words = " ".join(command.argv)
        text = next((text for key, text in texts.items() if words.startswith(key)), None)
        status = 1 if text is None else 0
        return CommandResult(argv=command.argv, exit_status=status, stdout=text or "", stderr="no")

    machine.host.commands = run


def test_an_empty_journal_is_not_the_last_word() -> None:
    machine = Machine()
    answering(
        machine, {"journalctl": "", "dmesg --time-format": f"2026-11-30T22:43:38,5+00:00 {OOM}"}
    )
    text = read_kernel_text(machine.world(), since_seconds=1.0)
    assert isinstance(text, str)
    assert OOM in text


def test_a_kernel_that_said_nothing_and_one_that_may_not_be_asked() -> None:
    machine = Machine()
    answering(machine, {"journalctl": ""})
    assert read_kernel_text(machine.world(), since_seconds=1.0) == ""
    answering(machine, {})
    told = read_kernel_text(machine.world())
    assert isinstance(told, Unknown)
    assert "dmesg: no" in told.reason


@pytest.mark.parametrize(("age_seconds", "is_kept"), [(100.0, False), (1.0, True)])
def test_a_dmesg_that_cannot_choose_by_time(age_seconds: float, is_kept: bool) -> None:
    machine = Machine()
    world = machine.world()
    up_seconds = 5000.0
    machine.host.put("/proc/uptime", f"{up_seconds} 1.0\n")
    answering(machine, {"dmesg": ""})
    stamp = up_seconds - age_seconds

    def run(command: Command) -> CommandResult:
        is_plain = command.argv == ("dmesg",)
        text = f"[{stamp:12.6f}] {OOM}\n  more of it\n" if is_plain else ""
        status = 0 if is_plain else 1
        return CommandResult(argv=command.argv, exit_status=status, stdout=text, stderr="")

    machine.host.commands = run
    found = read_kernel(world, since_seconds=world.clock.now_seconds() - 50)
    assert not isinstance(found, Unknown)
    assert [line.text for line in found.kernel[:1]] == ([OOM] if is_kept else [])
