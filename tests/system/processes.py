"""Processes of one state folder, told from all others by their stamps, and how they are ended."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_GONE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A live process as /proc shows it."""

    pid: int
    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def user_id(self) -> int:
        """Whom it runs as."""
        return os.stat(f"/proc/{self.pid}").st_uid

    @property
    def parent(self) -> int:
        """The pid of the process that it descends from; 0 when it has ended meanwhile."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return int(text.rpartition(")")[2].split()[1])

    @property
    def published(self) -> str | None:
        """The first name in the engine's /v1/models; None if it does not answer."""
        port = self.argv[self.argv.index("--port") + 1]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as reply:
                return str(json.load(reply)["data"][0]["id"])
        except (urllib.error.URLError, OSError):
            return None

    def places(self) -> str:
        """Everything that ties it to a place on the disk, as one text."""
        folder = Path(f"/proc/{self.pid}")
        links = [os.readlink(folder / "exe"), os.readlink(folder / "cwd")]
        links += [os.readlink(path) for path in (folder / "fd").iterdir() if path.is_symlink()]
        maps = (folder / "maps").read_text("utf-8", "replace")
        variables = [f"{name}={value}" for name, value in self.env.items()]
        return "\n".join([*self.argv, *variables, *links, maps])


def find_stamped(home: str) -> list[Process]:
    """What carries the stamp of this state folder: guards, their watchers and engines."""
    return [process for process in _all() if process.env.get("STOKER_HOME") == home]


def find_engines(home: str) -> list[Process]:
    """What was started by a guard of this state folder."""
    return [process for process in find_stamped(home) if "STOKER_GUARD" in process.env]


def find_guards(home: str) -> list[Process]:
    """The guards of this state folder, without their watchers, which are forks of them."""
    found = [process for process in find_stamped(home) if "stoker.guard" in process.argv]
    pids = {process.pid for process in found}
    return [process for process in found if process.parent not in pids]


def find_daemons(home: str) -> list[Process]:
    """The supervisord that was started with the configuration of this state folder."""
    configuration = f"{home}/supervisor/supervisord.conf"
    return [process for process in _all() if configuration in process.argv]


def end(find: Callable[[], list[Process]]) -> None:
    """Kill what is found until nothing is."""
    deadline = time.monotonic() + _GONE_SECONDS
    while found := find():
        assert time.monotonic() < deadline, f"cannot be ended: {found}"
        for process in found:
            kill(process.pid)
        time.sleep(0.02)


def kill(pid: int) -> None:
    """kill -9, whether it is there or not."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            argv = (folder / "cmdline").read_bytes().decode("utf-8", "surrogateescape")
            env = (folder / "environ").read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            continue  # it has ended, or is somebody else's
        pairs = (entry.partition("=") for entry in env.split("\0") if "=" in entry)
        yield Process(
            pid=int(folder.name),
            argv=tuple(argv.split("\0")[:-1]),
            env={name: value for name, _, value in pairs},
        )
