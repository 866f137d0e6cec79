"""The Supervisor port over systemd: one unit a service, spoken to over D-Bus.

Built by the command layer for machines whose process 1 is systemd, or for one user's own manager.
A definition is a whole unit file; that a service starts at boot is written in it, and the link
that systemd makes of it follows with the next reload. The control group holds whatever a service
forks, so nothing outlives a stop.

A unit that no Stoker with this state folder has written is never touched, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from stoker.errors import HostError, SupervisorError
from stoker.model.facts import Facts, Trial
from stoker.model.launch import Drift, DriftKind, Service, ServicePhase, ServiceState
from stoker.model.plan import Image
from stoker.ports import Clock, Host, SupervisorProperties
from stoker.supervisors import stamps
from stoker.supervisors.logs import rotate_log
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
from stoker.supervisors.systemd_definitions import Definitions
from stoker.supervisors.systemd_drift import Seen, find_difference, find_edit
from stoker.supervisors.systemd_journal import Message, last_errors, read_journal
from stoker.supervisors.systemd_sandbox import choose_layers, describe_trial
from stoker.supervisors.systemd_unit import (
    SystemdLayout,
    is_service_name,
    is_too_old,
    is_wanted,
    parse_digest,
    parse_folder,
    parse_layers,
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
#: Until a process runs that then takes its time to become ready.
_BEGIN_SECONDS = 90.0
#: A stop has its timeout twice: until the KILL, and until that has had its effect.
_STOP_ROUNDS = 2
#: From the fork of a service until its program runs.
_EXEC_SECONDS = 5.0
#: Of the manager's own messages, so many are looked through for the reason of a failed start.
_MESSAGE_COUNT = 40


class SystemdSupervisor:
    """See :class:`stoker.ports.Supervisor`."""

    def __init__(self, host: Host, clock: Clock, layout: SystemdLayout) -> None:
        self._host = host
        self._clock = clock
        self._layout = layout
        self._definitions = Definitions(host, layout)

    @property
    def properties(self) -> SupervisorProperties:
        """A user's manager runs services as that user alone, and at boot only if it lingers."""
        is_system = self._layout.scope == "system"
        return SupervisorProperties(
            kind="systemd", starts_on_boot=is_system or self._lingers(), changes_user=is_system
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

    def read_messages(self, name: str, line_count: int) -> tuple[str, ...]:
        """See :meth:`stoker.ports.Supervisor.read_messages`."""
        return tuple(str(message) for message in self._read_journal(name, line_count))

    def check_usable(self) -> None:
        """See :meth:`stoker.ports.Supervisor.check_usable`."""
        if self._layout.scope == "system" and not self._layout.is_root:
            raise SupervisorError(
                "the services of this machine are for root alone to change",
                "run it as root: sudo stoker ...",
            )
        try:
            version = self._bus.read_version()
        except SystemdDown as down:
            raise SupervisorError(down.summary, self._hint_at(down)) from down
        if is_too_old(version):
            raise SupervisorError(
                f"systemd {version} is too old for the units that Stoker writes",
                "keep the service by another one: service.supervisor: supervisord",
            )

    def check_foreign(self, name: str) -> None:
        """Raise SupervisorError when the name is taken: by a mask or by somebody else's unit.

        To be asked before a definition is written. Without a bus only the file itself tells.
        """
        definition = self._definitions.read(name)
        with suppress(SystemdDown):
            unit = self._bus.read(unit_name(name))
            if unit.load == "masked":
                raise self._definitions.masked(name)
            is_elsewhere = unit.path not in ("", self._layout.unit(name))
            is_left = definition is None and not unit.is_ended and not self._is_of_ours(unit, name)
            if is_elsewhere or is_left:
                raise self._definitions.foreign(name, unit.path or "it runs without a file")

    def describe_trial(self) -> Trial:
        """See :meth:`stoker.ports.Supervisor.describe_trial`."""
        return describe_trial(self._layout)

    def fit(self, name: str, facts: Facts) -> SystemdSupervisor:
        """See :meth:`stoker.ports.Supervisor.fit`."""
        layers = choose_layers(self._layout, facts)
        if layers is None:
            with suppress(SupervisorError):
                layers = parse_layers(self._definitions.read(name) or "")
        if layers is None:
            return self
        layout = replace(self._layout, layers=layers & self._layout.layers)
        return SystemdSupervisor(self._host, self._clock, layout)

    def reload(self) -> None:
        """See :meth:`stoker.ports.Supervisor.reload`.

        What is gone is stopped under the definition that systemd still has in memory.
        """
        definitions = dict(self._definitions.list_own())
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
        definition = self._definitions.require(name)
        self._bus.reload()
        unit = self._bus.read(unit_name(name))
        is_current = self._read_digest(unit) == parse_digest(definition)
        member = "StartUnit" if unit.is_ended or is_current else "RestartUnit"
        self._begin(name, member, definition)

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
        definition = self._definitions.require(name)
        self._bus.reload()
        self._begin(name, "RestartUnit", definition)

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

    def find_drift(self, service: Service) -> tuple[Drift, ...]:
        """See :meth:`stoker.ports.Supervisor.find_drift`. Without a bus only the file tells."""
        name, path = service.name, self._layout.unit(service.name)
        try:
            definition = self._definitions.read(name)
        except SupervisorError as error:
            return (Drift(kind=DriftKind.EDITED, path=path, sentence=error.summary),)
        drift = tuple(find_edit(definition, path=path, digest=service.digest))
        try:
            unit = self._bus.read(unit_name(name))
        except SystemdDown:
            return drift
        if not self._is_of_ours(unit, name):
            return drift
        seen = Seen(
            path=path,
            beside=self._definitions.list_beside(name),
            changed_at_seconds=self._definitions.find_change_seconds(name),
            read_at_seconds=self._find_reading_seconds(),
            edited_at_seconds=self._definitions.find_edit_seconds(name, definition),
            unit=unit,
            environment=read_environment(self._host, unit.pid) if unit.pid else {},
        )
        wanted = stamps.stamped_environment(service, home=self._layout.home)
        return (*drift, *find_difference(seen, wanted=wanted))

    @cached_property
    def _bus(self) -> SystemdBus:
        # Late, for it is slow to import and needed by few commands.
        from stoker.supervisors.systemd_bus import SystemdBus

        return SystemdBus(self._layout.bus_address, systemctl=self._definitions.systemctl)

    def _find_reading_seconds(self) -> float:
        """When systemd last read its units, since the epoch; 0 where it does not say."""
        with suppress(SystemdDown):
            return self._bus.read_reading().by_clock(
                now_seconds=self._clock.now_seconds(),
                monotonic_seconds=self._clock.monotonic_seconds(),
            )
        return 0

    def _lingers(self) -> bool:
        """Whether a user's manager runs from boot on, and goes on after a logout."""
        with suppress(HostError):
            return bool(self._layout.linger) and self._host.stat(self._layout.linger) is not None
        return False

    def _hint_at(self, down: SystemdDown) -> str:
        """What to do where no manager answers."""
        if self._layout.scope == "system":
            return (
                "systemd is spoken to by D-Bus: install and start it (Debian: apt install dbus), "
                "or keep the service by another one: service.supervisor: supervisord"
            )
        if down.is_refused:
            return "run it for the whole machine: sudo stoker ...; or as the user it belongs to"
        return (
            "a systemd of your own runs while you are logged in, and for ever after "
            "`sudo loginctl enable-linger $USER`; or run it for the whole machine: sudo stoker ..."
        )

    def _read_journal(self, name: str, line_count: int) -> tuple[Message, ...]:
        if not is_service_name(name):
            return ()
        return read_journal(
            self._host,
            unit_name(name),
            user_id=self._layout.user_id,
            line_count=line_count,
        )

    # Whose they are.

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

    # Starting at boot.

    def _settle_links(self, definitions: Mapping[str, str]) -> None:
        """Let exactly those services start at boot whose definition says so."""
        linked = set(self._definitions.list_linked())
        defined = {unit_name(name): is_wanted(text) for name, text in definitions.items()}
        wanted = {unit for unit, is_so in defined.items() if is_so}
        is_there = self._definitions.is_linked_to_a_file
        stale = {unit for unit in linked - wanted if unit in defined or not is_there(unit)}
        if stale:
            self._bus.disable(stale)
        if wanted - linked:
            self._bus.enable(wanted - linked)

    # Starting and stopping.

    def _begin(self, name: str, member: str, definition: str) -> None:
        """Run a job that starts the service, and wait until its program runs."""
        unit = self._check_loaded(name)
        self._make_folders(name, definition)
        self._bus.reset_failed(unit_name(name))
        begin_seconds = min(unit.start_seconds, _BEGIN_SECONDS)
        seconds = begin_seconds + _STOP_ROUNDS * unit.stop_seconds + _JOB_MARGIN_SECONDS
        end = self._bus.run_job(
            member, unit_name(name), seconds=seconds, has_begun=_runs_before_it_is_ready
        )
        if end.result not in (DONE, BEGUN):
            raise self._give_up(name, end)
        # Between its fork and its exec a process does not carry its stamps yet.
        wait_for(lambda: self._has_begun(end.unit.pid), clock=self._clock, seconds=_EXEC_SECONDS)

    def _make_folders(self, name: str, definition: str) -> None:
        """What a start needs: a log that is not too large, and the service's own folder."""
        self._host.make_folder(self._layout.logs, 0o700)
        rotate_log(self._host, self._layout.log(name))
        folder, user = parse_folder(definition)
        if not folder:
            return
        with suppress(HostError):
            raise SupervisorError(
                f"{folder} is a link to {self._host.read_link(folder)!r}, so {name} cannot have "
                "it as its folder",
                "remove the link, or put a folder in its place",
            )
        self._host.make_folder(folder, 0o700, user)

    def _check_loaded(self, name: str) -> LoadedUnit:
        unit = self._bus.read(unit_name(name))
        if unit.load == "masked":
            raise self._definitions.masked(name)
        if unit.path and unit.path != self._layout.unit(name):
            raise self._definitions.foreign(name, unit.path)
        if unit.load != "loaded":
            reason = unit.load_error or unit.load
            raise SupervisorError(f"systemd cannot load {unit_name(name)}: {reason}")
        return unit

    def _give_up(self, name: str, end: JobEnd) -> SupervisorError:
        """What to say of a start that failed; nothing goes on trying behind the caller's back."""
        if end.result == FAILED:
            self._stop(name)
        reason = describe_end(end.unit) or describe(end.unit) or f"its job was {end.result}"
        messages = last_errors(self._read_journal(name, _MESSAGE_COUNT))
        lines = "".join(f"\n    {message}" for message in messages)
        told = f"; systemd says:{lines}" if lines else ""
        return SupervisorError(
            f"systemd could not start {name}: {reason}{told}", f"see {self._layout.log(name)}"
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
            detail="; ".join(filter(None, (describe(unit), *self._explain_end(name, unit)))),
        )

    def _explain_end(self, name: str, unit: LoadedUnit) -> tuple[str, ...]:
        """What systemd wrote of a start that failed before the service's own program ran."""
        if unit.pid or not unit.is_unbegun:
            return ()
        return last_errors(self._read_journal(name, _MESSAGE_COUNT))

    def _describe_absent(self, name: str, unit: LoadedUnit) -> ServiceState:
        """A service without a unit of ours, or with one that systemd has not read yet."""
        detail = ""
        is_defined = False
        try:
            is_defined = self._definitions.read(name) is not None
        except SupervisorError as error:
            detail = error.summary
        if not detail and unit.load not in ("not-found", "") and not is_defined:
            detail = self._definitions.foreign(name, unit.path).summary
        phase = ServicePhase.STOPPED if is_defined else ServicePhase.ABSENT
        return ServiceState(name=name, phase=phase, detail=detail)

    def _describe_blind(self, name: str, down: SystemdDown) -> ServiceState:
        """How a service stands when nobody can be asked: its processes speak for it."""
        for process in self._find_stamped(name):
            return self._describe_process(name, process, down.summary)
        with suppress(SupervisorError):
            if self._definitions.read(name) is not None:
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
