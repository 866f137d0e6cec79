"""This machine, for real: the one module of the project that starts processes.

Built by the command layer and handed out as a :class:`stoker.ports.Host`. Every failure leaves it
as an error of the hierarchy. It decides nothing, prints nothing and never uses a shell.
"""

from __future__ import annotations

import errno
import os
import pwd
import select
import selectors
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.hosts import files
from stoker.hosts.failures import naming
from stoker.model.units import parse_process_identity
from stoker.ports import Command, CommandResult, Stat

#: How much of each output stream of a command is kept: its end, where errors stand.
KEPT_OUTPUT_BYTES = 1 << 20

_CHUNK_BYTES = 1 << 16
_READ_CHUNK_BYTES = 1 << 20
_POLL_SECONDS = 0.5
#: How soon the end of a command is noticed when something else still holds its output open.
_TICK_SECONDS = 0.05
#: The same when its output is closed.
_SHORT_TICK_SECONDS = 0.01
#: How long the kernel may take to tear down a killed process before we say so.
_KILL_SECONDS = 10.0

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LocalHost:
    """The machine that Stoker runs on."""

    def __init__(self) -> None:
        self._name = os.uname().nodename

    @property
    def name(self) -> str:
        """The node name, as it was when this object was made."""
        return self._name

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """See :meth:`stoker.ports.ReadableHost.read_text`."""
        return self.read_bytes(path, 0, limit_bytes).decode("utf-8", "replace")

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        """See :meth:`stoker.ports.ReadableHost.read_bytes`. Only regular files can be read."""
        with naming(path, "read"):
            # Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
            descriptor = os.open(path, _READ)
            try:
                return _read_range(descriptor, path=path, offset=offset, length=length)
            finally:
                os.close(descriptor)

    def list_folder(self, path: str) -> tuple[str, ...]:
        """See :meth:`stoker.ports.ReadableHost.list_folder`."""
        with naming(path, "list"):
            return tuple(sorted(os.listdir(path)))

    def read_link(self, path: str) -> str:
        """See :meth:`stoker.ports.ReadableHost.read_link`."""
        with naming(path, "read the link"):
            return os.readlink(path)

    def stat(self, path: str) -> Stat | None:
        """See :meth:`stoker.ports.ReadableHost.stat`. A dangling link counts as nothing."""
        with naming(path, "look at"):
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
                return None
        return Stat(
            kind=_name_kind(found.st_mode),
            size_bytes=found.st_size,
            mode=stat.S_IMODE(found.st_mode),
            owner=_name_user(found.st_uid),
            modified_ns=found.st_mtime_ns,
            changed_ns=found.st_ctime_ns,
        )

    def free_bytes(self, path: str) -> int:
        """See :meth:`stoker.ports.ReadableHost.free_bytes`.

        The blocks reserved for the system do not count, even for root: they are not for models.
        """
        with naming(path, "look at"):
            while True:
                try:
                    found = os.statvfs(path)
                except (FileNotFoundError, NotADirectoryError):
                    path = os.path.dirname(path.rstrip("/")) or "."
                else:
                    return found.f_bavail * found.f_frsize

    def find_command(self, name: str) -> str | None:
        """See :meth:`stoker.ports.ReadableHost.find_command`."""
        found = shutil.which(name)
        return os.path.abspath(found) if found else None

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        """See :meth:`stoker.ports.ReadableHost.run`.

        Of each output stream the last :data:`KEPT_OUTPUT_BYTES` are kept. What a command leaves
        running when it has ended by itself (a daemon) is not touched, unless it was a question.
        """
        process = _start(command)
        output = _Output(process.stdout, process.stderr)
        try:
            timed_out = _follow(process, output, timeout_seconds=command.timeout_seconds, poll=poll)
        finally:
            _end_group(process, is_question=command.is_question)
            output.close()
        stdout, stderr = output.texts
        return CommandResult(
            argv=command.argv,
            exit_status=process.returncode if process.returncode is not None else -signal.SIGKILL,
            stdout=stdout,
            stderr=stderr,
            timed_out=timed_out,
        )

    def write_file(self, path: str, content: bytes, mode: int, owner: str = "") -> None:
        """See :meth:`stoker.ports.Host.write_file`."""
        with naming(path, "write"):
            files.replace_file(path, content, mode=mode, owner=owner)

    def append_file(self, path: str, content: bytes, mode: int) -> None:
        """See :meth:`stoker.ports.Host.append_file`. An existing file keeps its mode."""
        with naming(path, "write"):
            files.append_file(path, content, mode=mode)

    def remove_file(self, path: str) -> None:
        """See :meth:`stoker.ports.Host.remove_file`."""
        with naming(path, "remove"):
            files.remove_file(path)

    def make_folder(self, path: str, mode: int, owner: str = "") -> None:
        """See :meth:`stoker.ports.Host.make_folder`."""
        with naming(path, "make the folder"):
            if owner:
                files.make_folder_for(path, mode, owner=owner)
            else:
                files.make_folders(path, mode)

    def set_mode(self, path: str, mode: int) -> None:
        """See :meth:`stoker.ports.Host.set_mode`."""
        with naming(path, "change the permissions of"):
            files.set_mode(path, mode)

    def remove_tree(self, path: str) -> None:
        """See :meth:`stoker.ports.Host.remove_tree`."""
        with naming(path, "remove"):
            files.remove_tree(path)

    def rename(self, source: str, target: str) -> None:
        """See :meth:`stoker.ports.Host.rename`."""
        with naming(source, f"rename to {target}"):
            os.rename(source, target)
            files.flush_folder(os.path.dirname(target.rstrip("/")) or ".")

    def end_process(self, pid: int, process: str, timeout_seconds: float) -> bool:
        """See :meth:`stoker.ports.Host.end_process`. A dead process nobody reaped is gone."""
        if pid <= 0:
            return True
        with naming(f"process {pid}", "end"):
            try:
                # The descriptor holds on to one process; a pid may be reused at any time.
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return True
            try:
                identity = self._read_identity(pid)
                if identity != process:
                    # Hidden from us it may be the one or not, and only its end would tell.
                    return bool(identity) or _has_ended(descriptor, 0)
                return _end(descriptor, timeout_seconds)
            except ProcessLookupError:
                return True
            except PermissionError:
                return False
            finally:
                os.close(descriptor)

    def _read_identity(self, pid: int) -> str:
        """Empty for a process that is gone or hidden from this user."""
        try:
            return parse_process_identity(self.read_text(f"/proc/{pid}/stat"), pid)
        except HostError:
            return ""


