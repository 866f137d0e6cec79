"""What kernels, drivers, service managers and container runtimes say, and the first cause of it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.knowledge.causes import load_causes
from stoker.model.diagnosis import Gravity

RECORDED = Path(__file__).parent / "host"
RECORDS = tomllib.loads((RECORDED / "records.toml").read_text(encoding="utf-8"))["record"]
#: Causes of the machine: its files, by their names.
TOPICS_LAYERS = ("hardware", "driver", "system", "service")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["kind"])
def test_the_first_cause_is_found(record: dict[str, str]) -> None:
    lines = read_lines([record["text"].encode()], "kernel")
    found = diagnose(Inputs(lines=lines))
    kinds = [cause.kind for cause in (*found.causes, *found.consequences)]
    assert kinds[:1] == [record["kind"]]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["kind"])
def test_the_same_is_found_among_lines_of_a_healthy_start(record: dict[str, str]) -> None:
    healthy = (RECORDED / "healthy_kernel.txt").read_text(encoding="utf-8")
    lines = read_lines([f"{healthy}\n{record['text']}\n{healthy}".encode()], "kernel")
    found = diagnose(Inputs(kernel=lines))
    kinds = [cause.kind for cause in (*found.causes, *found.consequences)]
    assert kinds[:1] == [record["kind"]]


def test_a_healthy_kernel_log_tells_no_failure() -> None:
    text = (RECORDED / "healthy_kernel.txt").read_bytes()
    found = diagnose(Inputs(kernel=read_lines([text], "kernel")))
    assert [cause.kind for cause in found.causes if cause.gravity is not Gravity.NOTE] == []


def test_a_service_that_was_slow_to_stop_is_only_warned_of() -> None:
    text = (
        "sglang.service: State 'stop-sigterm' timed out. Killing.\n"
        "sglang.service: Killing process 812 (python3) with signal SIGKILL.\n"
        "sglang.service: Main process exited, code=killed, status=9/KILL\n"
        "sglang.service: Failed with result 'timeout'.\n"
    )
    found = diagnose(Inputs(lines=read_lines([text.encode()], "journal")))
    assert [(cause.kind, cause.gravity) for cause in found.causes] == [
        ("systemd-stop-timeout", Gravity.WARNING)
    ]


def test_the_limit_of_a_container_is_told_from_the_memory_of_the_host() -> None:
    record = "Memory cgroup out of memory: Killed process 19 (python3) total-vm:2kB, anon-rss:1kB"
    host = "Out of memory: Killed process 19 (python3) total-vm:2kB, anon-rss:1kB"
    first = [
        diagnose(Inputs(kernel=read_lines([text.encode()], "kernel"))).causes[0].repairs[0].text
        for text in (record, host)
    ]
    assert "memory limit of the container" in first[0]
    assert first[0] != first[1]


def test_a_command_names_the_gpu_of_the_record_or_is_left_out() -> None:
    named = "NVRM: Xid (PCI:0000:41:00): 48, pid=7, An uncorrectable double bit error (DBE)"
    unnamed = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    commands = [
        [command for repair in cause.repairs for command in repair.commands]
        for text in (named, unnamed)
        for cause in diagnose(Inputs(lines=read_lines([text.encode()], "log"))).causes[:1]
    ]
    assert "nvidia-smi --gpu-reset -i 0000:41:00.0" in commands[0]
    assert not [command for command in commands[1] if "unknown" in command or "{" in command]


def test_every_number_of_the_catalogue_has_one_cause() -> None:
    for number in range(1, 173):
        text = f"NVRM: Xid (PCI:0000:01:00): {number}, pid=7, name=python3, something"
        found = diagnose(Inputs(kernel=read_lines([text.encode()], "kernel")))
        kinds = [cause.kind for cause in (*found.causes, *found.consequences)]
        assert len(kinds) == 1, f"Xid {number}: {kinds}"


def test_commands_hold_no_placeholder_for_a_shell_to_run_by_mistake() -> None:
    """What a person must fill in stands in capitals, never in angle brackets (a redirection)."""
    for row in load_causes().values():
        if row.layer in TOPICS_LAYERS:
            for command in (command for repair in row.repair for command in repair.commands):
                assert not re.search(r"<\w+>", command), f"{row.kind}: {command}"
