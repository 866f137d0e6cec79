"""What the conformance suite needs to arrange around a host: one small world per adapter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from stoker.errors import StokerError
from stoker.hosts.local import LocalHost
from stoker.hosts.recording import RecordingHost
from stoker.hosts.replay import ReplayHost
from stoker.model.units import parse_process_identity
from stoker.ports import Command, CommandResult, Host, ReadableHost, Stat
from tests.fakes.host import MemoryHost

_Answer = TypeVar("_Answer")

NOBODY = 65534


class World(Protocol):
    """A host, a folder of its own on it, and the hands of somebody else who works there too."""

    host: Host
    root: str

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None: ...

    def put_folder(self, path: str, mode: int) -> None: ...

    def put_link(self, path: str, target: str) -> None: ...

    def promise(self, argv: tuple[str, ...], result: CommandResult) -> None:
        """What this command does, for worlds in which nothing really runs."""
        ...

    def start_process(self, *, heeds_term: bool) -> tuple[int, str]:
        """A process that runs on, and its identity."""
        ...

    def is_running(self, pid: int) -> bool: ...

    def close(self) -> None: ...


class LocalWorld:
    """This machine."""

    def __init__(self, folder: Path) -> None:
        self.host: Host = LocalHost()
        self.root = str(folder)
        self._processes: list[subprocess.Popen[str]] = []

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        Path(path).write_bytes(content)
        os.chmod(path, mode)

    def put_folder(self, path: str, mode: int) -> None:
        os.mkdir(path)
        os.chmod(path, mode)

    def put_link(self, path: str, target: str) -> None:
        os.symlink(target, path)

    def promise(self, argv: tuple[str, ...], result: CommandResult) -> None:
        """Here commands really run."""

    def start_process(self, *, heeds_term: bool) -> tuple[int, str]:
        action = "SIG_DFL" if heeds_term else "SIG_IGN"
        program = (
            f"import signal, time; signal.signal(signal.SIGTERM, signal.{action})\n"
            "print('ready', flush=True)\n"
            "time.sleep(60)"
        )
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        stat_text = Path(f"/proc/{process.pid}/stat").read_text()
        return process.pid, parse_process_identity(stat_text, process.pid)

    def is_running(self, pid: int) -> bool:
        return is_running(pid)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


class MemoryWorld:
    """The fake."""

    def __init__(self) -> None:
        self.memory = MemoryHost()
        self._results: dict[tuple[str, ...], CommandResult] = {}
        self.memory.commands = lambda command: self._results.get(command.argv)
        self.host: Host = self.memory
        self.root = "/srv/test/world"
        self.memory.put_folder(self.root)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.memory.put(path, content, mode=mode)

    def put_folder(self, path: str, mode: int) -> None:
        self.memory.put_folder(path, mode=mode)

    def put_link(self, path: str, target: str) -> None:
        self.memory.put_link(path, target)

    def promise(self, argv: tuple[str, ...], result: CommandResult) -> None:
        self._results[argv] = result

    def start_process(self, *, heeds_term: bool) -> tuple[int, str]:
        pid = 1000 + len(self.memory.processes)
        self.memory.processes[pid] = f"{pid}:77"
        return pid, f"{pid}:77"

    def is_running(self, pid: int) -> bool:
        return pid in self.memory.processes

    def close(self) -> None:
        """Nothing outlives a fake."""


class ReplayedReader:
    """Asks a recording host, sends what it recorded through JSON, and asks the replay of that."""

    def __init__(self, host: ReadableHost) -> None:
        self._recorder = RecordingHost(host)

    def _ask(self, question: Callable[[ReadableHost], _Answer]) -> _Answer:
        with suppress(StokerError):  # the replay has to raise it again
            question(self._recorder)
        return question(ReplayHost(json.loads(json.dumps(self._recorder.record()))))

    @property
    def name(self) -> str:
        return self._ask(lambda host: host.name)

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        return self._ask(lambda host: host.read_text(path, limit_bytes))

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        return self._ask(lambda host: host.read_bytes(path, offset, length))

    def list_folder(self, path: str) -> tuple[str, ...]:
        return self._ask(lambda host: host.list_folder(path))

    def read_link(self, path: str) -> str:
        return self._ask(lambda host: host.read_link(path))

    def stat(self, path: str) -> Stat | None:
        return self._ask(lambda host: host.stat(path))

    def free_bytes(self, path: str) -> int:
        return self._ask(lambda host: host.free_bytes(path))

    def find_command(self, name: str) -> str | None:
        return self._ask(lambda host: host.find_command(name))

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        return self._ask(lambda host: host.run(command, poll))


def is_running(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet reaped does not."""
    try:
        stat_text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat_text.rpartition(")")[2].split()[0] not in ("Z", "X")


def as_nobody(action: Callable[[], object]) -> str:
    """Do something as a user without rights; answers the kind and words of the error it raised.

    Empty when it raised none. Where this is no root anyway, it is done right here.
    """
    if os.geteuid() != 0:
        return _name_error(action)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, _name_error(action).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def in_child(action: Callable[[], object]) -> int:
    """Fork, do something there, and answer the child's pid; it never comes back from there."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(1)
    return child


def end_child(pid: int) -> int:
    """Kill a child of ours and reap it; its wait status."""
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _name_error(action: Callable[[], object]) -> str:
    try:
        action()
    except StokerError as error:
        return f"{type(error).__name__}: {error}"
    return ""
