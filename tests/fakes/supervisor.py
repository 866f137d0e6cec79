"""A service manager in memory, which keeps the contract of the Supervisor port.

For tests of everything that goes through a Supervisor. Definitions are files on the host, as with
a real manager, and what runs is what a definition said at the last start, whatever the file says
now. It outlives a crash of Stoker, and can itself be killed::

    supervisor = FakeSupervisor(MemoryHost())
    supervisor.fuse = lambda moment, effect: ...   # raise Crash there
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stoker.errors import NotFound, SupervisorError
from stoker.model.facts import Facts
from stoker.model.launch import Drift, DriftKind, Service, ServicePhase, ServiceState
from stoker.model.plan import Image
from stoker.model.units import canonical_json, digest_text
from stoker.ports import SupervisorProperties
from stoker.supervisors.stamps import DIGEST, stamped_environment
from tests.fakes.host import Fuse, MemoryHost

_FIRST_PID = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One process, with the digest that stands in its environment."""

    pid: int
    process: str
    digest: str


class FakeSupervisor:
    """A Supervisor without processes; their identities stand in ``MemoryHost.processes``.

    ``folder``: the manager's own, with one definition a service below ``programs``. ``home``: the
    state folder.

    To be set by tests as they like: ``refused`` (names that the manager will not start),
    ``crashing`` (names whose process ends as soon as it was started), ``fuse``, ``has_begun`` (told
    of each new process, to do what that would do on the machine). ``effects`` tells
    what was done, in order: ``reload``, ``start:NAME``, ``stop:NAME``. A restart is a stop and a
    start, and the machine may crash between them.
    """

    def __init__(
        self,
        host: MemoryHost,
        folder: str = "/var/lib/stoker/supervisor",
        *,
        home: str = "/var/lib/stoker",
        properties: SupervisorProperties | None = None,
    ) -> None:
        self.host = host
        self.folder = folder
        self.home = home
        self.refused: set[str] = set()
        self.crashing: set[str] = set()
        self.effects: list[str] = []
        self.fuse: Fuse | None = None
        self.has_begun: Callable[[str, Running], None] | None = None
        self.is_up = False
        self._properties = properties or SupervisorProperties(
            kind="fake", starts_on_boot=False, changes_user=True
        )
        self._held: dict[str, Running] = {}
        self._left: dict[str, list[Running]] = {}
        self._failed: set[str] = set()
        self._next_pid = _FIRST_PID

    # What a test arranges and looks at.

    @property
    def running(self) -> dict[str, str]:
        """What the manager runs: the name of each service and the digest it was started with."""
        return {name: held.digest for name, held in self._held.items() if self._is_alive(held)}

    def die(self) -> None:
        """kill -9 of the manager: it is gone, and what it ran goes on without it."""
        for name, held in self._held.items():
            self._left.setdefault(name, []).append(held)
        self._held.clear()
        self._failed.clear()
        self.is_up = False

    def crash(self, name: str) -> None:
        """The service's process ends by itself, and the manager gives it up."""
        del self.host.processes[self._held.pop(name).pid]
        self._failed.add(name)

    # The port.

    @property
    def properties(self) -> SupervisorProperties:
        return self._properties

    def render(self, service: Service) -> Mapping[str, Image]:
        environment = stamped_environment(service, home=self.home)
        fields = {**dataclasses.asdict(service), "env": environment}
        return {self._definition_path(service.name): _image(canonical_json(fields))}

    def check_usable(self) -> None:
        pass

    def check_foreign(self, name: str) -> None:
        pass

    def describe_trial(self) -> None:
        pass

    def fit(self, name: str, facts: Facts) -> FakeSupervisor:
        return self

    def read_messages(self, name: str, line_count: int) -> tuple[str, ...]:
        return ()

    def find_drift(self, service: Service) -> tuple[Drift, ...]:
        path = self._definition_path(service.name)
        held = self.running.get(service.name, service.digest)
        try:
            is_same = self.host.read_text(path) == self.render(service)[path].content
        except NotFound:
            is_same = False
        edited = Drift(kind=DriftKind.EDITED, path=path, sentence=f"{path} was edited")
        process = Drift(kind=DriftKind.PROCESS, path=path, sentence=f"it runs {held}")
        return (
            *([] if is_same else [edited]),
            *([] if held == service.digest else [process]),
        )

    def render_shared(self) -> Mapping[str, Image]:
        return {f"{self.folder}/manager.json": _image(canonical_json({"home": self.home}))}

    def log_path(self, name: str) -> str:
        return f"{self.home}/logs/{name}.log"

    def reload(self) -> None:
        defined = self._list_definitions()
        for name in sorted(self._held.keys() - defined):
            self._stop(name)
        with self._effect("reload"):
            self._failed &= defined
            self.is_up = bool(defined)

    def state(self, name: str) -> ServiceState:
        orphans = () if self.is_up else self.find_orphans(name)
        if orphans:
            return orphans[0]
        held = self._held.get(name)
        if held is not None and self._is_alive(held):
            return _describe(name, ServicePhase.RUNNING, held)
        if held is not None or name in self._failed:
            return ServiceState(name=name, phase=ServicePhase.FAILED, detail="the process ended")
        is_defined = name in self._list_definitions()
        phase = ServicePhase.STOPPED if is_defined else ServicePhase.ABSENT
        return ServiceState(name=name, phase=phase)

    def start(self, name: str) -> None:
        digest = self._read_digest(name)
        if self.running.get(name) == digest:
            return
        self.is_up = True
        self._stop(name)
        if name in self.refused:
            raise SupervisorError(f"{name} cannot be started: the test says so")
        self._make_folder(name)
        with self._effect(f"start:{name}"):
            self._spawn(name, digest)

    def stop(self, name: str) -> None:
        self._stop(name)

    def restart(self, name: str) -> None:
        self.stop(name)
        self.start(name)

    def find_orphans(self, name: str) -> tuple[ServiceState, ...]:
        left = [each for each in self._left.get(name, ()) if self._is_alive(each)]
        return tuple(_describe(name, ServicePhase.UNKNOWN, each) for each in left)

    # How it works.

    def _definition_path(self, name: str) -> str:
        return f"{self.folder}/programs/{name}.json"

    def _list_definitions(self) -> set[str]:
        try:
            names = self.host.list_folder(f"{self.folder}/programs")
        except NotFound:
            return set()
        return {name.removesuffix(".json") for name in names if name.endswith(".json")}

    def _read_digest(self, name: str) -> str:
        digest: str = self._read_definition(name)["env"][DIGEST]
        return digest

    def _read_definition(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.host.read_text(self._definition_path(name)))
        except NotFound as error:
            raise SupervisorError(f"there is no service {name} to start") from error
        return found

    def _make_folder(self, name: str) -> None:
        definition = self._read_definition(name)
        if self.host.stat(definition["directory"]) is None:
            self.host.make_folder(definition["directory"], 0o700, definition["user"] or "")

    def _spawn(self, name: str, digest: str) -> None:
        self._failed.discard(name)
        if name in self.crashing:
            self._failed.add(name)
            return
        pid, self._next_pid = self._next_pid, self._next_pid + 1
        held = Running(pid=pid, process=f"{pid}:{pid * 100}", digest=digest)
        self.host.processes[pid] = held.process
        self._held[name] = held
        if self.has_begun is not None:
            self.has_begun(name, held)

    def _stop(self, name: str) -> None:
        if name not in self._held:
            return
        with self._effect(f"stop:{name}"):
            self.host.processes.pop(self._held.pop(name).pid, None)

    def _is_alive(self, running: Running) -> bool:
        return self.host.processes.get(running.pid) == running.process

    @contextmanager
    def _effect(self, effect: str) -> Iterator[None]:
        if self.fuse is not None:
            self.fuse("before", effect)
        yield
        self.effects.append(effect)
        if self.fuse is not None:
            self.fuse("after", effect)


def _image(text: str) -> Image:
    return Image(digest=digest_text(text), mode=0o600, content=text)


def _describe(name: str, phase: ServicePhase, running: Running) -> ServiceState:
    detail = "left behind by a manager that died" if phase is ServicePhase.UNKNOWN else ""
    return ServiceState(
        name=name,
        phase=phase,
        pid=running.pid,
        process=running.process,
        digest=running.digest,
        detail=detail,
    )
