"""The ports: every way in which Stoker touches the world, as contracts in prose.

Adapters implement these protocols; one conformance suite per port runs on the fake and on the
real thing. Nothing here has behaviour. What an adapter does beyond its contract is a bug, and so
is a caller that relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.model.event import Event
from stoker.model.facts import Facts, Trial
from stoker.model.launch import Drift, Service, ServiceState
from stoker.model.plan import Image

#: How the name of a temporary file ends that a host writes beside the file which it will replace;
#: it begins with a dot. One that is found was left by a kill, and is nobody's.
TEMPORARY_SUFFIX = ".stoker-tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What a path is. ``kind``: file, folder, link or other. ``mode``: permission bits alone.

    ``modified_ns`` is whatever the last writer wanted it to be; ``changed_ns`` is when anything
    about it changed last, which nobody can set. ``device_free_bytes`` is not here: ask
    :meth:`Host.free_bytes`.
    """

    kind: str
    size_bytes: int
    mode: int
    owner: str
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A finished command. ``exit_status`` is negative for a signal, as in subprocess.

    ``stdout`` and ``stderr`` are text, undecodable bytes replaced. ``timed_out`` is true when the
    deadline ended it.
    """

    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run: an argument vector, never a shell string.

    ``env`` is the whole environment; nothing is inherited beside it. ``umask`` applies to the
    child. ``new_session`` detaches it from the terminal, so that Ctrl-C reaches Stoker alone.
    ``is_question``: it is run for its answer alone, so nothing of it may go on behind it.
    ``stdin`` is what it reads, for what neither an argument nor a variable may show.
    """

    argv: tuple[str, ...]
    timeout_seconds: float
    env: Mapping[str, str]
    directory: str = "/"
    umask: int = 0o022
    new_session: bool = True
    is_question: bool = False
    stdin: str = field(default="", repr=False)


class ReadableHost(Protocol):
    """The reading half of a host. Probes get this; a replay of recorded reads has only this."""

    @property
    def name(self) -> str:
        """The host's name. MUST be the same for the life of the object."""
        ...

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """The file's text, at most ``limit_bytes`` of it, undecodable bytes replaced.

        MUST raise NotFound, AccessDenied or HostError, and nothing else, for the world's state.
        MUST work for files in /proc and /sys, whose size reads as 0.
        """
        ...

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer at the end of the file. Errors as above."""
        ...

    def list_folder(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted, without the folder. Errors as above."""
        ...

    def read_link(self, path: str) -> str:
        """The text of a symbolic link, unresolved. Errors as above."""
        ...

    def stat(self, path: str) -> Stat | None:
        """What the path is (a link is followed), or None if nothing is there.

        MUST raise AccessDenied when the answer is hidden behind a folder that may not be entered.
        """
        ...

    def free_bytes(self, path: str) -> int:
        """Bytes that this user may still write on the file system of ``path`` or of its nearest
        existing parent."""
        ...

    def find_command(self, name: str) -> str | None:
        """The absolute path of an executable on the PATH, or None."""
        ...

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        """Run a command to its end.

        MUST NOT use a shell. MUST kill the command's whole process group at the deadline and when
        the caller is interrupted, and reap it; of a question also once it has ended by itself.
        What left the group (setsid) is out of reach. MUST raise NotFound when there is no such
        program and AccessDenied when it may not be executed; a non-zero exit status is an answer,
        not an error. ``poll`` is called about every half second while it runs, in the caller's
        thread.
        """
        ...


