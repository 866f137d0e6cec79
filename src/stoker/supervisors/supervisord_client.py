"""What is said to a supervisord, and what it answers: XML-RPC over its unix socket.

Called by the adapter beside it. The ``supervisor`` package has a transport of its own, but that
package lives in the daemon's environment and not in ours, where it would only be one more thing
to install; the standard library needs one class to speak over a unix socket. Nothing here waits,
tries again or decides.
"""

from __future__ import annotations

import http.client
import socket
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final
from xml.parsers.expat import ExpatError

from stoker.errors import SupervisorError

#: A daemon that does not answer in this time hangs: it never works on a request for long.
_TIMEOUT_SECONDS = 10.0

#: The last argument of startProcess and stopProcess: answer at once. The daemon would keep the
#: request open for as long as the process takes, which we would rather watch.
_WAIT: Final = False


class Fault(IntEnum):
    """Why a request was refused (supervisor 4.3.0, xmlrpc.py: Faults)."""

    SHUTDOWN_STATE = 6
    BAD_NAME = 10
    NO_FILE = 20
    NOT_EXECUTABLE = 21
    FAILED = 30
    SPAWN_ERROR = 50
    ALREADY_STARTED = 60
    NOT_RUNNING = 70
    STILL_RUNNING = 91
    CANT_REREAD = 92


class ProgramState(IntEnum):
    """How a program stands (supervisor 4.3.0, states.py: ProcessStates)."""

    STOPPED = 0
    STARTING = 10
    RUNNING = 20
    BACKOFF = 30
    STOPPING = 40
    EXITED = 100
    FATAL = 200
    UNKNOWN = 1000


#: No process, and none will come by itself (supervisor 4.3.0, states.py: STOPPED_STATES).
ENDED_STATES = frozenset(
    {ProgramState.STOPPED, ProgramState.EXITED, ProgramState.FATAL, ProgramState.UNKNOWN}
)

_SENTENCES = {
    Fault.SHUTDOWN_STATE: "supervisord is shutting down",
    Fault.BAD_NAME: "supervisord does not know this service",
    Fault.NO_FILE: "the program of the service does not exist",
    Fault.NOT_EXECUTABLE: "the program of the service may not be executed",
    Fault.SPAWN_ERROR: "supervisord could not start a process",
    Fault.STILL_RUNNING: "the service still runs",
    Fault.CANT_REREAD: "supervisord cannot read its configuration",
}


class SupervisordDown(SupervisorError):
    """No supervisord listens at the socket."""


class SupervisordRefused(SupervisorError):
    """supervisord answered with a fault; ``code`` is one of :class:`Fault`, or another number."""

    def __init__(self, code: int, summary: str) -> None:
        super().__init__(summary)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What supervisord says of one program.

    ``pid`` is 0 when no process runs. ``exit_status`` is that of the last process, -1 after a
    signal and 0 before there was one. ``error`` is supervisord's own phrase, often empty.
    """

    state: ProgramState
    pid: int
    exit_status: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How the files on the disk differ from what the daemon runs by, as names of programs."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class SupervisordClient:
    """One daemon, by its socket; each request has a connection of its own.

    Every method raises SupervisordDown when nobody listens, SupervisordRefused for a fault and
    SupervisorError when the daemon hangs or answers with something else.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path

    def read_pid(self) -> int:
        """The daemon's own pid."""
        return int(self._call("getPID"))

    def read_program(self, name: str) -> Program | None:
        """How one program stands, or None for one that the daemon does not know."""
        try:
            answer = self._call("getProcessInfo", name)
        except SupervisordRefused as refusal:
            if refusal.code == Fault.BAD_NAME:
                return None
            raise
        return Program(
            state=ProgramState(answer["state"]),
            pid=answer["pid"],
            exit_status=answer["exitstatus"],
            error=answer["spawnerr"],
        )

    def read_names(self) -> tuple[str, ...]:
        """The programs that the daemon knows."""
        return tuple(answer["name"] for answer in self._call("getAllProcessInfo"))

    def reread(self) -> Difference:
        """Read the files again, without acting on them."""
        ((added, changed, removed),) = self._call("reloadConfig")
        return Difference(added=tuple(added), changed=tuple(changed), removed=tuple(removed))

    def add(self, name: str) -> None:
        """Take a program up as its file was last read."""
        self._call("addProcessGroup", name)

    def remove(self, name: str) -> None:
        """Forget a program that does not run."""
        self._call("removeProcessGroup", name)

    def start(self, name: str) -> None:
        """Begin to start a program; refused with ALREADY_STARTED where it runs."""
        self._call("startProcess", name, _WAIT)

    def stop(self, name: str) -> None:
        """Begin to stop a program; refused with NOT_RUNNING where it does not run."""
        self._call("stopProcess", name, _WAIT)

    def shut_down(self) -> None:
        """Begin to end the daemon and all that it runs."""
        self._call("shutdown")

    def _call(self, method: str, *arguments: str | bool) -> Any:
        with _naming(self._socket_path), self._connect() as proxy:
            return getattr(proxy.supervisor, method)(*arguments)

    def _connect(self) -> xmlrpc.client.ServerProxy:
        # The address is not used, but there must be one.
        return xmlrpc.client.ServerProxy(
            "http://localhost/RPC2", transport=_UnixTransport(self._socket_path)
        )


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, socket_path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_SECONDS)
        self._socket_path = socket_path

    def connect(self) -> None:
        """Connect to the socket instead of the host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_SECONDS)
        self.sock.connect(self._socket_path)


class _UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over a unix socket."""

    def __init__(self, socket_path: str) -> None:
        super().__init__()
        self._socket_path = socket_path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        """A new connection; there is nothing to keep between requests."""
        connection = _UnixConnection(self._socket_path)
        self._connection = host, connection
        return connection


@contextmanager
def allowing(*codes: Fault) -> Iterator[None]:
    """Let these refusals pass: they say that what was asked for is so already."""
    try:
        yield
    except SupervisordRefused as refusal:
        if refusal.code not in codes:
            raise


@contextmanager
def _naming(socket_path: str) -> Iterator[None]:
    """Turn whatever goes wrong into one sentence."""
    try:
        yield
    except xmlrpc.client.Fault as fault:
        raise SupervisordRefused(fault.faultCode, _explain(fault)) from fault
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise SupervisordDown(f"no supervisord listens at {socket_path}") from error
    except TimeoutError as error:
        raise SupervisorError(
            f"supervisord did not answer within {_TIMEOUT_SECONDS:g} s at {socket_path}"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise SupervisorError(f"could not talk to supervisord at {socket_path}: {error}") from error
    except (xmlrpc.client.Error, ExpatError) as error:
        raise SupervisorError(f"what answers at {socket_path} is no supervisord") from error


def _explain(fault: xmlrpc.client.Fault) -> str:
    # The text is "NAME: details", or the name alone.
    _, _, details = fault.faultString.partition(": ")
    try:
        sentence = _SENTENCES[Fault(fault.faultCode)]
    except (KeyError, ValueError):
        return f"supervisord refused: {fault.faultString}"
    return f"{sentence}: {details}" if details else sentence
