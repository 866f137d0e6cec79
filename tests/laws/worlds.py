"""A whole world in memory for the laws: machine, supervisor and an engine that answers.

What it serves comes from the same replies as the fake engine server, judged by the real contract.
Nothing is mocked: the commands run as they are, over fakes that pass the ports' own suites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stoker.commands.assemble import plan_generation
from stoker.commands.converge import converge, recover
from stoker.commands.service import (
    _files_to_go,
    _plan_settled,
)
from stoker.commands.world import World
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import Script
from stoker.guard.words import GuardStatus
from stoker.model.contract import Exchange, Request
from stoker.model.document import render_document
from stoker.model.event import Event
from stoker.model.generation import Generation
from stoker.model.launch import Launch, Readiness, SecretFile, Service, Timing
from stoker.model.layout import api_key_path, guard_status_path, work_folder
from stoker.model.plan import Folders, Plan
from stoker.model.units import digest_text
from stoker.planning.desired import next_generation, restored_generation
from stoker.state.documents import list_generations, read_current, read_generation
from tests.fakes.host import Crash, MemoryHost
from tests.fakes.supervisor import FakeSupervisor, Running

NAME = "law"
STATE = "/var/lib/stoker"
FOLDERS = Folders(
    state=STATE,
    environments="/opt/stoker/environments",
    models="/opt/stoker/models",
    services="/opt/stoker/services/law",
)
KEY_FILE = "/root/key"
SETTINGS_FILE = f"{FOLDERS.services}/{NAME}/settings.yaml"


class FakeClock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now_seconds(self) -> float:
        return self.seconds

    def monotonic_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class ListReporter:
    """Keeps what it is told."""

    events: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.events.append(event)


class MemoryEndpoint:
    """An engine that answers while its service runs, rightly unless the definition is broken."""

    def __init__(self, machine: Machine, host: str, port: int, *, key: str | None) -> None:
        self._machine = machine
        self._key = key or ""
        self.url = f"http://{host}:{port}"

    def exchange(self, request: Request) -> Exchange:
        digest = self._machine.supervisor.running.get(NAME)
        if digest is None:
            return Exchange(request=request, error="refused")
        script = Script(names=(NAME,), api_key=self._key)
        if digest in self._machine.broken:
            script = script.saying("!!!!!!!!")
        return DirectEndpoint(Core(script)).exchange(request)


class Machine:
    """What outlives a Stoker that is killed: files and processes."""

    def __init__(self) -> None:
        self.host = MemoryHost(user="root", users=("root", "nobody"))
        self.supervisor = FakeSupervisor(self.host, f"{STATE}/supervisor", home=STATE)
        self.supervisor.has_begun = self._guard
        self.clock = FakeClock()
        self.broken: set[str] = set()
        self.host.put(KEY_FILE, "secret-1\n", mode=0o600)
        self._effects_left = -1

    def world(self) -> World:
        """A Stoker, newly started on this machine."""
        return World(
            host=self.host,
            clock=self.clock,
            reporter=ListReporter(),
            supervisor=self.supervisor,
            supervisors={"fake": self.supervisor},
            connect=lambda host, port, key: MemoryEndpoint(self, host, port, key=key),
            folders=FOLDERS,
            me="root",
            is_root=True,
            python="/usr/bin/python3",
        )

    def is_deployed(self) -> bool:
        """Whether anything is in force."""
        return read_current(self.host, FOLDERS, NAME) is not None

    def crash_after(self, effects: int) -> None:
        """kill -9 when so many moments (before or after an effect) have passed."""
        self._effects_left = effects
        self.host.fuse = self.supervisor.fuse = self._burn

    def revive(self) -> bool:
        """Let the next Stoker live; whether the last one was killed."""
        was_killed = self._effects_left == 0
        self.host.fuse = self.supervisor.fuse = None
        self._effects_left = -1
        return was_killed

    def _guard(self, name: str, running: Running) -> None:
        """What the guard of a process does at once: it calls the engine ready."""
        status = GuardStatus(
            name=name,
            digest=running.digest,
            phase="ready",
            percent=None,
            left_seconds=None,
            since_seconds=self.clock.now_seconds(),
            verified=running.digest not in self.broken,
            text="ready",
            pid=running.pid + 1,
            process="",
            guard=running.process,
        )
        self.host.put(guard_status_path(FOLDERS, name), render_document(status))

    def _burn(self, moment: str, effect: str) -> None:
        if self._effects_left > 0:
            self._effects_left -= 1
        if self._effects_left == 0:
            raise Crash(f"{moment} {effect}")  # and again at each later effect: it is dead

    def look(self) -> dict[str, object]:
        """The state that a law compares: files but for journals and results, and what runs."""
        private = (f"{STATE}/runs", f"{STATE}/state.json", f"{STATE}/lock")
        results = ("verification.json", "starts.json", "status.json")
        files = {
            path: rest
            for path, (kind, *rest) in self.host.snapshot().items()
            if kind == "file" and not path.startswith(private) and not path.endswith(results)
        }
        return {"files": files, "running": self.supervisor.running.get(NAME)}


def make_generation(world: World, variant: str, *, has_key: bool = True) -> Generation:
    """A generation whose launch differs by ``variant``."""
    key = SecretFile(source_path=KEY_FILE, path=api_key_path(FOLDERS, NAME))
    # As an engine has it that takes a key by its settings alone.
    setting = SecretFile(source_path=KEY_FILE, path=SETTINGS_FILE, entry="api-key")
    launch = Launch(
        engine="llamacpp",
        engine_build="b1",
        argv=("/opt/engine", "--variant", variant),
        secrets=(key, setting) if has_key else (),
        host="127.0.0.1",
        port=30000,
        published_name=NAME,
        readiness=Readiness(path="/health", timeout_seconds=60),
        stop_timeout_seconds=5,
    )
    service = Service(
        name=NAME,
        digest=digest_text(f"{variant} {has_key}"),
        argv=launch.argv,
        directory=work_folder(FOLDERS, NAME),
        user="nobody",
        log_path=f"{STATE}/logs/{NAME}.log",
        restart="on-failure",
        on_boot=True,
        timing=Timing(stop_seconds=5),
        supervisor="fake",
    )
    return next_generation(
        read_current(world.host, FOLDERS, NAME),
        highest_number=max(list_generations(world.host, FOLDERS, NAME), default=0),
        deployment={"name": NAME, "variant": variant, "model": {"ref": "path:/m.gguf"}},
        source=f"name: {NAME} # {variant}\n",
        launch=launch,
        service=service,
        model="m",
    )


Verb = Callable[[World], object]


def apply_variant(variant: str, *, has_key: bool = True) -> Verb:
    """A verb that applies a variant."""

    def plan(world: World) -> Plan:
        return plan_generation(
            world,
            make_generation(world, variant, has_key=has_key),
            verb="apply",
            preparations=(),
            findings=(),
            origin={},
        )

    return lambda world: _run(world, plan)


def start(world: World) -> object:
    """A verb that starts what is in force."""

    def plan(world: World) -> Plan:
        generation = read_current(world.host, FOLDERS, NAME)
        assert generation is not None
        return plan_generation(
            world, generation, verb="start", preparations=(), findings=(), origin={}
        )

    return _run(world, plan)


def stop(world: World) -> object:
    """A verb that stops the service."""
    return _run(world, lambda world: _plan_settled(world, NAME, verb="stop", files={}))


def rollback(world: World) -> object:
    """A verb that brings the first generation back."""

    def plan(world: World) -> Plan:
        first = read_generation(world.host, FOLDERS, NAME, 1)
        assert first is not None
        highest = max(list_generations(world.host, FOLDERS, NAME))
        restored = restored_generation(first, highest_number=highest)
        return plan_generation(
            world, restored, verb="rollback", preparations=(), findings=(), origin={}
        )

    return _run(world, plan)


def down(world: World) -> object:
    """A verb that removes the deployment."""
    return _run(
        world,
        lambda world: _plan_settled(world, NAME, verb="down", files=_files_to_go(world, NAME)),
    )


def _run(world: World, plan: Callable[[World], Plan]) -> object:
    """As every verb does, but for the lock, which is of the real machine."""
    world.open_state()
    recover(world)
    return converge(world, lambda: plan(world))


def next_stoker(machine: Machine) -> None:
    """The next Stoker finds an unfinished run and recovers."""
    world = machine.world()
    world.open_state()
    recover(world)
