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
#: How many of an engine's last lines are shown when it dies.
LAST_LINES = 12

_DEAD = frozenset({ServicePhase.FAILED, ServicePhase.STOPPED, ServicePhase.ABSENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a start has come: a title for a person and, where known, a fraction of it."""

    title: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is looked at while waiting.

    ``read_log``: the lines that the engine has written since this start. ``progress``: what the
    guard of this process tells. ``is_loaded``: whether the engine says that it has.
    ``is_verified``: whether its guard calls it ready. ``explain``: what the lines of one that ended
    say about the reason, empty for nothing.
    """

    name: str
    state: Callable[[], ServiceState]
    read_log: Callable[[], Sequence[str]]
    progress: Callable[[ServiceState], Progress]
    is_loaded: Callable[[], bool]
    is_verified: Callable[[ServiceState], bool]
    explain: Callable[[Sequence[str]], str]


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
    process = ""
    while True:
        state = _look(watched, process)
        process = process or state.process
        seconds = clock.monotonic_seconds() - began
        _tell(watched, state, reporter, seconds=seconds, expected_seconds=expected_seconds)
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
    reason = watched.explain(watched.read_log())
    because = f": {reason}" if reason else ""
    lines = _last_lines(watched)
    told = f"its last lines:\n{lines}" if lines else "it wrote nothing"
    return f"{watched.name} ended while it was starting{because}{detail}; {told}"


def _last_lines(watched: Watched) -> str:
    return "\n".join(f"    {line}" for line in watched.read_log()[-LAST_LINES:])


def _tell(
    watched: Watched,
    state: ServiceState,
    reporter: Reporter,
    *,
    seconds: float,
    expected_seconds: float | None,
) -> None:
    progress = watched.progress(state)
    fraction = progress.fraction
    if fraction is None and expected_seconds:
        fraction = min(seconds / expected_seconds, 0.99)
    data = {"seconds": round(seconds, 1), "expected_seconds": expected_seconds}
    reporter.emit(
        Event(
            kind=EventKind.PHASE,
            subject=watched.name,
            text=progress.title,
            fraction=fraction,
            data=data,
        )
    )
