"""A container with a real systemd as its process 1, on a machine that may have none itself.

Called by the lab's fixtures. ``systemd-nspawn`` boots an overlay over the lab's tree; the overlay
is the container's disk, which survives a reboot and a power cut. The container has no network but
its own loopback. What is started here is ended by its own pid, never by a name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
#: Of a mixed layout systemd uses these two; of a pure one the root.
_HIERARCHIES = ("systemd", "unified")
#: How nspawn ends when its container wants to boot again and nobody registered it.
_REBOOT_STATUS = 133
_PATIENCE_SECONDS = 60.0
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True, kw_only=True)
class Narrow:
    """What a container may less than others: more words for nspawn, and before it."""

    options: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()


class Container:
    """One container; ``shared`` folders of this machine are seen in it, read-only.

    ``folder`` keeps the disk and the console's log. ``narrow``: what it lacks.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        tree: Path,
        shared: Sequence[Path] = (),
        narrow: Narrow | None = None,
    ) -> None:
        self.name = name
        self._folder = folder
        self._tree = tree
        self._shared = tuple(shared)
        self._narrow = narrow or Narrow()
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._begun: list[subprocess.Popen[str]] = []

    @property
    def root(self) -> Path:
        """The container's file system, as seen from this machine."""
        return self._folder / "root"

    @property
    def bus_address(self) -> str:
        """The system bus, as a process of this machine (root) reaches it."""
        return f"unix:path=/proc/{self._leader()}/root/run/dbus/system_bus_socket"

    @property
    def console(self) -> str:
        """What the container has printed at its boots."""
        return (self._folder / "console.log").read_text(errors="replace")

    def start(self) -> None:
        """Switch it on, and wait until it has booted."""
        if not self.root.is_mount():
            self._mount()
        self._boot()

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: int = 0,
        timeout_seconds: float = _PATIENCE_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it, with nothing of this machine's environment."""
        return subprocess.run(
            self._enter(argv, user=user),
            env={**_ENVIRONMENT, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=timeout_seconds,
        )

    def begin(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Run a command in it as root, and do not wait for its end; a power cut is one."""
        # Of all that runs in it only this is not in its control groups.
        mortal = ["setpriv", "--pdeathsig=KILL", "--", *argv]
        begun = subprocess.Popen(
            self._enter(mortal, user=0),
            env={**_ENVIRONMENT, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._begun.append(begun)
        return begun

    def find_pid(self, pid: int) -> int:
        """The pid on this machine of a process that has this one in the container."""
        space = os.readlink(f"/proc/{self._leader()}/ns/pid")
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and os.readlink(entry / "ns/pid") == space:
                    status = (entry / "status").read_text()
                    (own,) = (line for line in status.splitlines() if line.startswith("NSpid:"))
                    if int(own.split()[-1]) == pid:
                        return int(entry.name)
        raise AssertionError(f"there is no process {pid} in {self.name}")

    def reboot(self) -> None:
        """Shut it down in order, and boot it again."""
        self.run(["systemctl", "reboot"])  # may lose its connection on the way
        assert self._end() == _REBOOT_STATUS, self.console[-2000:]
        self._boot()

    def cut_power(self) -> None:
        """End everything in it at once; the disk stays as it is. :meth:`start` boots it again."""
        self._kill()

    def destroy(self) -> None:
        """End it, and remove its disk."""
        self._kill()
        if self.root.is_mount():
            _check(["umount", str(self.root)])
        _check(["rm", "--recursive", "--one-file-system", str(self._folder)])
        with suppress(OSError):
            Path(f"/run/systemd/nspawn/propagate/{self.name}").rmdir()

    # How it works.

    def _enter(self, argv: Sequence[str], *, user: int) -> list[str]:
        entry = ["nsenter", f"--target={self._leader()}", "--all", "--root", "--wd"]
        return [*entry, f"--setuid={user}", f"--setgid={user}", "--", *argv]

    def _mount(self) -> None:
        for name in ("root", "upper", "work"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        layers = f"lowerdir={self._tree},upperdir={self._folder}/upper,workdir={self._folder}/work"
        _check(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)])

    def _boot(self) -> None:
        command = [
            *self._narrow.prefix,
            *("systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}"),
            *(f"--machine={self.name}", f"--hostname={self.name}"),
            # No systemd on this machine is asked for anything.
            *("--register=no", "--keep-unit", "--console=pipe"),
            *("--private-network", "--resolv-conf=off", "--timezone=off", "--link-journal=no"),
            *(f"--bind-ro={path}:{path}:norbind" for path in self._shared),
            *self._narrow.options,
        ]
        # Every nspawn puts its payload below its own cgroup: each needs one of its own.
        enter = "".join(f'echo $$ >"{group}/cgroup.procs"; ' for group in self._make_cgroups())
        with (self._folder / "console.log").open("ab") as console:
            self._nspawn = subprocess.Popen(
                # It does not outlive the tests; what is in it may (see remove_leftovers).
                ["setpriv", "--pdeathsig=KILL", "sh", "-ec", f'{enter}exec "$@"', "-", *command],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        self._wait(self._has_booted)

    def _has_booted(self) -> bool:
        assert self._nspawn is not None
        assert self._nspawn.poll() is None, self.console[-2000:]
        leader = self._find_leader()
        if leader is None or not Path(f"/proc/{leader}/root/run/systemd/private").exists():
            return False
        # Not when all jobs are done: a model that loads is one of them.
        return self.run(["systemctl", "is-active", "multi-user.target"]).returncode == 0

    def _find_leader(self) -> int | None:
        """The container's process 1: nspawn's only child that is in another pid namespace."""
        assert self._nspawn is not None
        own = os.readlink("/proc/self/ns/pid")
        with suppress(OSError):
            for pid in _children(self._nspawn.pid):
                if os.readlink(f"/proc/{pid}/ns/pid") != own:
                    return pid
        return None

    def _leader(self) -> int:
        leader = self._find_leader()
        assert leader is not None, f"the container {self.name} does not run"
        return leader

    def _end(self) -> int:
        """Wait for nspawn's end by itself, and clean up behind it."""
        assert self._nspawn is not None
        status = self._nspawn.wait(_PATIENCE_SECONDS)
        self._nspawn = None
        self._wait(self._is_cleared)
        return status

    def _kill(self) -> None:
        """End all that is in its control groups, and what has been begun in it from outside."""
        while self._begun:
            begun = self._begun.pop()
            begun.kill()
            begun.wait()
        for group in self._find_cgroups():
            for folder, _, _ in os.walk(group):
                _kill_all(Path(folder, "cgroup.procs"))
        if self._nspawn is not None:
            self._end()
        self._wait(self._is_cleared)

    def _make_cgroups(self) -> list[Path]:
        groups = [folder / f"lab-{self.name}" for folder in find_hierarchies()]
        for group in groups:
            group.mkdir(exist_ok=True)
        return groups

    def _find_cgroups(self) -> list[Path]:
        name = f"lab-{self.name}"
        return [*_CGROUPS.glob(f"*/{name}"), *_CGROUPS.glob(name)]

    def _is_cleared(self) -> bool:
        """Whether its control groups are gone; the kernel takes a moment to empty them."""
        for group in self._find_cgroups():
            with suppress(OSError):
                for path, _, _ in os.walk(group, topdown=False):
                    os.rmdir(path)
        return not self._find_cgroups()

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, f"{self.name}: {self.console[-2000:]}"
            time.sleep(0.05)


def find_hierarchies() -> list[Path]:
    """The roots of the control groups that a systemd uses."""
    found = [_CGROUPS / name for name in _HIERARCHIES if (_CGROUPS / name).is_dir()]
    return found or [_CGROUPS]


def remove_leftovers(folder: Path) -> None:
    """Remove containers whose tests were killed; their names end with the pid of those."""
    for disk in folder.glob("*-*"):
        owner = disk.name.rpartition("-")[2]
        if disk.is_dir() and owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            Container(disk, name=disk.name, tree=disk).destroy()


def interpreter_folders() -> tuple[Path, ...]:
    """What must be shared with a container for this very interpreter to run in it."""
    bases = {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}
    return tuple(base for base in bases if base != Path("/usr"))


def _kill_all(pids: Path) -> None:
    """End the processes in a list; list and processes may go away meanwhile."""
    with suppress(OSError):
        for pid in map(int, pids.read_text().split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def _check(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_SECONDS)
