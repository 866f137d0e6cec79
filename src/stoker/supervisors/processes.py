"""The process table of a Linux host, read through /proc: who descends from whom, and whose stamps.

Called by adapters whose manager does not keep track of what a service forks. It reads and never
signals; a process that goes away or may not be looked at while the table is read is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stoker.errors import HostError
from stoker.model.units import parse_process_identity
from stoker.ports import ReadableHost

#: States in /proc/PID/stat of a process that has ended and only waits to be reaped.
_ENDED_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One live process. ``identity`` tells it from a later one with the same pid."""

    pid: int
    parent: int
    group: int
    session: int
    identity: str


def parse_process(stat_text: str, pid: int) -> Process | None:
    """A process from the text of /proc/PID/stat, or None for one that has ended.

    Raises ValueError for any other text.
    """
    identity = parse_process_identity(stat_text, pid)
    # The command's name stands in brackets and may hold anything, brackets included.
    state, parent, group, session = stat_text.rpartition(")")[2].split()[:4]
    if state in _ENDED_STATES:
        return None
    return Process(
        pid=pid, parent=int(parent), group=int(group), session=int(session), identity=identity
    )


def read_process(host: ReadableHost, pid: int) -> Process | None:
    """The process, or None when there is none (any more)."""
    with suppress(HostError, ValueError):
        return parse_process(host.read_text(f"/proc/{pid}/stat"), pid)
    return None


def read_processes(host: ReadableHost) -> tuple[Process, ...]:
    """All live processes that this user may see, by pid. Raises HostError without a /proc."""
    pids = sorted(int(name) for name in host.list_folder("/proc") if name.isdecimal())
    found = (read_process(host, pid) for pid in pids)
    return tuple(process for process in found if process is not None)


def read_environment(host: ReadableHost, pid: int) -> Mapping[str, str]:
    """The environment that the process was started with; empty when it may not be read."""
    try:
        text = host.read_text(f"/proc/{pid}/environ")
    except HostError:
        return {}
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def find_descendants(processes: Sequence[Process], pid: int) -> frozenset[int]:
    """The pids of everything that ``pid`` started, directly or not, without itself."""
    found: set[int] = set()
    parents = {pid}
    while parents:
        children = {process.pid for process in processes if process.parent in parents}
        parents = children - found
        found |= parents
    return frozenset(found)


def find_family(processes: Sequence[Process], leader: Process) -> frozenset[str]:
    """The identities of a group's leader, its group and all its descendants.

    A group outlives its leader, and a child may leave the group but not its parent; together
    they are what a service consists of. The session guards against a later group of that number.
    """
    descendants = find_descendants(processes, leader.pid)
    return frozenset(
        process.identity
        for process in processes
        if process.pid in descendants
        or (process.group, process.session) == (leader.pid, leader.session)
    )


def read_line_of_descent(host: ReadableHost) -> frozenset[int]:
    """Our own pid and those of all our ancestors.

    A shell may carry our stamps because somebody exported them; it and we are no leftovers.
    """
    try:
        pid = int(host.read_link("/proc/self"))
    except (HostError, ValueError):
        return frozenset()
    line: set[int] = set()
    while pid and pid not in line and (process := read_process(host, pid)):
        line.add(pid)
        pid = process.parent
    return frozenset(line)


def sees_same_folder(host: ReadableHost, pid: int, *, home: str) -> bool:
    """Whether a process means the same folder as we do when it says ``home``.

    On one machine the same path can be another folder: in a container whose processes we see, or
    behind a private mount. The same mount namespace settles it; in another one, the state
    folder's mark does, which holds a random key. What cannot be read is not ours.
    """
    try:
        if host.read_link(f"/proc/{pid}/ns/mnt") == host.read_link("/proc/self/ns/mnt"):
            return True
        mark = f"{home}/state.json"
        return host.read_text(f"/proc/{pid}/root{mark}") == host.read_text(mark)
    except HostError:
        return False
