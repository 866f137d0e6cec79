"""Real guards as services of a real systemd; runs in the lab's containers.

All services are started together and each test follows one of them, so that the time which a
guard takes to make up its mind passes once. Engines do what a file says (tests/lab/engine.py).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.guard.values import ExitCode
from stoker.model.launch import ServicePhase, Timing
from stoker.supervisors.systemd_unit import unit_name
from tests.conftest import PROJECT
from tests.guard.running import free_port, write_config
from tests.lab.tree import MARK
from tests.supervisors.worlds import (
    SystemdWorld,
    await_phase,
    define,
    eventually,
    is_running,
    make_service,
)

if not Path(MARK).exists():
    pytest.skip("runs in the lab's containers, see tests/lab", allow_module_level=True)

#: Of all services; their units give a start a day, whatever is less (systemd_unit.py).
TIMING = Timing(stop_seconds=15, start_seconds=60, watchdog_seconds=60)

#: What a file beside the unit gives a start where it shall matter whether the guard asks for more:
#: less than such an engine loads, and than its guard lets it stand still.
SHORT_SECONDS = 6
#: So long a load has outlived that by far.
LONG_SECONDS = 16

#: What each engine does at first, and how its guard and its unit are set.
SCENES: dict[str, dict[str, Any]] = {
    "verified": {"word": "broken"},
    "reloaded": {"word": "load"},
    "hung": {"word": "load", "stall_seconds": 6},
    "canary": {"word": "good"},
    "stopped": {"word": "load"},
    "killed": {"word": "good"},
    "asleep": {"word": "good", "watchdog_seconds": 8, "stop_seconds": 3},
    "misconfigured": {"word": "good", "stall_seconds": -1},
    # The last of those that the adapter starts: every reload, and each of its starts is one, lets
    # systemd forget how often it has started what.
    "crashing": {"word": "crash"},
    # A reload would let it forget as well how long it has been asked to wait.
    "slow": {"word": "load", "is_short": True},
    "mute": {"word": "hang", "stall_seconds": 12, "is_short": True},
}


class Stage:
    """All services of this module, each with an engine that obeys."""

    def __init__(self, world: SystemdWorld) -> None:
        self.world = world
        for name, scene in SCENES.items():
            self._define(name, scene)
        world.supervisor.reload()
        for name, scene in SCENES.items():
            if scene.get("is_short"):
                self.begin(name)
            elif name != "misconfigured":
                world.supervisor.start(name)

    def begin(self, name: str) -> None:
        """Start a service without a reload before it, and do not wait."""
        self.world.systemctl("start", "--no-block", unit_name(name))

    def _define(self, name: str, scene: dict[str, Any]) -> None:
        folder = self.folder(name)
        folder.mkdir(parents=True)
        self.order(name, scene["word"])
        port = free_port()
        argv = [sys.executable, "-m", "tests.lab.engine", str(folder / "orders")]
        limits = {"stall_seconds": scene.get("stall_seconds", 30), "stop_timeout_seconds": 5}
        canary = {"interval_seconds": 0.5, "timeout_seconds": 5}
        config = write_config(
            folder,
            [*argv, "--port", str(port)],
            port,
            limits=limits,
            canary=canary,
            require=["chat_answer"],
        )
        timing = {key: scene.get(key, getattr(TIMING, key)) for key in TIMING.__slots__}
        service = make_service(
            name,
            argv=(sys.executable, "-m", "stoker.guard", str(config)),
            env={"PYTHONPATH": f"{PROJECT}:{PROJECT / 'src'}"},
            directory=str(folder),
            log_path=self.world.supervisor.log_path(name),
            timing=Timing(**timing),
        )
        define(self.world, service)
        if scene.get("is_short"):
            drop_in = Path(f"{self.world.layout.unit(name)}.d", "short.conf")
            drop_in.parent.mkdir()
            drop_in.write_text(f"[Service]\nTimeoutStartSec={SHORT_SECONDS}\n")

    def folder(self, name: str) -> Path:
        return Path(self.world.place, name)

    def order(self, name: str, word: str) -> None:
        new = self.folder(name) / "orders.new"
        new.write_text(word)
        new.rename(self.folder(name) / "orders")

    def said(self, name: str) -> str:
        path = Path(self.world.supervisor.log_path(name))
        return path.read_text() if path.exists() else ""

    def status(self, name: str) -> dict[str, Any]:
        """What the guard says of its engine."""
        found: dict[str, Any] = json.loads((self.folder(name) / "status.json").read_text())
        return found

    def engine(self, name: str) -> int:
        """The engine's pid, once its guard has told it."""
        eventually((self.folder(name) / "status.json").exists)
        pid: int = self.status(name)["pid"]
        return pid

    def has_ended(self, name: str, code: int) -> bool:
        """Whether systemd has seen the guard end with this code."""
        messages = self.world.supervisor.read_messages(name, 100)
        return any(f"status={code}/" in message for message in messages)

    def show(self, name: str, what: str) -> str:
        return self.world.systemctl(
            "show", f"--property={what}", "--value", unit_name(name)
        ).strip()

    def is_active(self, name: str) -> str:
        return self.world.systemctl("is-active", unit_name(name)).strip()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    world = SystemdWorld(tmp_path_factory.mktemp("guarded"))
    try:
        yield Stage(world)
    finally:
        world.close()


def test_it_is_active_only_once_it_is_verified(stage: Stage) -> None:
    eventually(lambda: "verifying" in stage.world.supervisor.state("verified").detail)
    eventually(lambda: stage.show("verified", "StatusText") != "")
    assert stage.is_active("verified") == "activating"
    state = stage.world.supervisor.state("verified")
    assert state.phase is ServicePhase.STARTING
    stage.order("verified", "good")
    after = await_phase(stage.world, "verified", ServicePhase.RUNNING)
    assert after.process == state.process, (
        stage.said("verified"),
        stage.world.supervisor.read_messages("verified", 30),
    )
    assert stage.is_active("verified") == "active"
    assert stage.status("verified")["verified"] is True


