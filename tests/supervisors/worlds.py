"""What the conformance suite needs around a supervisor: one small world per adapter."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from stoker.hosts.local import LocalHost
from stoker.model.launch import Service, ServicePhase, ServiceState, Timing
from stoker.ports import Host, Supervisor
from stoker.supervisors.supervisord import (
    SupervisordLayout,
    SupervisordSupervisor,
    socket_path_for,
)
from stoker.supervisors.systemd import SystemdLayout, SystemdSupervisor, user_layout
from tests.fakes.host import MemoryHost
from tests.fakes.supervisor import FakeSupervisor

PROGRAM = str(Path(__file__).with_name("service.py"))
#: -I -S: start fast, and take nothing from where the tests run.
RUN_PROGRAM = (sys.executable, "-I", "-S", PROGRAM)

LIVE_PHASES = frozenset({ServicePhase.STARTING, ServicePhase.RUNNING})

#: A safety net: nothing here is expected to take long.
_PATIENCE_SECONDS = 30.0


class World(Protocol):
    """A supervisor, its host, and what a test does around them."""

    supervisor: Supervisor
    host: Host
    logs: str
    #: A folder that is not there, where a service may have its own.
    place: str

    def arrange(self, service: Service) -> None:
        """Let the service behave as its arguments say, where nothing really runs."""
        ...

    def kill_manager(self) -> None: ...

    def is_alive(self, state: ServiceState) -> bool:
        """Whether the process of this state runs."""
        ...

    def is_manager_up(self) -> bool: ...

    def close(self) -> None: ...


class FakeWorld:
    """The fake, on a fake host."""

    def __init__(self) -> None:
        self.memory = MemoryHost()
        self.fake = FakeSupervisor(self.memory)
        self.host: Host = self.memory
        self.supervisor: Supervisor = self.fake
        self.logs = f"{self.fake.home}/logs"
        self.place = "/opt/services"

    def arrange(self, service: Service) -> None:
        is_missing = service.argv[0] != sys.executable
        (self.fake.refused.add if is_missing else self.fake.refused.discard)(service.name)
        is_crashing = "fails" in service.argv
        (self.fake.crashing.add if is_crashing else self.fake.crashing.discard)(service.name)

    def kill_manager(self) -> None:
        self.fake.die()

    def is_alive(self, state: ServiceState) -> bool:
        return self.memory.processes.get(state.pid) == state.process

    def is_manager_up(self) -> bool:
        return self.fake.is_up

    def close(self) -> None:
        """Nothing outlives a fake."""


class SupervisordWorld:
    """A real supervisord on this machine, with a state folder of its own."""

    def __init__(self, folder: Path, *, daemon: str, runtime_folder: str) -> None:
        home = folder / "state"
        home.mkdir(mode=0o700)
        self.home = str(home)
        self.logs = f"{home}/logs"
        self.place = f"{folder}/services"
        self.host: Host = LocalHost()
        self.layout = SupervisordLayout(
            home=self.home,
            folder=f"{home}/supervisor",
            daemon=daemon,
            logs=self.logs,
            is_root=os.geteuid() == 0,
            socket_path=socket_path_for(self.home, runtime_folder=runtime_folder),
        )
        self.supervisor: Supervisor = self.adapter()

    def adapter(self, **changes: Any) -> SupervisordSupervisor:
        """The adapter, as another run of Stoker would make it."""
        fields = {name: getattr(self.layout, name) for name in self.layout.__slots__}
        layout = SupervisordLayout(**{**fields, **changes})
        return SupervisordSupervisor(self.host, RealClock(), layout)

    def arrange(self, service: Service) -> None:
        """Here programs really run."""

    def daemon_pid(self) -> int:
        return int(Path(self.layout.pid_file).read_text())

    def kill_manager(self) -> None:
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_running(pid))

    def is_alive(self, state: ServiceState) -> bool:
        return is_running(state.pid)

    def is_manager_up(self) -> bool:
        try:
            return is_running(self.daemon_pid())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """End what this world started, whatever the test made of it, in no particular order."""
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(self.daemon_pid(), signal.SIGKILL)
        while left := list(self._own_processes()):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        with suppress(FileNotFoundError):
            os.unlink(self.layout.socket_path)

    def _own_processes(self) -> Iterator[int]:
        """Whatever carries this state folder in its environment or on its command line."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid() and self._is_own(entry):
                yield int(entry.name)

    def _is_own(self, entry: Path) -> bool:
        with suppress(OSError):
            text = (entry / "environ").read_bytes() + b"\0" + (entry / "cmdline").read_bytes()
            stamp = f"STOKER_HOME={self.home}".encode()
            wanted = {stamp, self.layout.configuration.encode()}
            return bool(wanted & set(text.split(b"\0"))) and is_running(int(entry.name))
        return False


