"""The life of a supervisord of ours: whether it is up, its start and its end.

Called by the adapter beside it. The daemon puts itself into the background; from then on nothing
but its socket leads to it. A killed daemon leaves a socket and a pid file behind, which the next
one replaces by itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

from stoker.errors import HostError, SupervisorError
from stoker.ports import Clock, Command, CommandResult, Host
from stoker.supervisors.processes import Process, find_family, read_process
from stoker.supervisors.supervisord_client import (
    Fault,
    SupervisordClient,
    SupervisordDown,
    SupervisordRefused,
)
from stoker.supervisors.supervisord_files import SupervisordLayout
from stoker.supervisors.waiting import wait_for

#: All that the daemon, and so every service, inherits.
_ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    # Our files are UTF-8, and supervisord reads them in the encoding of its locale.
    "LANG": "C.UTF-8",
}

#: Each for: going into the background, answering for the first time, ending with nothing to run.
_PATIENCE_SECONDS = 10.0
#: For a daemon that somebody else is shutting down, with services that stop slowly.
_SHUTDOWN_SECONDS = 600.0


class SupervisordDaemon:
    """The one daemon of a state folder, running or not."""

    def __init__(
        self, host: Host, clock: Clock, layout: SupervisordLayout, client: SupervisordClient
    ) -> None:
        self._host = host
        self._clock = clock
        self._layout = layout
        self._client = client

    def is_up(self) -> bool:
        """Whether it answers. One that is shutting down is waited for, and is then down."""
        self.check_socket_folder()
        if not wait_for(self._has_settled, clock=self._clock, seconds=_SHUTDOWN_SECONDS):
            raise SupervisorError("supervisord is shutting down and does not come to an end")
        return self._answers()

    def start(self) -> None:
        """Start it with the files that are there. Nothing starts with it."""
        socket_folder = posixpath.dirname(self._layout.socket_path)
        for folder in (self._layout.folder, self._layout.logs, socket_folder):
            self._host.make_folder(folder, 0o700)
        self.check_socket_folder()
        result = self._run()
        if result.exit_status != 0:
            said = (result.stderr or result.stdout).strip().splitlines()
            reason = said[0].removeprefix("Error: ") if said else f"exit {result.exit_status}"
            raise self._failure(reason)
        if not wait_for(self._answers, clock=self._clock, seconds=_PATIENCE_SECONDS):
            raise self._failure("it does not answer")

    def end(self) -> None:
        """End it and wait until it is gone; its services have been stopped."""
        daemon = read_process(self._host, self._client.read_pid())
        self._client.shut_down()
        is_gone = wait_for(
            lambda: self._is_gone(daemon), clock=self._clock, seconds=_PATIENCE_SECONDS
        )
        if not is_gone:
            raise SupervisorError("supervisord was told to end and has not ended")

    def find_held(self, processes: Sequence[Process]) -> frozenset[str]:
        """The identities of all that belongs to the running daemon, itself included."""
        pid = self._client.read_pid()
        held: set[str] = set()
        for process in processes:
            if pid in (process.pid, process.parent):
                held |= {process.identity} | find_family(processes, process)
        return frozenset(held)

    def check_socket_folder(self) -> None:
        """Refuse a folder in which somebody else could answer in the daemon's place."""
        folder = posixpath.dirname(self._layout.socket_path)
        found = self._host.stat(folder)
        home = self._host.stat(self._layout.home)
        if found is None or home is None:
            return
        owner = "root" if self._layout.is_root else home.owner
        if found.kind != "folder" or found.mode & 0o777 != 0o700 or found.owner != owner:
            raise SupervisorError(
                f"supervisord's socket cannot lie in {folder}, where others could put one",
                f"make it a folder of {owner} with mode 0700",
            )

    def _run(self) -> CommandResult:
        command = Command(
            argv=(self._layout.daemon, "-c", self._layout.configuration),
            timeout_seconds=_PATIENCE_SECONDS,
            env=_ENVIRONMENT,
        )
        try:
            return self._host.run(command)
        except HostError as error:
            raise self._failure(error.summary) from error

    def _failure(self, reason: str) -> SupervisorError:
        log = posixpath.join(self._layout.folder, "supervisord.log")
        return SupervisorError(f"supervisord did not start: {reason}", f"see {log}")

    def _answers(self) -> bool:
        try:
            self._client.read_pid()
        except SupervisordDown:
            return False
        return True

    def _has_settled(self) -> bool:
        try:
            self._answers()
        except SupervisordRefused as refusal:
            return refusal.code != Fault.SHUTDOWN_STATE
        return True

    def _is_gone(self, daemon: Process | None) -> bool:
        if daemon is not None and read_process(self._host, daemon.pid) == daemon:
            return False
        return self._host.stat(self._layout.socket_path) is None
