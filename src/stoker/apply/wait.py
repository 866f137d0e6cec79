"""Waits until an engine has loaded, telling what it does meanwhile.

Called while a plan is activated. It ends with a loaded engine, or with the reason why there is
none: its process ended. There is no time limit of its own, because the engine's guard has a better
one: it ends an engine that makes no progress. Loading is not verifying; that comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.errors import SupervisorError
from stoker.model.event import Event, EventKind
from stoker.model.launch import ServicePhase, ServiceState
from stoker.ports import Clock, Reporter

#: How often the engine is looked at. A small model loads in under a second.
INTERVAL_SECONDS = 0.2
#: How many of an engine's last lines are shown when it dies, and how many behind its first error.
LAST_LINES = 12
LINES_BEHIND_ERROR = 3
#: No line of an engine is shown at greater length.
LINE_CHARACTERS = 400

_DEAD = frozenset({ServicePhase.FAILED, ServicePhase.STOPPED, ServicePhase.ABSENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a start has come: a title for a person and, where known, a fraction of it.

    ``has_failed``: the engine told why it is about to end, so nothing is left to be estimated.
    """

    title: str
    fraction: float | None = None
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is looked at while waiting.

    ``read_log``: the lines that the engine has written since this start. ``progress``: what the
    guard of this process tells. ``is_loaded``: whether the engine says that it has.
    ``is_verified``: whether its guard calls it ready. ``explain``: what the lines of one that ended
    say about the reason, empty for nothing. ``find_error``: where among them the first error
    begins and ends, None where none is seen.
    """

    name: str
    state: Callable[[], ServiceState]
    read_log: Callable[[], Sequence[str]]
    progress: Callable[[ServiceState], Progress]
    is_loaded: Callable[[], bool]
    is_verified: Callable[[ServiceState], bool]
    explain: Callable[[Sequence[str]], str]
    find_error: Callable[[Sequence[str]], range | None]


def wait_loaded(
    watched: Watched,
    *,
    clock: Clock,
    reporter: Reporter,
    expected_seconds: float | None = None,
) -> ServiceState:
    """Wait until the engine has loaded and return the state of its process.

    Raises SupervisorError with the engine's last lines when its process ends, also when the
    supervisor has already begun another one.
    """
    began = clock.monotonic_seconds()
    process, reached = "", 0.0
    while True:
        state = _look(watched, process)
        process = process or state.process
        event = _describe(
            watched,
            watched.progress(state),
            seconds=clock.monotonic_seconds() - began,
            expected_seconds=expected_seconds,
            reached=reached,
        )
        reached = max(reached, event.fraction or 0.0)
        reporter.emit(event)
        if state.process and watched.is_loaded():
            return state
        clock.sleep(INTERVAL_SECONDS)


def wait_ready(
    watched: Watched, process: str, *, clock: Clock, timeout_seconds: float
) -> ServiceState:
    """Wait until the guard of this process and its supervisor call it ready.

    Raises SupervisorError when it ends, or when the time is over.
    """
    deadline = clock.monotonic_seconds() + timeout_seconds
    while True:
        state = _look(watched, process)
        if state.phase is ServicePhase.RUNNING and watched.is_verified(state):
            return state
        if clock.monotonic_seconds() > deadline:
            raise SupervisorError(
                f"{watched.name} keeps its contract, but its guard did not call it ready within "
                f"{timeout_seconds:.0f} s; its last lines:\n{_last_lines(watched)}",
                "the guard writes its status into the service's folder; see whether it can",
            )
        clock.sleep(INTERVAL_SECONDS)


def _look(watched: Watched, process: str) -> ServiceState:
    """The state, as long as it is that of this process (of any where it is empty)."""
    state = watched.state()
    if _is_dead(state, process or state.process):
        raise SupervisorError(_death_sentence(watched, state))
    return state


def _is_dead(state: ServiceState, process: str) -> bool:
    is_another = bool(process and state.process and state.process != process)
    return state.phase in _DEAD or state.phase is ServicePhase.BACKOFF or is_another


def _death_sentence(watched: Watched, state: ServiceState) -> str:
    detail = f" ({state.detail})" if state.detail else ""
    lines = watched.read_log()
    reason = watched.explain(lines)
    because = f": {reason}" if reason else ""
    told = _quote(lines, watched.find_error(lines))
    return f"{watched.name} ended while it was starting{because}{detail}; {told}"


def _quote(lines: Sequence[str], error: range | None) -> str:
    """The lines that tell most: the first error, which is nearest to the cause, and the end."""
    if not lines:
        return "it wrote nothing"
    if error is None or error.start >= len(lines) - LAST_LINES:
        return f"its last lines:\n{_indent(lines[-LAST_LINES:])}"
    first = _indent(lines[error.start : error.stop])
    end = max(error.stop, len(lines) - LINES_BEHIND_ERROR)
    gap = "    ...\n" if end > error.stop else ""
    rest = f"\n{gap}{_indent(lines[end:])}" if end < len(lines) else ""
    return f"the first error in its log, and the end:\n{first}{rest}"


def _last_lines(watched: Watched) -> str:
    return _indent(watched.read_log()[-LAST_LINES:])


def _indent(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line[:LINE_CHARACTERS]}" for line in lines)


def _describe(
    watched: Watched,
    progress: Progress,
    *,
    seconds: float,
    expected_seconds: float | None,
    reached: float,
) -> Event:
    """What is told of a start. Its fraction never falls below what was ``reached``.

    Earlier starts tell the whole of it; without them there is the fraction of a phase, which is
    left out where a later phase begins anew.
    """
    expected = None if progress.has_failed else expected_seconds
    fraction = None if progress.has_failed else progress.fraction
    if expected:
        fraction = max(min(seconds / expected, 0.99), reached)
    elif fraction is not None and fraction < reached:
        fraction = None
    data = {"seconds": round(seconds, 1), "expected_seconds": expected}
    return Event(
        kind=EventKind.PHASE,
        subject=watched.name,
        text=progress.title,
        fraction=fraction,
        data=data,
    )
