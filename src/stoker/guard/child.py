"""The engine as a child process: start it, signal it, reap it, leave nothing of it behind.

:mod:`stoker.guard.run` calls it, from the guard's main thread only. Besides
:mod:`stoker.hosts.local` this is the one module that starts processes. It decides nothing.

Three things see to it that the engine does not outlive the guard, however the guard ends:

* The engine has a parent-death signal (prctl(2), PR_SET_PDEATHSIG): the kernel kills it when the
  *thread* that started it ends, which is why only the main thread starts it. The signal is not
  inherited by what the engine starts, and an executable with set-user-ID or capabilities clears
  it.
* The watcher, a fork of the guard that waits on a pipe, covers what the engine started: when the
  pipe closes without a word it kills the engine's process group, and every process that carries
  this guard's stamp in its environment, whatever session it has moved to. It does the same, and
  kills the guard first, when the guard's heartbeat on that pipe stays away.
* A service manager's control group covers the rest (both killed in the same instant).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stoker.errors import HostError
from stoker.guard.config import Engine
from stoker.hosts.local import LocalHost
from stoker.model.units import parse_process_identity
from stoker.supervisors.processes import find_descendants, read_environment, read_processes

#: Which guard a process belongs to, by the identity of the guard's process.
STAMP = "STOKER_GUARD"

# prctl(2), from linux/prctl.h
_SET_PARENT_DEATH_SIGNAL = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36

#: What a manager says to its main process alone (sd_notify(3), sd_watchdog_enabled(3),
#: sd_listen_fds(3), systemd.exec(5)); an engine that took it for its own would speak for the guard.
_MANAGER_TO_GUARD = frozenset(
    {
        *("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "SYSTEMD_EXEC_PID"),
        *("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "FDSTORE"),
    }
)

_WATCHER_NAME = b"stoker-watcher"
#: What the guard says to the watcher when nothing is left, and now and then until then.
_ALL_GONE = b"."
_BEAT = b"+"
#: More than a guard says while its watcher does not look.
_BEATS_BYTES = 4096
#: Silence is counted in so many waits of the watcher, each of which counts once however long it
#: took: time in which the watcher did not run either says nothing about the guard.
_WAITS = 30
_STDERR = 2
_COMPLAINT_SECONDS = 1.0
#: How long killed processes may take to be gone; one in a driver's call takes its time.
_GONE_SECONDS = 10.0
_LOOK_SECONDS = 0.02

#: Programs of our own that look at something and end; they are no part of the engine.
_helpers: set[int] = set()
#: Held while a child is reaped, and while a helper is started and not yet known as one.
_reaping = threading.Lock()
#: How long a helper that has said all may take to end, and one that was killed.
_HELPER_SECONDS = 2.0
_ANSWER_BYTES = 1 << 16
_MOST_ANSWER_BYTES = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A started engine.

    ``pid`` is that of its first process, its process group and its session; ``process`` is the
    identity of that process. ``output`` is the reading end of its stdout and stderr.
    """

    pid: int
    process: str
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """The watcher's process, and the pipe whose closing it waits for.

    ``guard`` is the identity of the guard that it watches.
    """

    pid: int
    pipe: int
    guard: str


def choose_environment(
    engine: Engine, inherited: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, str]:
    """What the engine gets of the guard's own environment, and what comes over it. Pure.

    ``secrets`` are the values of ``engine.secret_env``.
    """
    own = {name: value for name, value in inherited.items() if name not in _MANAGER_TO_GUARD}
    return {**own, **engine.env, **secrets}


def start_engine(engine: Engine, environment: Mapping[str, str]) -> Child:
    """Start the engine in a session of its own. Raises OSError if it cannot be executed.

    ``environment`` is the whole of it; the guard's stamp comes over it. The guard becomes the
    parent of every process that the engine leaves without one.
    """
    guard = os.getpid()
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            engine.argv,
            env={**environment, STAMP: identify(guard)},
            cwd=engine.directory,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
            # Safe because the guard has no other thread yet.
            preexec_fn=lambda: _die_with(guard),  # noqa: PLW1509
        )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    # From here on reap() waits for it; subprocess itself must not.
    process.returncode = 0
    return Child(pid=process.pid, process=identify(process.pid), output=reading)