class _Output:
    """What a command writes, collected within a bound and without threads.

    The pipes are never waited for longer than the caller wants: a daemon that the command left
    behind may hold them open for ever.
    """

    def __init__(self, *streams: IO[bytes] | None) -> None:
        self._selector = selectors.DefaultSelector()
        self._streams = [stream for stream in streams if stream is not None]
        self._tails = [bytearray() for _ in self._streams]
        for stream, tail in zip(self._streams, self._tails, strict=True):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream.fileno(), selectors.EVENT_READ, tail)

    @property
    def texts(self) -> list[str]:
        """One text a stream, in the order in which they were given."""
        kept = (tail[-KEPT_OUTPUT_BYTES:] for tail in self._tails)
        return [text.decode("utf-8", "replace") for text in kept]

    @property
    def is_open(self) -> bool:
        """Whether anything may still come."""
        return bool(self._selector.get_map())

    def collect(self, seconds: float) -> bool:
        """Wait for output at most so long, and take what there is; whether there was any."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            self._take(key.fd, key.data)
        return bool(ready)

    def close(self) -> None:
        """Take what is left in the pipes, which is bounded by what they hold, and close them."""
        taken = 0
        while self.is_open and taken < KEPT_OUTPUT_BYTES and self.collect(0):
            taken += _CHUNK_BYTES
        self._selector.close()
        for stream in self._streams:
            stream.close()

    def _take(self, descriptor: int, tail: bytearray) -> None:
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            self._selector.unregister(descriptor)
        tail += chunk
        if len(tail) > 2 * KEPT_OUTPUT_BYTES:
            del tail[:-KEPT_OUTPUT_BYTES]


def _start(command: Command) -> subprocess.Popen[bytes]:
    if not command.argv:
        raise HostError("a command without a program was asked for")
    try:
        with _open_input(command.stdin) as source:
            return _spawn(command, source)
    except (OSError, ValueError) as error:
        raise _explain_start(error, command) from error


@contextmanager
def _open_input(text: str) -> Iterator[int]:
    """What the command reads: nothing, or a file that is nowhere but in memory."""
    if not text:
        yield subprocess.DEVNULL
        return
    with open(os.memfd_create("stdin"), "w+b") as file:
        file.write(text.encode("utf-8", "surrogatepass"))
        file.seek(0)
        yield file.fileno()


def _spawn(command: Command, source: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.argv,
        env=dict(command.env),
        cwd=command.directory,
        umask=command.umask,
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=command.new_session,
        # Always a group of its own: it is killed as a whole, and we must not be in it.
        process_group=None if command.new_session else 0,
    )


def _explain_start(error: OSError | ValueError, command: Command) -> HostError:
    program = command.argv[0]
    code = error.errno if isinstance(error, OSError) else None
    where = f" in {command.directory}" if command.directory != "/" else ""
    if code in (errno.ENOENT, errno.ENOTDIR):
        if not os.path.isdir(command.directory):
            return NotFound(f"the folder {command.directory}, to run {program} in, does not exist")
        return NotFound(
            f"there is no program {program}",
            "install it, or see whether the interpreter that its first line names exists",
        )
    if code in (errno.EACCES, errno.EPERM):
        return AccessDenied(
            f"this user may not execute {program}{where}",
            "see its permissions, those of its folders, and whether its file system is noexec",
        )
    return HostError(f"could not start {program}{where}: {error}")


def _follow(
    process: subprocess.Popen[bytes],
    output: _Output,
    *,
    timeout_seconds: float,
    poll: Callable[[], None] | None,
) -> bool:
    """Collect output until the command ends; True if the deadline came first."""
    now = time.monotonic()
    deadline, next_poll = now + timeout_seconds, now + _POLL_SECONDS
    while not _is_over(process):
        now = time.monotonic()
        if now >= deadline:
            return True
        if poll is not None and now >= next_poll:
            poll()
            next_poll = now + _POLL_SECONDS
        tick = min(_TICK_SECONDS, deadline - now)
        if output.is_open:
            output.collect(tick)
        else:
            time.sleep(min(tick, _SHORT_TICK_SECONDS))
    return False


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended. It is not reaped: until then its number, the group's, is its own."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, process.pid, flags) is not None
    except ChildProcessError:
        return True  # whoever started us lets children go unreaped (SIGCHLD is ignored)


def _end_group(process: subprocess.Popen[bytes], *, is_question: bool) -> None:
    """Kill and reap what still runs.

    A command that has ended by itself is only reaped, but of a question the others go too.
    """
    if not is_question and process.poll() is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


def _end(descriptor: int, timeout_seconds: float) -> bool:
    """TERM, wait, KILL, wait; whether the process behind the descriptor is gone."""
    for number, seconds in ((signal.SIGTERM, timeout_seconds), (signal.SIGKILL, _KILL_SECONDS)):
        signal.pidfd_send_signal(descriptor, number)
        if _has_ended(descriptor, seconds):
            return True
    return False


def _has_ended(descriptor: int, within_seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(within_seconds * 1000))


def _read_range(descriptor: int, *, path: str, offset: int, length: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise HostError(f"{path} is not a file")
    if offset:
        os.lseek(descriptor, offset, os.SEEK_SET)
    chunks: list[bytes] = []
    while length > 0:
        chunk = os.read(descriptor, min(length, _READ_CHUNK_BYTES))
        if not chunk:
            break
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def _name_kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def _name_user(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
