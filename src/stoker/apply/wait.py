"""Waits until an engine has loaded, telling what it does meanwhile.

Called while a plan is activated. It ends with a loaded engine, or with the reason why there is
none: the process ended, or the time is over. Loading is not verifying; that comes after.
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

    ``read_log``: the lines that the engine has written since this start. ``progress``: what they
    tell. ``is_ready``: whether the engine says that it has loaded.
    """

    name: str
    state: Callable[[], ServiceState]
    read_log: Callable[[], Sequence[str]]
    progress: Callable[[Sequence[str]], Progress]
    is_ready: Callable[[], bool]


def wait_loaded(
    watched: Watched,
    *,
    clock: Clock,
    reporter: Reporter,
    timeout_seconds: float,
    expected_seconds: float | None = None,
) -> ServiceState:
    """Wait until the engine has loaded and return the state of its process.

    Raises SupervisorError with the engine's last lines when its process ends (also when the
    supervisor has already begun another one), or when the time is over.
    """
    began = clock.monotonic_seconds()
    process = ""
    while True:
        state = watched.state()
        process = process or state.process
        if _is_dead(state, process):
            raise SupervisorError(_death_sentence(watched, state))
        seconds = clock.monotonic_seconds() - began
        _tell(watched, reporter, seconds=seconds, expected_seconds=expected_seconds)
        if state.phase is ServicePhase.RUNNING and watched.is_ready():
            return state
        if seconds > timeout_seconds:
            raise SupervisorError(
                f"{watched.name} did not finish loading within {timeout_seconds:.0f} s; "
                f"its last lines:\n{_last_lines(watched)}",
                "if it was still making progress, raise service.start_timeout_seconds",
            )
        clock.sleep(INTERVAL_SECONDS)


def _is_dead(state: ServiceState, process: str) -> bool:
    is_another = bool(process and state.process and state.process != process)
    return state.phase in _DEAD or state.phase is ServicePhase.BACKOFF or is_another


def _death_sentence(watched: Watched, state: ServiceState) -> str:
    detail = f" ({state.detail})" if state.detail else ""
    lines = _last_lines(watched)
    told = f"its last lines:\n{lines}" if lines else "it wrote nothing"
    return f"{watched.name} ended while it was starting{detail}; {told}"


def _last_lines(watched: Watched) -> str:
    return "\n".join(f"    {line}" for line in watched.read_log()[-LAST_LINES:])


def _tell(
    watched: Watched, reporter: Reporter, *, seconds: float, expected_seconds: float | None
) -> None:
    progress = watched.progress(watched.read_log())
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
