"""Real guards on a machine whose PCI bus is a folder of the test: in a mount namespace of its own.

Beside them the helper programs of a guard, which must never be taken for the engine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.guard.child import engine_pids, reap, run_helper
from stoker.guard.values import ExitCode
from tests.guard.running import Guarded, fake_engine, free_port, is_alive, wait_for, write_config

ADDRESS = "0000:41:00.0"
MOUNT = 'mount --bind "$0" /sys/bus/pci && exec "$@"'


def can_mount() -> bool:
    """Whether this user may have a mount namespace, and the kernel shows a bus to put it over."""
    if shutil.which("unshare") is None or not os.path.isdir("/sys/bus/pci"):
        return False
    run = ["unshare", "-m", "sh", "-c", MOUNT, "/proc", "true"]
    return subprocess.run(run, check=False, capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="needs root and mount namespaces")


class Bus:
    """A folder that stands in for /sys/bus/pci."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bus"
        self.device = self.path / "devices" / ADDRESS
        self.device.mkdir(parents=True)
        (self.device / "config").write_bytes(b"\xde\x10\x35\x23")

    def bind(self, driver: str) -> None:
        new = self.device / "new"
        new.symlink_to(f"../../drivers/{driver}")
        new.rename(self.device / "driver")

    @property
    def before(self) -> list[str]:
        return ["unshare", "-m", "sh", "-c", MOUNT, str(self.path)]


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    return Bus(tmp_path)


def guarded(folder: Path, bus: Bus, **changes: Any) -> Guarded:
    """A guard of an engine that is well, on a machine with this bus."""
    port = free_port()
    devices = {"gpus": [{"address": ADDRESS}], **changes}
    config = write_config(folder, fake_engine(port), port, devices=devices)
    return Guarded(config, before=bus.before)


@needs_mounts
def test_a_gpu_of_a_virtual_machine_ends_the_start_at_once(tmp_path: Path, bus: Bus) -> None:
    bus.bind("vfio-pci")
    sentence = f"GPU {ADDRESS} is bound to vfio-pci: it is handed to a virtual machine"
    with guarded(tmp_path, bus, wait_seconds=600) as guard:
        assert guard.wait() == ExitCode.NO_DEVICES
        assert guard.error() == f"stoker guard: a-deployment: {sentence}\n"
        wait_for(lambda: f"STATUS={sentence}" in guard.told)
        assert "READY=1" not in guard.told
        status = guard.status()
    assert (status["phase"], status["text"]) == ("ended", f"ended: {sentence}")
    assert (status["pid"], status["process"], status["verified"]) == (0, "", False)
    assert status["guard"].startswith(f"{guard.process.pid}:")


@needs_mounts
def test_a_gpu_that_is_gone_ends_the_start_at_once(tmp_path: Path, bus: Bus) -> None:
    shutil.rmtree(bus.device)
    (bus.path / "devices" / "0000:00:00.0").mkdir()
    with guarded(tmp_path, bus, wait_seconds=600) as guard:
        assert guard.wait() == ExitCode.NO_DEVICES
        assert f"GPU {ADDRESS} is not on the PCI bus" in guard.error()


@needs_mounts
def test_a_driver_that_comes_late_is_waited_for(tmp_path: Path, bus: Bus) -> None:
    waiting = f"waiting: GPU {ADDRESS}: no driver is bound to it"
    with guarded(tmp_path, bus, wait_seconds=600) as guard:
        guard.wait_told(f"STATUS={waiting}")
        assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in guard.told)
        wait_for((tmp_path / "status.json").exists)  # it is told before it is written
        wait_for(lambda: guard.status()["phase"] == "waiting")
        assert guard.status()["text"] == waiting
        bus.bind("nvidia")
        guard.wait_told("READY=1")
        assert guard.terminate() == ExitCode.DONE
        assert guard.error().count("waiting: ") == 1, "told once, however long it takes"


@needs_mounts
def test_a_driver_that_never_comes_is_given_up(tmp_path: Path, bus: Bus) -> None:
    with guarded(tmp_path, bus, wait_seconds=0.1) as guard:
        assert guard.wait() == ExitCode.NO_DEVICES
        assert guard.error().endswith(f"GPU {ADDRESS}: no driver is bound to it\n")


@needs_mounts
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_waiting_is_a_stop(tmp_path: Path, bus: Bus, number: signal.Signals) -> None:
    with guarded(tmp_path, bus, wait_seconds=600) as guard:
        wait_for(lambda: any("waiting: " in line for line in guard.told))
        guard.process.send_signal(signal.SIGHUP)
        guard.process.send_signal(number)
        assert guard.wait() == ExitCode.DONE
        assert "STOPPING=1" in guard.told


