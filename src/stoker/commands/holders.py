"""`--end-holders`: which processes may be ended before a start, their end, and the wait after it.

The processes are chosen while a plan is made and shown in it; the executor calls back here. A
process is only ever signalled as the very one that the plan names, never by its pid alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from stoker import __version__
from stoker.commands.judge import knowledge_tree, pids_of_service
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.knowledge.derived.devices import choose_devices
from stoker.knowledge.derived.holders import say_stop
from stoker.knowledge.gpu_memory import load_gpu_memory
from stoker.model.event import Event, EventKind
from stoker.model.facts import Plain, Target, Unknown, read_path
from stoker.model.plan import Activation, NamedProcess
from stoker.model.units import parse_process_identity
from stoker.planning.ending import Candidate, choose_ending
from stoker.planning.freeing import GpuUse, find_unfreed, read_uses
from stoker.probes.control_groups import parse_owner
from stoker.probes.observe import observe
from stoker.supervisors.processes import (
    Process,
    find_descendants,
    read_line_of_descent,
    read_processes,
)

#: A server that computes may take long to end: it finishes answers and gives memory back.
END_SECONDS = 30.0
#: What it started has heard of its end by then.
FAMILY_SECONDS = 5.0
#: The driver takes memory back within seconds of an end; a minute is more than it ever needs.
FREE_SECONDS = 60.0
_LOOK_SECONDS = 1.0

#: PF_KTHREAD in the kernel's sched.h, and where /proc/PID/stat has the flags and the group, from
#: the field after the command's name (proc_pid_stat(5)).
_KERNEL_THREAD = 0x00200000
_GROUP, _FLAGS = 2, 6
#: States of a process that has ended and only waits to be reaped.
_ENDED_STATES = frozenset("ZXx")
_MOST_PID = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """What is cleared away before a start: processes, and on which GPUs memory must come back."""

    ending: tuple[NamedProcess, ...] = ()
    gpus: tuple[str, ...] = ()


#: Nothing is cleared away.
NOTHING = Clearing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What rules may ask about a deployment whose named holders are gone, and what to clear.

    ``going``: those holders with all that they started.
    """

    tree: Mapping[str, Plain] = field(default_factory=dict)
    clearing: Clearing
    going: frozenset[int] = frozenset()


def parse_pids(text: str | None) -> tuple[int, ...]:
    """``4711,4712`` as numbers, each once. Raises UsageError."""
    words = [word.strip() for word in text.split(",")] if text is not None else []
    for word in words:
        if not (word.isascii() and word.isdecimal() and 0 < int(word[:10]) <= _MOST_PID):
            raise UsageError(
                f"--end-holders {text}: `{word}` is no process", "pids with commas: 4711,4712"
            )
    return tuple(dict.fromkeys(int(word) for word in words))


def judge_without(world: World, resolved: Resolved, pids: Sequence[int]) -> Judged:
    """The tree of rules as if these processes were gone already. Raises UsageError for a pid that
    may not be ended."""
    tree = knowledge_tree(world, resolved)
    chosen = choose_devices(resolved.deployment, resolved.facts, resolved.table)
    devices = () if isinstance(chosen, Unknown) else chosen
    gpus = tuple(device.address for device in devices)
    if not pids:
        return Judged(tree=tree, clearing=Clearing(gpus=gpus))
    ending = _choose(world, resolved, tree, pids)
    going = frozenset(pid for each in ending for pid in (each.pid, *_family_of(world, each)))
    tree = knowledge_tree(world, resolved, ending=going)
    return Judged(tree=tree, clearing=Clearing(ending=ending, gpus=gpus), going=going)


# Choosing


def _choose(
    world: World, resolved: Resolved, tree: Mapping[str, Plain], pids: Sequence[int]
) -> tuple[NamedProcess, ...]:
    name = resolved.deployment.name
    holding = _holding(tree)
    found = (_look_at(world, pid, holding.get(pid, [])) for pid in sorted({*pids, *holding}))
    candidates = {each.pid: each for each in found if each is not None}
    own = pids_of_service(world, name)
    line = read_line_of_descent(world.host)
    try:
        return choose_ending(name, pids, candidates, own=own, line=line)
    except UsageError as error:
        if reason := _why_unseen(tree):
            raise UsageError(f"{error.summary}; {reason}", error.hint) from error
        raise


def _holding(tree: Mapping[str, Plain]) -> dict[int, list[Mapping[str, Plain]]]:
    """What is known of who holds the chosen GPUs and the port, by pid."""
    holding: dict[int, list[Mapping[str, Plain]]] = {}
    rows = read_path(tree, "derived.holders.rows")
    for row in () if isinstance(rows, Unknown) else rows:
        if row["is_seen"]:
            holding.setdefault(row["pid"], []).append({**row, "holds": row["gpus"]})
    listeners = read_path(tree, "derived.port.holders")
    for row in () if isinstance(listeners, Unknown) else listeners:
        if row.get("pid"):
            holding.setdefault(row["pid"], []).append({**row, "holds": [f"port {row['port']}"]})
    return holding


def _why_unseen(tree: Mapping[str, Plain]) -> str:
    """Why somebody who holds a GPU or the port may not be known as such."""
    for path in ("derived.holders.rows", "derived.port.holders"):
        found = read_path(tree, path)
        if isinstance(found, Unknown):
            return f"who holds what could not be seen: {found.reason}"
    return ""


