"""The Supervisor port over a supervisord of our own: one daemon for one state folder.

Built by the command layer for hosts without systemd. The daemon runs from its own environment,
knows only the files in its folder and starts nothing by itself: every start is asked for here. It
comes with the first definition and goes with the last. In between it is never restarted, not for
a new configuration nor for a newer daemon, because that would stop the engines.

What supervisord does not do is done here, through the process table: it loses sight of processes
whose leader has ended, and a new daemon knows nothing of what a killed one left running.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import HostError, NotFound, SupervisorError
from stoker.model.facts import Facts
from stoker.model.launch import Drift, Service, ServicePhase, ServiceState
from stoker.model.plan import Image
from stoker.ports import Clock, Host, SupervisorProperties
from stoker.supervisors import stamps
from stoker.supervisors.logs import read_lines_about
from stoker.supervisors.processes import (
    Process,
    find_family,
    read_environment,
    read_line_of_descent,
    read_process,
    read_processes,
    sees_same_folder,
)
from stoker.supervisors.supervisord_client import (
    ENDED_STATES,
    Fault,
    Program,
    ProgramState,
    SupervisordClient,
    SupervisordDown,
    SupervisordRefused,
    allowing,
)
from stoker.supervisors.supervisord_daemon import SupervisordDaemon
from stoker.supervisors.supervisord_drift import Seen, find_drift
from stoker.supervisors.supervisord_files import (
    SupervisordLayout,
    is_program_name,
    parse_directory,
    parse_stop_seconds,
    render_daemon,
    render_program,
    socket_path_for,
)
from stoker.supervisors.waiting import wait_for

__all__ = ["SupervisordLayout", "SupervisordSupervisor", "socket_path_for"]

#: A service's own folder is nobody else's affair.
_DIRECTORY_MODE = 0o700
#: From the fork of a service until its program runs.
_EXEC_SECONDS = 5.0
#: What a stop may take beyond its own timeout, at which supervisord itself kills.
_STOP_MARGIN_SECONDS = 10.0
#: The same where nobody knows the timeout any more, since the definition is gone.
_UNKNOWN_STOP_SECONDS = 600.0
#: For a process that outlived its leader: it has had its TERM together with it.
_SURVIVOR_SECONDS = 2.0
#: A process may fork while its siblings are being ended; so often they are looked for.
_SWEEPS = 3

_PHASES = {
    ProgramState.STOPPED: ServicePhase.STOPPED,
    ProgramState.STARTING: ServicePhase.STARTING,
    ProgramState.RUNNING: ServicePhase.RUNNING,
    ProgramState.BACKOFF: ServicePhase.BACKOFF,
    ProgramState.STOPPING: ServicePhase.STOPPING,
    ProgramState.FATAL: ServicePhase.FAILED,
    ProgramState.UNKNOWN: ServicePhase.UNKNOWN,
}


class SupervisordSupervisor:
    """See :class:`stoker.ports.Supervisor`."""

    def __init__(self, host: Host, clock: Clock, layout: SupervisordLayout) -> None:
        self._host = host
        self._clock = clock
        self._layout = layout
        self._client = SupervisordClient(layout.socket_path)
        self._daemon = SupervisordDaemon(host, clock, layout, self._client)

    @property
    def properties(self) -> SupervisorProperties:
        """Services do not come back after a boot: nothing starts this daemon then."""
        return SupervisorProperties(
            kind="supervisord", starts_on_boot=False, changes_user=self._layout.is_root
        )

    def render(self, service: Service) -> Mapping[str, Image]:
        """See :meth:`stoker.ports.Supervisor.render`.

        Raises SupervisorError for a service that supervisord's configuration cannot express.
        """
        return render_program(service, self._layout)

    def check_usable(self) -> None:
        """See :meth:`stoker.ports.Supervisor.check_usable`: this daemon is ours to start."""

    def check_foreign(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.check_foreign`: all of this daemon's are ours."""

    def describe_trial(self) -> None:
        """See :meth:`stoker.ports.Supervisor.describe_trial`: there is no sandbox to try."""

    def fit(self, name: str, facts: Facts) -> SupervisordSupervisor:
        """See :meth:`stoker.ports.Supervisor.fit`: it runs services in the same way everywhere."""
        return self

    def render_shared(self) -> Mapping[str, Image]:
        """See :meth:`stoker.ports.Supervisor.render_shared`."""
        return render_daemon(self._layout)

    def log_path(self, name: str) -> str:
        """See :meth:`stoker.ports.Supervisor.log_path`."""
        return self._layout.log(name)

    def read_messages(self, name: str, line_count: int) -> tuple[str, ...]:
        """See :meth:`stoker.ports.Supervisor.read_messages`."""
        return read_lines_about(self._host, self._layout.daemon_log, name, line_count=line_count)

    def find_drift(self, service: Service) -> tuple[Drift, ...]:
        """See :meth:`stoker.ports.Supervisor.find_drift`."""
        path = self._layout.program(service.name)
        try:
            definition: str | None = self._host.read_text(path)
        except HostError:
            definition = None
        try:
            program = self._read_program(service.name)
            unread = self._find_unread(service.name)
        except SupervisordDown:
            program, unread = None, ""
        pid = program.pid if program else 0
        environment = read_environment(self._host, pid) if pid else {}
        wanted = stamps.stamped_environment(service, home=self._layout.home)
        return find_drift(
            Seen(path=path, definition=definition, unread=unread, environment=environment),
            wanted=wanted,
        )

    def _find_unread(self, name: str) -> str:
        """Why the daemon does not go by the file of a program; empty if it does."""
        try:
            difference = self._client.reread()
        except SupervisordRefused as refusal:
            return refusal.summary
        is_unread = name in {*difference.added, *difference.changed}
        return "supervisord has not taken it up since it was changed" if is_unread else ""

    def reload(self) -> None:
        """See :meth:`stoker.ports.Supervisor.reload`."""
        is_wanted = self._has_definitions()
        if not self._daemon.is_up():
            if is_wanted:
                self._daemon.start()
        elif is_wanted:
            self._take_up_all()
        else:
            for name in self._client.read_names():
                self._stop(name)
            self._daemon.end()

    def state(self, name: str) -> ServiceState:
        """See :meth:`stoker.ports.Supervisor.state`.

        UNKNOWN when the daemon has died and left a process of this service behind.
        """
        self._daemon.check_socket_folder()
        try:
            program = self._read_settled(name)
        except SupervisordDown:
            return self._describe_left(name)
        except SupervisordRefused as refusal:
            if refusal.code != Fault.SHUTDOWN_STATE:
                raise
            return ServiceState(name=name, phase=ServicePhase.STOPPING, detail=refusal.summary)
        return self._describe_idle(name) if program is None else self._describe(name, program)

    def start(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.start`.

        A service that runs under an older definition is stopped first.
        """
        if not self._is_defined(name):
            raise SupervisorError(f"there is no service {name} to start: it has no definition")
        if not self._daemon.is_up():
            self._daemon.start()
        self._make_directory(name)
        self._take_up(name)
        self._begin(name)
        # Between its fork and its exec a process does not carry its stamps yet.
        wait_for(lambda: self._has_begun(name), clock=self._clock, seconds=_EXEC_SECONDS)

    def stop(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.stop`."""
        if self._daemon.is_up():
            self._stop(name)

    def restart(self, name: str) -> None:
        """See :meth:`stoker.ports.Supervisor.restart`."""
        self.stop(name)
        self.start(name)

    def find_orphans(self, name: str) -> tuple[ServiceState, ...]:
        """See :meth:`stoker.ports.Supervisor.find_orphans`."""
        processes = read_processes(self._host)
        held = self._daemon.find_held(processes) if self._daemon.is_up() else frozenset[str]()
        line = read_line_of_descent(self._host)
        left = (
            process
            for process in processes
            if process.identity not in held and process.pid not in line
        )
        found = (self._describe_orphan(name, process) for process in left)
        return tuple(orphan for orphan in found if orphan is not None)

    # Definitions.

    def _is_defined(self, name: str) -> bool:
        return is_program_name(name) and self._host.stat(self._layout.program(name)) is not None

    def _make_directory(self, name: str) -> None:
        """Make the folder that the service works in, if it is not there."""
        text = self._host.read_text(self._layout.program(name))
        place = parse_directory(text)
        if place is not None and self._host.stat(place.path) is None:
            self._host.make_folder(place.path, _DIRECTORY_MODE, place.user)

    def _has_definitions(self) -> bool:
        try:
            names = self._host.list_folder(self._layout.programs)
        except NotFound:
            return False
        return any(name.endswith(".conf") for name in names)

    def _take_up_all(self) -> None:
        """Let the daemon go by its files, except for what runs and is still defined."""
        difference = self._client.reread()
        for name in difference.removed:
            self._stop(name)
            self._client.remove(name)
        for name in difference.added:
            self._client.add(name)
        for name in difference.changed:
            program = self._read_settled(name)
            if program is not None and program.state in ENDED_STATES:
                self._replace(name)

    def _take_up(self, name: str) -> None:
        """Let the daemon go by the file of one service, even if that stops the service."""
        difference = self._client.reread()
        if name in difference.added:
            self._client.add(name)
        elif name in difference.changed:
            self._stop(name)
            self._replace(name)

    def _replace(self, name: str) -> None:
        self._client.remove(name)
        self._client.add(name)

    # Starting and stopping.

    def _begin(self, name: str) -> None:
        program = self._read_program(name)
        if program is not None and program.state is ProgramState.STOPPING:
            # supervisord would say that it has started it, and do nothing.
            self._stop(name)
        try:
            with allowing(Fault.ALREADY_STARTED):
                self._client.start(name)
        except SupervisordRefused as refusal:
            if refusal.code != Fault.SPAWN_ERROR or not self._was_too_quick(name):
                raise

    def _was_too_quick(self, name: str) -> bool:
        """Whether there was a process; supervisord says the same when it could not fork."""
        program = self._read_program(name)
        # supervisor 4.3.0, process.py: finish.
        return program is not None and program.error.startswith("Exited too quickly")

    def _has_begun(self, name: str) -> bool:
        program = self._read_program(name)
        if program is None or program.pid == 0:
            return True
        return stamps.DIGEST in read_environment(self._host, program.pid)

    def _stop(self, name: str) -> None:
        program = self._read_program(name)
        if program is None:
            return
        processes = read_processes(self._host)
        leader = next((process for process in processes if process.pid == program.pid), None)
        family = find_family(processes, leader) if leader else frozenset[str]()
        with allowing(Fault.NOT_RUNNING):
            self._client.stop(name)
        seconds = self._stop_seconds(name)
        wait_for(lambda: self._has_ended(name), clock=self._clock, seconds=seconds)
        if leader is not None:
            self._end_survivors(name, leader, family)
        if not wait_for(
            lambda: self._has_ended(name), clock=self._clock, seconds=_STOP_MARGIN_SECONDS
        ):
            raise SupervisorError(f"supervisord could not stop {name}")

    def _has_ended(self, name: str) -> bool:
        program = self._read_program(name)
        return program is None or program.state in ENDED_STATES

    def _stop_seconds(self, name: str) -> float:
        try:
            definition = self._host.read_text(self._layout.program(name))
        except NotFound:
            return _UNKNOWN_STOP_SECONDS
        seconds = parse_stop_seconds(definition)
        return _UNKNOWN_STOP_SECONDS if seconds is None else seconds + _STOP_MARGIN_SECONDS

    def _end_survivors(self, name: str, leader: Process, family: frozenset[str]) -> None:
        """End what has outlived its leader; ``family`` is what it was before the stop."""
        for _ in range(_SWEEPS):
            survivors = self._find_survivors(leader, family)
            if not survivors:
                return
            for process in survivors:
                self._host.end_process(process.pid, process.identity, _SURVIVOR_SECONDS)
        left = [str(process.pid) for process in self._find_survivors(leader, family)]
        if left:
            raise SupervisorError(f"processes of {name} cannot be ended: {', '.join(left)}")

    def _find_survivors(self, leader: Process, family: frozenset[str]) -> tuple[Process, ...]:
        processes = read_processes(self._host)
        # The group once more: it may have grown since.
        identities = family | find_family(processes, leader)
        return tuple(process for process in processes if process.identity in identities)

    # What supervisord says, and in which words.

    def _read_program(self, name: str) -> Program | None:
        # Anything else could be supervisord's word for a group, and so for other services.
        return self._client.read_program(name) if is_program_name(name) else None

    def _read_settled(self, name: str) -> Program | None:
        """How a program stands once supervisord has drawn its conclusions.

        It answers in the middle of its loop, and starts an exited process again at the end of the
        same turn. So EXITED may be out of date, and counts when it is said twice.
        """
        program = self._read_program(name)
        if program is not None and program.state is ProgramState.EXITED:
            return self._read_program(name)
        return program

    def _describe(self, name: str, program: Program) -> ServiceState:
        phase, detail = _name_phase(program)
        process = read_process(self._host, program.pid) if program.pid else None
        environment = read_environment(self._host, program.pid) if process else {}
        return ServiceState(
            name=name,
            phase=phase,
            pid=program.pid,
            process=process.identity if process else "",
            digest=environment.get(stamps.DIGEST, ""),
            detail=detail,
        )

    def _describe_idle(self, name: str) -> ServiceState:
        phase = ServicePhase.STOPPED if self._is_defined(name) else ServicePhase.ABSENT
        return ServiceState(name=name, phase=phase)

    def _describe_left(self, name: str) -> ServiceState:
        """How a service stands without a daemon: its first orphan speaks for it, if it has one."""
        orphans = self.find_orphans(name)
        return orphans[0] if orphans else self._describe_idle(name)

    def _describe_orphan(self, name: str, process: Process) -> ServiceState | None:
        environment = read_environment(self._host, process.pid)
        home = self._layout.home
        is_ours = stamps.is_stamped(environment, name=name, home=home)
        if not (is_ours and sees_same_folder(self._host, process.pid, home=home)):
            return None
        return ServiceState(
            name=name,
            phase=ServicePhase.UNKNOWN,
            pid=process.pid,
            process=process.identity,
            digest=environment.get(stamps.DIGEST, ""),
            detail=f"process {process.pid} was left behind by a supervisord that died",
        )


def _name_phase(program: Program) -> tuple[ServicePhase, str]:
    """The phase, and a detail in supervisord's words or ours."""
    if program.state is not ProgramState.EXITED:
        return _PHASES[program.state], program.error
    if program.exit_status < 0:
        return ServicePhase.FAILED, "ended by a signal"
    phase = ServicePhase.FAILED if program.exit_status else ServicePhase.STOPPED
    return phase, f"exited with status {program.exit_status}"