#: In the place of nvidia-smi: it writes down what it was asked and prints what lies beside it.
TOOL = """#!/bin/sh
folder=$(dirname "$0")
echo "$@" >> "$folder/asked"
case "$*" in
*--query-gpu*) cat "$folder/gpus" ;;
*) cat "$folder/apps" 2>/dev/null ;;
esac
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(TOOL)
    (folder / "nvidia-smi").chmod(0o755)
    (folder / "gpus").write_text(f"0000{ADDRESS}, 81920, 71000\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@needs_mounts
def test_memory_of_another_program_is_waited_for(tmp_path: Path, bus: Bus, tool: Path) -> None:
    bus.bind("nvidia")
    (tool / "apps").write_text(f"0000{ADDRESS}, 4711, 70000, /usr/bin/python3\n")
    says = "python3 (process 4711): 68.4 GiB of 80.0 GiB are in use"
    with guarded(tmp_path, bus, wait_seconds=600, held_share=0.1) as guard:
        wait_for(lambda: any(says in line for line in guard.told))
        (tool / "apps").unlink()  # it was ended
        guard.wait_told("READY=1")
        assert guard.terminate() == ExitCode.DONE


@needs_mounts
def test_memory_of_another_program_is_given_up(tmp_path: Path, bus: Bus, tool: Path) -> None:
    bus.bind("nvidia")
    (tool / "apps").write_text(f"0000{ADDRESS}, 4711, 70000, /usr/bin/python3\n")
    with guarded(tmp_path, bus, wait_seconds=0.1, held_share=0.1) as guard:
        assert guard.wait() == ExitCode.NO_DEVICES
        assert f"GPU {ADDRESS} is held by python3 (process 4711)" in guard.error()


@needs_mounts
def test_memory_is_read_while_the_engine_starts(tmp_path: Path, bus: Bus, tool: Path) -> None:
    """Once to see that the GPU is there, again for the progress of a start."""
    bus.bind("nvidia")
    port = free_port()
    devices = {"gpus": [{"address": ADDRESS}]}
    argv = fake_engine(port, fault="slow_drip")
    with Guarded(write_config(tmp_path, argv, port, devices=devices), before=bus.before) as guard:
        wait_for((tool / "asked").exists)
        wait_for(lambda: (tool / "asked").read_text().count("--query-compute-apps") >= 2)
        assert guard.terminate() == ExitCode.DONE


def test_without_gpus_nothing_is_looked_at(tmp_path: Path, tool: Path) -> None:
    port = free_port()
    with Guarded(write_config(tmp_path, fake_engine(port), port)) as guard:
        guard.wait_told("READY=1")
        assert guard.terminate() == ExitCode.DONE
        assert guard.told[0].startswith("STATUS=starting")
    assert not (tool / "asked").exists()


# Helpers


def test_a_helper_is_no_part_of_the_engine() -> None:
    before = engine_pids()  # other tests of this process may have machines running
    engine = subprocess.Popen(["/bin/sleep", "600"])
    answers: list[str | None] = []
    script = (
        "import subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE); "
        "print(child.pid, flush=True); child.communicate()"
    )
    thread = threading.Thread(
        target=lambda: answers.append(run_helper(("-c", script), timeout_seconds=60))
    )
    thread.start()
    try:
        while thread.is_alive():
            assert engine_pids() - before <= {engine.pid}, "neither it nor what it started"
            time.sleep(0.01)
    finally:
        engine.kill()
        engine.wait()
        thread.join()
    assert answers[0] is not None
    assert answers[0].strip().isdecimal()


def test_a_helper_that_does_not_end_is_ended() -> None:
    before = engine_pids()
    assert run_helper(("-c", "import time; time.sleep(600)"), timeout_seconds=0.3) is None
    _ = tuple(reap())
    assert engine_pids() <= before


def test_a_helper_that_says_all_and_stays_is_ended(tmp_path: Path) -> None:
    script = (
        "import os, time; print(os.getpid(), flush=True); os.close(1); os.close(2); time.sleep(600)"
    )
    text = run_helper(("-c", script), timeout_seconds=60)
    assert text is not None
    _ = tuple(reap())
    assert not is_alive(int(text))


def test_a_helper_that_fails_has_said_nothing() -> None:
    assert run_helper(("-c", "raise SystemExit(3)"), timeout_seconds=60) == ""
    _ = tuple(reap())