class SystemdWorld:
    """The systemd of this machine, with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        home = folder / "state"
        home.mkdir(mode=0o700, exist_ok=True)
        self.home = str(home)
        self.logs = f"{home}/logs"
        # Services have a /tmp of their own.
        self.place = f"{Path.home()}/services-{os.getpid()}"
        self.host: Host = LocalHost()
        self.layout = self._layout()
        self.systemd = self.adapter()
        self.supervisor: Supervisor = self.systemd

    def _layout(self) -> SystemdLayout:
        if os.geteuid() == 0:
            return SystemdLayout(home=self.home, logs=self.logs, is_root=True)
        config = f"{Path.home()}/.config"
        return user_layout(self.home, logs=self.logs, config=config, user_id=os.geteuid())

    def adapter(self, **changes: Any) -> SystemdSupervisor:
        """The adapter, as another run of Stoker would make it."""
        return SystemdSupervisor(self.host, RealClock(), replace(self.layout, **changes))

    def arrange(self, service: Service) -> None:
        """Here programs really run."""

    def kill_manager(self) -> None:
        raise AssertionError("systemd cannot be killed")

    def is_alive(self, state: ServiceState) -> bool:
        return is_running(state.pid)

    def is_manager_up(self) -> bool:
        return True

    def systemctl(self, *words: str) -> str:
        """What systemctl says: a person would ask it the same."""
        return self._ask("systemctl", *words)

    def read_service(self, unit: str) -> dict[str, Any]:
        """What systemd has in memory of a unit, by a reader that is not ours."""
        manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
        loaded = self._busctl(*manager, "org.freedesktop.systemd1.Manager", "LoadUnit", "s", unit)
        properties = "org.freedesktop.DBus.Properties"
        found = self._busctl(manager[0], loaded, properties, "GetAll", "s", "")
        return {name: value["data"] for name, value in found.items()}

    def _busctl(self, *words: str) -> Any:
        return json.loads(self._ask("busctl", "--json=short", "call", *words))["data"][0]

    def _ask(self, program: str, *words: str) -> str:
        scope = [] if self.layout.scope == "system" else ["--user"]
        env = {"PATH": "/usr/bin", "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}
        command = [program, *scope, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        return done.stdout + done.stderr

    def close(self) -> None:
        """Leave no unit behind, whoever made it."""
        units = [path.name for path in Path(self.layout.unit_folder).glob("stoker-*.service")]
        if units:
            self.systemctl("stop", *units)
        for unit in units:
            Path(self.layout.unit_folder, unit).unlink()
        for drop_in in Path(self.layout.unit_folder).glob("stoker-*.service.d"):
            shutil.rmtree(drop_in)
        self.supervisor.reload()
        self.systemctl("reset-failed")
        shutil.rmtree(self.place, ignore_errors=True)


class RealClock:
    """The machine's own clock."""

    def now_seconds(self) -> float:
        return time.time()

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def make_service(name: str, *words: str, **changes: Any) -> Service:
    """A service that runs the test's program; ``words`` say how it behaves."""
    fields: dict[str, Any] = {
        "name": name,
        "digest": "d1",
        "argv": (*RUN_PROGRAM, *words),
        "env": {},
        "directory": "/",
        "user": None,
        "log_path": "",
        "restart": "on-failure",
        "on_boot": True,
        "timing": Timing(stop_seconds=1),
    }
    return Service(**{**fields, **changes})


def define(world: World, service: Service) -> None:
    """Write the files of a service as an executor would."""
    files = {**world.supervisor.render_shared(), **world.supervisor.render(service)}
    for path, image in files.items():
        assert image.content is not None
        world.host.write_file(path, image.content.encode(), image.mode, image.owner)
    world.arrange(service)


def undefine(world: World, service: Service) -> None:
    """Remove the definition of a service."""
    for path in world.supervisor.render(service):
        world.host.remove_file(path)


def await_phase(world: World, name: str, *phases: ServicePhase) -> ServiceState:
    """The state once it has one of these phases."""
    eventually(lambda: world.supervisor.state(name).phase in phases)
    return world.supervisor.state(name)


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until it is so; how long that takes is nobody's business."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet reaped does not."""
    try:
        stat_text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat_text.rpartition(")")[2].split()[0] not in ("Z", "X")
