"""Which processes a person may have ended before a start, and who is refused. Pure.

Called by the commands with what was found out about the pids that were named. Whoever is not in
the way is left alone, and so is whoever would only be started again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import UsageError
from stoker.model.plan import NamedProcess

_FIRST = 1
_WHOM = "name who is in the way: the findings of `stoker plan` do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A process, and what is known about it that matters here.

    ``process`` is its identity, ``group`` its process group. ``holds`` says what of the deployment
    it holds (``GPU 0``, ``port 30000``); ``stop`` is the command that ends what it belongs to,
    empty if it belongs to nothing that would start it again.
    """

    pid: int
    process: str
    title: str
    group: int
    holds: tuple[str, ...] = ()
    stop: str = ""
    is_kernel: bool = False


def choose_ending(
    name: str,
    pids: Sequence[int],
    candidates: Mapping[int, Candidate],
    *,
    own: Collection[int],
    line: Collection[int],
) -> tuple[NamedProcess, ...]:
    """The processes to be ended for the deployment ``name``: those that were named, and what holds
    something with them in the same process group. Raises UsageError for one that is refused.

    ``own`` are the deployment's own processes, ``line`` we ourselves and whoever started us.
    """
    for pid in pids:
        _check(name, pid, candidates.get(pid), own=own, line=line)
    groups = {candidates[pid].group for pid in pids}
    chosen = [
        each
        for each in candidates.values()
        if each.pid in pids or (each.group in groups and _is_free(each, {*own, *line}))
    ]
    return tuple(
        NamedProcess(pid=each.pid, process=each.process, title=each.title)
        if each.pid in pids
        else NamedProcess(
            pid=each.pid, process=each.process, title=f"{each.title}, which belongs to it"
        )
        for each in sorted(chosen, key=lambda each: each.pid)
    )


def _is_free(candidate: Candidate, spared: Collection[int]) -> bool:
    """Whether nothing speaks against ending it together with its group."""
    is_refused = candidate.stop or candidate.is_kernel or candidate.pid in spared
    return bool(candidate.holds) and not is_refused


def _check(
    name: str,
    pid: int,
    candidate: Candidate | None,
    *,
    own: Collection[int],
    line: Collection[int],
) -> None:
    if pid == _FIRST:
        raise UsageError("process 1 is what the whole machine or container runs in", _WHOM)
    if pid in line:
        raise UsageError(
            f"process {pid} is this very command, or one that it was started from", _WHOM
        )
    if pid in own:
        raise UsageError(
            f"process {pid} is {name} itself, which needs not be named",
            "leave it out: a start ends what is left of it",
        )
    if candidate is None:
        raise UsageError(f"there is no process {pid}, or it is not shown to this user", _WHOM)
    if candidate.is_kernel:
        raise UsageError(f"process {pid} is a thread of the kernel, which nobody can end", _WHOM)
    if not candidate.holds:
        raise UsageError(
            f"process {pid} ({candidate.title}) holds neither the GPUs nor the port of {name}",
            _WHOM,
        )
    if candidate.stop:
        raise UsageError(
            f"process {pid} ({candidate.title}) belongs to a service, which would start it again",
            f"use {candidate.stop}",
        )