def _look_at(world: World, pid: int, holding: Sequence[Mapping[str, Plain]]) -> Candidate | None:
    """The process as it is now, None if it has ended; one that is another than the one that was
    seen holds nothing."""
    try:
        text = world.host.read_text(f"/proc/{pid}/stat")
        identity = parse_process_identity(text, pid)
        fields = text.rpartition(")")[2].split()
        group, flags = int(fields[_GROUP]), int(fields[_FLAGS])
        owner = parse_owner(world.host.read_text(f"/proc/{pid}/cgroup"))
    except (HostError, ValueError):
        return None
    if fields[0] in _ENDED_STATES:
        return None
    rows = [row for row in holding if row.get("process", identity) == identity]
    stops = [say_stop({"deployment": None, **row, **owner}) for row in rows]
    return Candidate(
        pid=pid,
        process=identity,
        title=next((str(row["title"]) for row in rows), _name_of(text)),
        group=group,
        holds=tuple(dict.fromkeys(word for row in rows for word in row["holds"])),
        stop=next(filter(None, stops), ""),
        is_kernel=bool(flags & _KERNEL_THREAD),
    )


def _name_of(stat_text: str) -> str:
    name = stat_text.partition("(")[2].rpartition(")")[0]
    return "".join(each if each.isprintable() else "?" for each in name)


# Ending


def end_named(world: World, activation: Activation, ended: set[int]) -> None:
    """End the processes that a plan names, each with all that it started. Raises HostError.

    Their pids are added to ``ended``. Whoever is gone already, or has another process behind its
    pid, is left alone.
    """
    for named in activation.processes:
        family = _family_of(world, named)
        ended.update((named.pid, *family))
        _say(world, activation.target, f"ending {named.title}")
        _end(world, named.pid, named.process, END_SECONDS)
        for pid, process in family.items():
            _end(world, pid, process, FAMILY_SECONDS)


def _family_of(world: World, named: NamedProcess) -> dict[int, str]:
    """What this very process started, directly or not: identities by pid, without itself."""
    processes = _snapshot(world)
    if not any(each.identity == named.process for each in processes):
        return {}
    descendants = find_descendants(processes, named.pid)
    return {each.pid: each.identity for each in processes if each.pid in descendants}


def _snapshot(world: World) -> tuple[Process, ...]:
    with suppress(HostError):
        return read_processes(world.host)
    return ()


def _end(world: World, pid: int, process: str, seconds: float) -> None:
    if not world.host.end_process(pid, process, seconds):
        raise HostError(
            f"process {pid} cannot be ended{_say_state(world, pid)}",
            "without the right to signal it run as root; one that waits for its device ends with "
            "that, or with a restart of the machine",
        )


def _say_state(world: World, pid: int) -> str:
    """Why a process is still there, as far as its state tells it."""
    try:
        fields = world.host.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except HostError:
        return ""
    if fields[:1] == ["D"]:
        return ": it waits in the kernel, most likely for a driver (state D)"
    if fields[:1] == ["Z"]:
        return f": it has ended, but its parent {fields[1]} takes no note of it (state Z)"
    return ""


# Waiting


@contextmanager
def freeing(world: World, activation: Activation) -> Iterator[set[int]]:
    """Around the end of processes: wait until the GPUs of the activation are really free.

    Whoever ends a process adds its pid to the set. Raises HostError when memory does not come back
    in time, saying what still holds it.
    """
    ended: set[int] = set()
    before = _read_uses(world, activation.gpus)
    yield ended
    if before:
        _await_free(world, activation, before, ended)
    elif activation.gpus:
        _say(world, activation.target, "whether the GPUs' memory is free again cannot be seen")


def _await_free(
    world: World, activation: Activation, before: Mapping[str, GpuUse], ended: Collection[int]
) -> None:
    idle_bytes = load_gpu_memory().idle.count_bytes
    began = world.clock.monotonic_seconds()
    while True:
        now = _read_uses(world, activation.gpus)
        unfreed = find_unfreed(before, now, ended=ended, idle_bytes=idle_bytes)
        seconds = world.clock.monotonic_seconds() - began
        if not unfreed:
            return
        if seconds > FREE_SECONDS:
            states = [_say_left(world, pid) for pid in sorted(ended)]
            raise HostError(
                f"the GPUs' memory is not free {seconds:.0f} s after the processes were ended: "
                + "; ".join((*unfreed, *filter(None, states))),
                "`nvidia-smi` shows who uses what; what nobody uses comes back when the GPU is "
                "reset, or with a restart of the machine",
            )
        _say(world, activation.target, f"waiting for memory: {unfreed[0]}", seconds=seconds)
        world.clock.sleep(_LOOK_SECONDS)


def _say_left(world: World, pid: int) -> str:
    state = _say_state(world, pid)
    return f"process {pid}{state}" if state else ""


def _read_uses(world: World, addresses: Collection[str]) -> dict[str, GpuUse]:
    """The memory of these GPUs now; nothing where it cannot be read."""
    if not addresses:
        return {}
    facts = observe(
        world.host,
        Target(),
        stoker_version=__version__,
        now_seconds=world.clock.now_seconds(),
        only=frozenset({"gpus"}),
    )
    gpus = facts.read("gpus.gpus")
    return {} if isinstance(gpus, Unknown) else read_uses(gpus, addresses)


def _say(world: World, name: str, text: str, *, seconds: float | None = None) -> None:
    data = {} if seconds is None else {"seconds": round(seconds, 1)}
    world.reporter.emit(Event(kind=EventKind.PHASE, subject=name, text=text, data=data))
