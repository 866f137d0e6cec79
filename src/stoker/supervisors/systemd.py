"""The Supervisor port over systemd: one unit a service, spoken to over D-Bus.

Built by the command layer for machines whose process 1 is systemd, or for one user's own manager.
A definition is a whole unit file; that a service starts at boot is written in it, and the link
that systemd makes of it follows with the next reload. The control group holds whatever a service
forks, so nothing outlives a stop.

A unit that no Stoker with this state folder has written is never touched, whatever its name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from stoker.errors import HostError, NotFound, SupervisorError
from stoker.model.launch import Service, ServicePhase, ServiceState
from stoker.model.plan import Image
from stoker.ports import Clock, Host, SupervisorProperties
from stoker.supervisors import stamps
from stoker.supervisors.processes import (
    Process,
    read_environment,
    read_line_of_descent,
    read_process,
    read_processes,
    sees_same_folder,
)
from stoker.supervisors.systemd_answers import (
    BEGUN,
    DONE,
    FAILED,
    JobEnd,
    LoadedUnit,
    SystemdDown,
    describe,
    describe_end,
    name_phase,
)
from stoker.supervisors.systemd_unit import (
    SystemdLayout,
    is_own,
    is_service_name,
    is_wanted,
    parse_digest,
    render_unit,
    service_name,
    unit_name,
    user_layout,
)
from stoker.supervisors.waiting import wait_for

if TYPE_CHECKING:
    from stoker.supervisors.systemd_bus import SystemdBus

__all__ = ["SystemdLayout", "SystemdSupervisor", "user_layout"]

#: What a job may take beyond the unit's own timeouts: it may wait for others.
_JOB_MARGIN_SECONDS = 30.0
#: A stop has its timeout twice: until the KILL, and until that has had its effect.
_STOP_ROUNDS = 2
#: From the fork of a service until its program runs.
_EXEC_SECONDS = 5.0
#: Where a masked unit's link points.
_MASK = "/dev/null"


class SystemdSupervisor:
    """See :class:`stoker.ports.Supervisor`."""

    def __init__(self, host: Host, clock: Clock, layout: SystemdLayout) -> None:
        self._host = host
        self._clock = clock
        self._layout = layout

    @property
    def properties(self) -> SupervisorProperties:
        """A user's manager runs services as that user alone."""
        return SupervisorProperties(
            kind="systemd", starts_on_boot=True, changes_user=self._layout.scope == "system"
        )

    def render(self, service: Service) -> Mapping[str, Image]:
        """See :meth:`stoker.ports.Supervisor.render`.

        Raises SupervisorError for a service that a unit cannot express.
        """
        return render_unit(service, self._layout)

    def render_shared(self) -> Mapping[str, Image]:
        """Nothing: systemd needs no file but the units."""
        return {}

    def log_path(self, name: str) -> str:
        """See :meth:`stoker.ports.Supervisor.log_path`."""
        return self._layout.log(name)

    def check_foreign(self, name: str) -> None:
        """Raise SupervisorError when the name is taken: by a mask or by somebody else's unit.

        To be asked before a definition is written. Without a bus only the file itself tells.
        """
        definition = self._read_own(name)
        with suppress(SystemdDown):
            unit = self._bus.read(unit_name(name))
            is_elsewhere = unit.path not in ("", self._layout.unit(name))
            is_left = definition is None and not unit.is_ended and not self._is_of_ours(unit, name)
            if is_elsewhere or is_left:
                raise self._foreign(name, unit.path or "it runs without a file")

    def reload(self) -> None:
        """See :meth:`stoker.ports.Supervisor.reload`.

        What is gone is stopped under the definition that systemd still has in memory.
        """
        definitions = dict(self._list_own())
        gone = [name for name in self._list_loaded() if name not in definitions]
        for name in gone:
            self._stop(name)
        self._settle_links(definitions)
        self._bus.reload()
        for name in gone:
            self._bus.reset_failed(unit_name(name))

    def state(self, name: str) -> ServiceState:
        """See :meth:`stoker.ports.Supervisor.state`.

        UNKNOWN when processes of this service run and systemd does not answer.
        """
        if not is_service_name(name):
            return ServiceState(name=name, phase=ServicePhase.ABSENT)
        try:
            unit = self._bus.read(unit_name(name))
        except SystemdDown as down:
            return self._describe_blind(name, down)
        if not self._is_of_ours(unit, name):
            return self._describe_absent(name, unit)
        return self._describe(name, unit)

    def start(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.start`.

        A service that runs under an older definition is started anew.
        """
        definition = self._require_own(name)
        self._bus.reload()
        unit = self._bus.read(unit_name(name))
        is_current = self._read_digest(unit) == parse_digest(definition)
        member = "StartUnit" if unit.is_ended or is_current else "RestartUnit"
        self._begin(name, member)

    def stop(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.stop`."""
        if not is_service_name(name):
            return
        try:
            unit = self._bus.read(unit_name(name))
        except SystemdDown:
            if self._find_stamped(name):
                raise
            return
        if self._is_of_ours(unit, name):
            self._stop(name)

    def restart(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.restart`.

        In one step for systemd, which finishes it even when nobody waits any more.
        """
        self._require_own(name)
        self._bus.reload()
        self._begin(name, "RestartUnit")

    def find_orphans(self, name: str) -> tuple[ServiceState, ...]:
        """See :meth:`stoker.ports.Supervisor.find_orphans`.

        A control group keeps what is in it; these have left it, or never were in it.
        """
        line = read_line_of_descent(self._host)
        home = self._layout.home
        return tuple(
            self._describe_process(name, process, "it runs outside of the service's control group")
            for process in self._find_stamped(name)
            if process.pid not in line
            and not self._is_held(name, process)
            and sees_same_folder(self._host, process.pid, home=home)
        )

    @cached_property
    def _bus(self) -> SystemdBus:
        # Late, for it is slow to import and needed by few commands.
        from stoker.supervisors.systemd_bus import SystemdBus

        return SystemdBus(self._layout.bus_address, systemctl=self._systemctl)

    @property
    def _systemctl(self) -> str:
        """How a person calls this manager."""
        if self._layout.scope == "user":
            return "systemctl --user"
        return "systemctl" if self._layout.is_root else "sudo systemctl"

    # Definitions, and whose they are.

    def _read_own(self, name: str) -> str | None:
        """The text of our definition, None if there is none.

        Raises SupervisorError when somebody else's file is in its place.
        """
        path = self._layout.unit(name)
        with suppress(HostError):
            if self._host.read_link(path) == _MASK:
                raise self._masked(name)
        try:
            text = self._host.read_text(path)
        except NotFound:
            return None
        except HostError as error:
            raise SupervisorError(error.summary, error.hint) from error
        if not is_own(text, home=self._layout.home):
            raise self._foreign(name, path)
        return text

    def _require_own(self, name: str) -> str:
        definition = self._read_own(name)
        if definition is None:
            raise SupervisorError(f"there is no service {name} to start: it has no unit")
        return definition

    def _list_own(self) -> Iterator[tuple[str, str]]:
        """The names and definitions of our services."""
        try:
            files = self._host.list_folder(self._layout.unit_folder)
        except NotFound:
            return
        for name in filter(None, map(service_name, files)):
            with suppress(SupervisorError):
                definition = self._read_own(name)
                if definition is not None:
                    yield name, definition

    def _list_loaded(self) -> Iterator[str]:
        """Our services that systemd has in memory, with or without a file."""
        for name in filter(None, map(service_name, self._bus.list_units("stoker-*.service"))):
            if self._is_of_ours(self._bus.read(unit_name(name)), name):
                yield name

    def _is_of_ours(self, unit: LoadedUnit, name: str) -> bool:
        """Whether systemd runs, or would run, a service of this state folder by this unit.

        A unit that lost its file has lost its environment as well, but not its process.
        """
        home = f"{stamps.HOME}={self._layout.home}"
        if unit.path not in ("", self._layout.unit(name)):
            return False
        return home in unit.environment or bool(
            unit.pid
            and stamps.is_stamped(
                read_environment(self._host, unit.pid), name=name, home=self._layout.home
            )
        )

    def _foreign(self, name: str, where: str) -> SupervisorError:
        return SupervisorError(
            f"{unit_name(name)} belongs to somebody else: {where}",
            "choose another name for the deployment, or remove that unit yourself",
        )

    def _masked(self, name: str) -> SupervisorError:
        return SupervisorError(
            f"{unit_name(name)} is masked: somebody forbade systemd to start it",
            f"allow it with: {self._systemctl} unmask {unit_name(name)}",
        )

    # Starting at boot.

    def _settle_links(self, definitions: Mapping[str, str]) -> None:
        """Let exactly those services start at boot whose definition says so."""
        linked = set(self._list_linked())
        defined = {unit_name(name): is_wanted(text) for name, text in definitions.items()}
        wanted = {unit for unit, is_so in defined.items() if is_so}
        stale = {unit for unit in linked - wanted if unit in defined or not self._has_file(unit)}
        if stale:
            self._bus.disable(stale)
        if wanted - linked:
            self._bus.enable(wanted - linked)

    def _list_linked(self) -> tuple[str, ...]:
        """The units named like ours that start at boot."""
        try:
            units = self._host.list_folder(self._layout.wants_folder)
        except NotFound:
            return ()
        return tuple(unit for unit in units if service_name(unit))

    def _has_file(self, unit: str) -> bool:
        # The link is followed: wherever somebody else's unit lies, it is there.
        return self._host.stat(posixpath.join(self._layout.wants_folder, unit)) is not None

    # Starting and stopping.

    def _begin(self, name: str, member: str) -> None:
        """Run a job that starts the service, and wait until its program runs."""
        unit = self._check_loaded(name)
        self._host.make_folder(self._layout.logs, 0o700)
        self._bus.reset_failed(unit_name(name))
        seconds = unit.start_seconds + _STOP_ROUNDS * unit.stop_seconds + _JOB_MARGIN_SECONDS
        end = self._bus.run_job(
            member, unit_name(name), seconds=seconds, has_begun=_runs_before_it_is_ready
        )
        if end.result not in (DONE, BEGUN):
            raise self._give_up(name, end)
        # Between its fork and its exec a process does not carry its stamps yet.
        wait_for(lambda: self._has_begun(end.unit.pid), clock=self._clock, seconds=_EXEC_SECONDS)

    def _check_loaded(self, name: str) -> LoadedUnit:
        unit = self._bus.read(unit_name(name))
        if unit.load == "masked":
            raise self._masked(name)
        if unit.path and unit.path != self._layout.unit(name):
            raise self._foreign(name, unit.path)
        if unit.load != "loaded":
            reason = unit.load_error or unit.load
            raise SupervisorError(f"systemd cannot load {unit_name(name)}: {reason}")
        return unit

    def _give_up(self, name: str, end: JobEnd) -> SupervisorError:
        """What to say of a start that failed; nothing goes on trying behind the caller's back."""
        if end.result == FAILED:
            self._stop(name)
        reason = describe_end(end.unit) or describe(end.unit) or f"its job was {end.result}"
        return SupervisorError(
            f"systemd could not start {name}: {reason}", f"see {self._layout.log(name)}"
        )

    def _has_begun(self, pid: int) -> bool:
        is_gone = pid == 0 or read_process(self._host, pid) is None
        return is_gone or stamps.DIGEST in read_environment(self._host, pid)

    def _stop(self, name: str) -> None:
        unit = self._bus.read(unit_name(name))
        if not unit.is_ended:
            seconds = _STOP_ROUNDS * unit.stop_seconds + _JOB_MARGIN_SECONDS
            end = self._bus.run_job("StopUnit", unit_name(name), seconds=seconds)
            if end.result != DONE:
                raise SupervisorError(f"systemd could not stop {name}: its job was {end.result}")
        # One that had to be killed has failed, and so would its next start count.
        self._bus.reset_failed(unit_name(name))
        left = [str(each.pid) for each in self._find_stamped(name) if self._is_held(name, each)]
        if left:
            raise SupervisorError(f"processes of {name} cannot be ended: {', '.join(left)}")

    # How it stands.

    def _describe(self, name: str, unit: LoadedUnit) -> ServiceState:
        process = read_process(self._host, unit.pid) if unit.pid else None
        return ServiceState(
            name=name,
            phase=name_phase(unit),
            pid=unit.pid,
            process=process.identity if process else "",
            digest=self._read_digest(unit) if process else "",
            detail=describe(unit),
        )

    def _describe_absent(self, name: str, unit: LoadedUnit) -> ServiceState:
        """A service without a unit of ours, or with one that systemd has not read yet."""
        detail = ""
        is_defined = False
        try:
            is_defined = self._read_own(name) is not None
        except SupervisorError as error:
            detail = error.summary
        if not detail and unit.load not in ("not-found", "") and not is_defined:
            detail = self._foreign(name, unit.path).summary
        phase = ServicePhase.STOPPED if is_defined else ServicePhase.ABSENT
        return ServiceState(name=name, phase=phase, detail=detail)

    def _describe_blind(self, name: str, down: SystemdDown) -> ServiceState:
        """How a service stands when nobody can be asked: its processes speak for it."""
        for process in self._find_stamped(name):
            return self._describe_process(name, process, down.summary)
        with suppress(SupervisorError):
            if self._read_own(name) is not None:
                return ServiceState(name=name, phase=ServicePhase.STOPPED, detail=down.summary)
        return ServiceState(name=name, phase=ServicePhase.ABSENT, detail=down.summary)

    def _describe_process(self, name: str, process: Process, detail: str) -> ServiceState:
        environment = read_environment(self._host, process.pid)
        return ServiceState(
            name=name,
            phase=ServicePhase.UNKNOWN,
            pid=process.pid,
            process=process.identity,
            digest=environment.get(stamps.DIGEST, ""),
            detail=f"process {process.pid}: {detail}",
        )

    # Processes.

    def _read_digest(self, unit: LoadedUnit) -> str:
        return read_environment(self._host, unit.pid).get(stamps.DIGEST, "") if unit.pid else ""

    def _find_stamped(self, name: str) -> tuple[Process, ...]:
        """All live processes that carry our stamps for this service."""
        home = self._layout.home
        return tuple(
            process
            for process in read_processes(self._host)
            if stamps.is_stamped(read_environment(self._host, process.pid), name=name, home=home)
        )

    def _is_held(self, name: str, process: Process) -> bool:
        """Whether the process is in the control group of the service's unit, or below it."""
        try:
            groups = self._host.read_text(f"/proc/{process.pid}/cgroup")
        except HostError:
            return False
        return any(unit_name(name) in line.split("/") for line in groups.splitlines())


def _runs_before_it_is_ready(unit: LoadedUnit) -> bool:
    """Whether a service that will say by itself that it is ready has been started."""
    return unit.type.startswith("notify") and unit.active == "activating" and unit.pid != 0