class Host(ReadableHost, Protocol):
    """A machine that can be changed. There is one way to change a file, and it is atomic."""

    def write_file(self, path: str, content: bytes, mode: int, owner: str = "") -> None:
        """Put the whole content at ``path``.

        MUST write a temporary file in the same folder with its final mode and owner, flush it to
        the disk, rename it over ``path`` and flush the folder: after a crash at any instant the
        path holds the old content or the new, whole. MUST create missing parent folders (mode
        0700 below a folder of mode 0700, else 0755). MUST remove the temporary file on failure.
        MUST NOT follow a symbolic link at ``path``: the link itself is replaced. MUST NOT replace
        a folder, a device, a pipe or a socket.
        ``owner`` is a user name; empty leaves the writing user. MUST raise NoSpace, AccessDenied
        or HostError.
        """
        ...

    def append_file(self, path: str, content: bytes, mode: int) -> None:
        """Add to the end of a file, making it (and its parent folders, as above) if need be.

        MUST have flushed the content to the disk when it returns. Not atomic: a crash may leave
        a part of ``content`` at the end. MUST NOT follow a symbolic link at ``path``.
        """
        ...

    def remove_file(self, path: str) -> None:
        """Remove a file or link; nothing happens when it is not there. MUST flush the folder."""
        ...

    def make_folder(self, path: str, mode: int, owner: str = "") -> None:
        """Make a folder and its missing parents; an existing one keeps its mode and owner.

        ``owner`` is the user name of the last folder alone; empty leaves the making user. With
        an owner the folder MUST NOT be there before it is that user's, and a symbolic link at
        ``path`` MUST raise HostError, wherever it leads. Raises as :meth:`write_file` does.
        """
        ...

    def set_mode(self, path: str, mode: int) -> None:
        """Give a file or folder these permission bits; a link is not followed (HostError)."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder and what is in it, never following a link out of it.

        MUST refuse (HostError) a path that is not absolute or has fewer than three parts.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename within one file system and flush the folder of ``target``."""
        ...

    def end_process(self, pid: int, process: str, timeout_seconds: float) -> bool:
        """End one process: TERM, then KILL after the timeout, and wait until it is gone.

        ``process`` is its identity as in :class:`ServiceState`. MUST NOT signal a process with
        another identity (the pid was reused); then, and when it is gone already, answers True.
        Answers False when it could not be ended.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorProperties:
    """What a supervisor can and cannot do, declared instead of asked by type.

    ``definition_paths(name)`` would be a method; here only plain answers stand.
    ``starts_on_boot``: it brings services back after the machine restarts.
    ``changes_user``: it can run a service as another user than its own.
    """

    kind: str
    starts_on_boot: bool
    changes_user: bool


class Supervisor(Protocol):
    """A service manager that runs engines.

    Every effectful method may raise SupervisorError and nothing else for the manager's answers.
    """

    @property
    def properties(self) -> SupervisorProperties:
        """What this manager can do; constant."""
        ...

    def render(self, service: Service) -> Mapping[str, Image]:
        """The definition files of one service, by absolute path. Pure.

        MUST be deterministic: the same service gives the same bytes. MUST NOT contain a secret.
        MUST stamp STOKER_DIGEST and STOKER_DEPLOYMENT into the environment of the process.
        """
        ...

    def check_usable(self) -> None:
        """Raise SupervisorError when this user cannot have the manager run a service at all.

        Asked before anything is planned, so that nothing is prepared in vain; the hint says what
        to do. MUST NOT change anything, and MUST NOT raise for a manager that :meth:`reload`
        would start.
        """
        ...

    def check_foreign(self, name: str) -> None:
        """Raise SupervisorError when the name is taken by a definition that is not ours.

        Asked before a definition is planned. MUST NOT raise for a manager that is not running.
        """
        ...

    def describe_trial(self) -> Trial | None:
        """How a probe can try what the manager lets a service have; None where all is certain."""
        ...

    def fit(self, name: str, facts: Facts) -> Supervisor:
        """The same manager, rendering this service for what the facts say that it can have.

        MUST be deterministic. Where the facts do not say, the present definition of the service
        decides: a fact that is not known for once MUST NOT change a definition.
        """
        ...

    def render_shared(self) -> Mapping[str, Image]:
        """The files that all services share (a daemon's own configuration), maybe none. Pure."""
        ...

    def reload(self) -> None:
        """Make the manager know the definition files as they are on the disk now.

        MUST start the manager if it is ours to start, is not running and a definition exists.
        MUST stop a manager of ours when no definition is left. MUST NOT start, stop or restart a
        service that is running and still defined, even if its definition changed. A service whose
        definition is gone MUST be stopped and forgotten.
        """
        ...

    def state(self, name: str) -> ServiceState:
        """How the service stands. MUST NOT raise for a manager that is not running (ABSENT or
        STOPPED, by whether a definition exists) or for an unknown name (ABSENT).

        ``digest`` MUST come from the running process itself.
        """
        ...

    def start(self, name: str) -> None:
        """Run the service under its present definition; running already is not an error.

        MUST make the service's folder, if it is not there, for the service's user alone. Returns
        when the manager has started the process, not when the engine is ready.
        """
        ...

    def stop(self, name: str) -> None:
        """Stop the service and every process of its group, and wait until they are gone.

        Not running, or not known, is not an error.
        """
        ...

    def restart(self, name: str) -> None:
        """Stop the service, then run it under the definition as it is on the disk now."""
        ...

    def find_orphans(self, name: str) -> tuple[ServiceState, ...]:
        """Processes that carry our stamp for this service and that the manager does not hold.

        They are left over from a manager that died. MUST name only processes whose environment
        carries STOKER_DEPLOYMENT for this name and the STOKER_HOME of this very state folder.
        """
        ...

    def find_drift(self, service: Service) -> tuple[Drift, ...]:
        """How the definition, what the manager has read of it, and the process differ from each
        other and from the service in force.

        MUST be empty for a service that is as it was written, taken up and started. MUST NOT
        raise for a manager that is not running.
        """
        ...

    def log_path(self, name: str) -> str:
        """Where the service's output goes."""
        ...

    def read_messages(self, name: str, line_count: int) -> tuple[str, ...]:
        """The last lines that the manager itself has written about the service, oldest first.

        Empty where it keeps none or they cannot be read. MUST hold no control characters.
        """
        ...


class Endpoint(Protocol):
    """An engine's HTTP server."""

    @property
    def url(self) -> str:
        """The base address with a numeric host, without a trailing slash."""
        ...

    def exchange(self, request: Request) -> Exchange:
        """Send one request and collect the whole reply.

        MUST answer within ``request.timeout_seconds`` in all, connection included, and within a
        bounded size (8 MiB); beyond either the exchange carries ``error`` and what came so far.
        MUST NOT follow redirects, use a proxy from the environment, or raise for anything the
        server does. The key, when there is one, is sent as a bearer token and MUST NOT appear in
        the exchange. MUST be safe to call from several threads at once.
        """
        ...


class Clock(Protocol):
    """Time, so that it can be faked."""

    def now_seconds(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Reporter(Protocol):
    """Where events go. MUST NOT raise, and MUST NOT print to stdout."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One fact: what to read, and a pure parser of it.

    ``read`` collects raw text by name and raises HostError if the world does not answer;
    ``parse`` turns it into JSON-shaped data and may raise ValueError for text it does not
    understand. Both endings become an Unknown with the reason. ``source`` says what is read.
    """

    id: str
    source: str
    read: Callable[..., Mapping[str, str]]
    parse: Callable[[Mapping[str, str]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise: what to ask to try it, and a pure judge over what came back.

    ``plan`` gets the subject and all exchanges so far, and answers the next requests, which are
    sent at the same time; none when enough was asked. ``judge`` gets the subject and the
    exchanges in the order of the requests, and answers a judgement (see
    :mod:`stoker.contract.run`). Both MUST be pure and total: whatever a server sends is readable
    or a flaw. ``needs``: features without which the promise is none. ``is_settling``: a first
    failure may only say that the server is still warming up.
    """

    id: str
    title: str
    level: str
    plan: Callable[[Subject, Sequence[Exchange]], Sequence[Request]]
    judge: Callable[[Subject, Sequence[Exchange]], object]
    needs: tuple[Feature, ...] = ()
    is_settling: bool = False