def start_watcher(child: Child, *, name: str, silence_seconds: float) -> Watcher:
    """Start the process that ends the engine when the guard is gone.

    A guard that has not called :func:`beat` for ``silence_seconds`` is ended, too; ``name`` is
    what it is called then.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stamp = identify(os.getpid())
    pid = os.fork()
    if pid:
        os.close(reading)
        return Watcher(pid=pid, pipe=writing, guard=stamp)
    try:
        _become_watcher(reading)
        last = _hear_last(reading, silence_seconds)
        if last is None:
            silence = f"the guard itself has stood still for {silence_seconds:g} s"
            _complain(f"stoker guard: {name}: {silence}; its watcher ends it and its engine")
            _kill_guard(stamp)
        if not last:
            _kill_all(child.pid, stamp)
    finally:
        os._exit(0)


def beat(watcher: Watcher) -> None:
    """Tell the watcher that the guard goes on. Never waits and never fails."""
    with suppress(OSError):
        os.write(watcher.pipe, _BEAT)


def release_watcher(watcher: Watcher) -> None:
    """Let the watcher go, since nothing is left to be ended."""
    with suppress(OSError):
        os.write(watcher.pipe, _ALL_GONE)
    os.close(watcher.pipe)


def signal_engine(child: Child, number: signal.Signals) -> None:
    """Send a signal to the engine's process group; nothing happens when it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def reap() -> Iterator[tuple[int, int]]:
    """Every child that has ended, whosoever it was: its pid and status, negative for a signal."""
    with suppress(ChildProcessError):
        while (ended := _reap_one())[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _reap_one() -> tuple[int, int]:
    with _reaping:
        ended = os.waitpid(-1, os.WNOHANG)
        _helpers.discard(ended[0])  # its pid may be anybody's from now on
        return ended


def kill_rest(watcher: Watcher) -> bool:
    """Kill and reap all that descends from the guard, but the watcher; whether all of it is gone.

    Orphans become the guard's own children, so nothing that the engine started escapes.
    """
    deadline = time.monotonic() + _GONE_SECONDS
    while left := _descendants() - {watcher.pid}:
        for pid in left:
            _kill(pid)
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
        _ = tuple(reap())
    return True


def run_helper(arguments: Sequence[str], *, timeout_seconds: float) -> str | None:
    """What a short-lived program of our own prints, None if it did not end in time.

    The arguments are those of our interpreter. May be called from any thread: it starts no engine,
    and its process counts as none of the engine's. Raises OSError if it cannot be started.
    """
    reading, writing = os.pipe()
    try:
        # Not reaped before it can be told from any other process.
        with _reaping:
            process = subprocess.Popen(
                (sys.executable, "-P", *arguments),
                env=_helper_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            process.returncode = 0  # reap() waits for it
            _helpers.add(process.pid)
            descriptor = os.pidfd_open(process.pid)
    finally:
        os.close(writing)
    try:
        return _read_to_end(reading, timeout_seconds)
    finally:
        os.close(reading)
        _end_helper(process.pid, descriptor)
        os.close(descriptor)


def _helper_environment() -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        STAMP: identify(os.getpid()),  # the watcher ends it with all the rest
    }


def _read_to_end(pipe: int, timeout_seconds: float) -> str | None:
    """All that is written until the pipe is closed; None if that does not come in time."""
    deadline, data = time.monotonic() + timeout_seconds, bytearray()
    while len(data) < _MOST_ANSWER_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return None
        piece = os.read(pipe, _ANSWER_BYTES)
        if not piece:
            return data.decode("utf-8", "replace")
        data += piece
    return None


def _end_helper(pid: int, descriptor: int) -> None:
    """Wait for its end, by force if need be; one that is stuck in a driver stays a helper."""
    for number in (None, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, number)
        if select.select([descriptor], [], [], _HELPER_SECONDS)[0]:
            _helpers.discard(pid)
            return


def read_bytes_read() -> int:
    """Bytes that the engine's processes have read from files so far, as far as the kernel tells.

    Of each process the larger figure counts: read(2) from the disk appears in both, pages that
    are mapped in appear in ``read_bytes`` alone, and reads from the page cache in ``rchar`` alone.
    """
    host = LocalHost()
    total = 0
    for pid in engine_pids():
        figures = parse_io(_read(host, f"/proc/{pid}/io"))
        total += max(figures.get("rchar", 0), figures.get("read_bytes", 0))
    return total


def engine_pids() -> frozenset[int]:
    """All that descends from the guard but its helpers and what those have started."""
    with _reaping:  # no helper is just being started, and one that ends now was one before
        helpers, processes = frozenset(_helpers), read_processes(LocalHost())
    families = (find_descendants(processes, pid) for pid in helpers)
    return find_descendants(processes, os.getpid()) - helpers.union(*families)


def parse_io(text: str) -> Mapping[str, int]:
    """The figures of /proc/PID/io by their names; lines of another form are left out."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if value.isdecimal()}


def _read(host: LocalHost, path: str) -> str:
    try:
        return host.read_text(path)
    except HostError:
        return ""


def identify(pid: int) -> str:
    """The identity of a process that is there. Raises OSError if it is not."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return parse_process_identity(file.read(), pid)


def _descendants() -> frozenset[int]:
    return find_descendants(read_processes(LocalHost()), os.getpid())


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _die_with(guard: int) -> None:
    """Run in the child between fork and exec."""
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guard:
        os._exit(1)  # it was gone before the signal was asked for


def _become_watcher(pipe: int) -> None:
    """Leave the guard's session, signals and files, but not the place where it complains."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    _libc.prctl(_SET_NAME, _WATCHER_NAME, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(2):
        os.dup2(nothing, standard)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))


def _hear_last(pipe: int, silence_seconds: float) -> bytes | None:
    """What the guard says last: nothing (empty) when it is gone, None when it stands still."""
    waits = 0
    while waits < _WAITS:
        if not select.select([pipe], [], [], silence_seconds / _WAITS)[0]:
            waits += 1
            continue
        said, waits = os.read(pipe, _BEATS_BYTES), 0
        if not said or _ALL_GONE in said:
            return said
    return None


def _complain(text: str) -> None:
    """Write a line to stderr, unless its reader stands still."""
    with suppress(OSError):
        if select.select([], [_STDERR], [], _COMPLAINT_SECONDS)[1]:
            os.write(_STDERR, f"{text}\n".encode()[: select.PIPE_BUF])


def _kill_guard(stamp: str) -> None:
    """Kill the guard, if our parent is still the one that we watch."""
    pid = os.getppid()
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        if identify(pid) == stamp:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def _kill_all(group: int, stamp: str) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while (left := _stamped(stamp)) and time.monotonic() < deadline:
        for pid in left:
            _kill(pid)
        time.sleep(_LOOK_SECONDS)


def _stamped(stamp: str) -> tuple[int, ...]:
    host = LocalHost()
    return tuple(
        process.pid
        for process in read_processes(host)
        if read_environment(host, process.pid).get(STAMP) == stamp
    )