def test_a_boot_does_not_wait_for_a_load(stage: Stage) -> None:
    scope = stage.world.layout
    target = stage.world.systemctl("show", "--property=Wants,After", scope.target).splitlines()
    (wants, after) = sorted(target, reverse=True)
    assert unit_name("slow") in wants
    assert unit_name("slow") not in after


def test_a_load_that_goes_on_is_not_ended(stage: Stage) -> None:
    """Though systemd gives it far less: its guard asks for more as long as there is progress."""
    assert stage.show("slow", "TimeoutStartUSec") == f"{SHORT_SECONDS}s"
    eventually(lambda: has_loaded_for(stage, "slow", LONG_SECONDS) or has_ended(stage, "slow"))
    state = stage.world.supervisor.state("slow")
    assert not has_ended(stage, "slow"), state.detail
    assert state.phase is ServicePhase.STARTING, stage.said("slow")
    assert "%" in state.detail
    stage.order("slow", "good")
    await_phase(stage.world, "slow", ServicePhase.RUNNING)
    assert stage.show("slow", "NRestarts") == "0"


def test_a_load_that_goes_on_is_not_ended_by_a_reload(stage: Stage) -> None:
    """It lets systemd forget all that it was asked for; a day is more than a load takes."""
    eventually(lambda: has_loaded_for(stage, "reloaded", LONG_SECONDS))
    stage.world.systemctl("daemon-reload")
    state = stage.world.supervisor.state("reloaded")
    assert state.phase is ServicePhase.STARTING, stage.said("reloaded")
    stage.order("reloaded", "good")
    await_phase(stage.world, "reloaded", ServicePhase.RUNNING)
    assert stage.show("reloaded", "NRestarts") == "0"


def has_loaded_for(stage: Stage, name: str, seconds: float) -> bool:
    """Whether its process was started so long ago."""
    began = int(stage.show(name, "ExecMainStartTimestampMonotonic") or 0)
    now = float(Path("/proc/uptime").read_text().split()[0]) * 1_000_000
    return began > 0 and now - began > seconds * 1_000_000


def has_ended(stage: Stage, name: str) -> bool:
    """Whether its first process has, for whatever reason."""
    return int(stage.show(name, "NRestarts")) > 0 or stage.show(name, "Result") != "success"


@pytest.mark.parametrize("name", ["hung", "mute"])
def test_a_load_that_stands_still_is_ended_and_started_again(stage: Stage, name: str) -> None:
    if name == "hung":
        first = stage.engine(name)
        os.kill(first, signal.SIGSTOP)
        eventually(lambda: not is_running(first))
    eventually(lambda: int(stage.show(name, "NRestarts")) > 0)
    # By its guard: where systemd gives it less time than that, it was asked for more.
    assert "no progress" in stage.said(name)
    assert stage.has_ended(name, ExitCode.STALLED)
    stage.order(name, "good")
    await_phase(stage.world, name, ServicePhase.RUNNING)


def test_an_engine_that_crashes_is_given_up_at_the_limit(stage: Stage) -> None:
    state = await_phase(stage.world, "crashing", ServicePhase.FAILED)
    assert "exited with status 3" in state.detail
    assert "systemd gave up after 5 starts" in state.detail
    assert stage.said("crashing").count("ended with status 3") >= 5, stage.said("crashing")


def test_an_engine_that_talks_nonsense_is_replaced(stage: Stage) -> None:
    before = await_phase(stage.world, "canary", ServicePhase.RUNNING)
    engine = stage.engine("canary")
    stage.order("canary", "broken")
    eventually(lambda: int(stage.show("canary", "NRestarts")) > 0)
    assert not is_running(engine)
    stage.order("canary", "good")
    after = await_phase(stage.world, "canary", ServicePhase.RUNNING)
    assert after.process != before.process
    assert stage.has_ended("canary", ExitCode.GAVE_UP)


def test_it_may_be_stopped_while_it_loads(stage: Stage) -> None:
    guard = await_phase(stage.world, "stopped", ServicePhase.STARTING).pid
    engine = stage.engine("stopped")
    stage.world.supervisor.stop("stopped")
    assert stage.world.supervisor.state("stopped").phase is ServicePhase.STOPPED
    assert not is_running(engine)
    assert not is_running(guard)
    assert stage.show("stopped", "Result") == "success"


def test_a_guard_that_is_killed_takes_its_engine_along(stage: Stage) -> None:
    before = await_phase(stage.world, "killed", ServicePhase.RUNNING)
    engine = stage.engine("killed")
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: int(stage.show("killed", "NRestarts")) > 0)
    assert not is_running(engine)
    after = await_phase(stage.world, "killed", ServicePhase.RUNNING)
    assert after.process != before.process


def test_a_guard_that_sleeps_is_woken_by_force(stage: Stage) -> None:
    before = await_phase(stage.world, "asleep", ServicePhase.RUNNING)
    os.kill(before.pid, signal.SIGSTOP)
    eventually(lambda: int(stage.show("asleep", "NRestarts")) > 0)
    assert not is_running(before.pid)
    await_phase(stage.world, "asleep", ServicePhase.RUNNING)


def test_a_guard_that_was_told_nonsense_is_not_tried_again(stage: Stage) -> None:
    stage.begin("misconfigured")
    state = await_phase(stage.world, "misconfigured", ServicePhase.FAILED)
    assert "exited with status 2" in state.detail
    assert stage.show("misconfigured", "NRestarts") == "0"
