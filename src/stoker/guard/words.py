"""How a guard says where it stands: one line for a person, one value for programs. Pure.

:mod:`stoker.guard.decide` puts the line behind ``STATUS=``; :mod:`stoker.guard.run` writes the
value into the status document.
"""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass
from typing import ClassVar

from stoker.guard.progress import read_fraction
from stoker.guard.values import FAILED, STARTING, Mode, State

#: A rate that was seen for less of the work, or for less time, says nothing about the rest.
_TELLING_FRACTION = 0.05
_TELLING_SECONDS = 5.0

_STATUS_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardStatus:
    """Where a service stands, for supervisors that are sent no notifications.

    ``phase``: starting, loading-weights, allocating, capturing, warming-up or another word of the
    engine's table; then verifying, ready; then stalled or stopping. ``percent`` and
    ``left_seconds`` (until the engine answers) are None where they are not known.
    ``since_seconds``: when the phase began, in seconds since the epoch. ``process`` identifies
    the engine's first process, which ``verified`` speaks about; ``guard`` does so for the guard
    itself, whom the manager knows. ``text`` is the whole sentence.
    """

    SCHEMA: ClassVar[str] = "guard-status/1"

    name: str
    digest: str
    phase: str
    percent: int | None
    left_seconds: int | None
    since_seconds: float
    verified: bool
    text: str
    pid: int
    process: str
    guard: str


def describe(state: State) -> str:
    """The sentence behind ``STATUS=``: one line, bounded, without control characters."""
    text = _describe(state)
    return "".join(c if c.isprintable() else " " for c in text)[:_STATUS_CHARACTERS]


def _describe(state: State) -> str:
    if state.ending:
        return f"{state.ending.title}: {state.ending.reason}"
    if state.mode is Mode.VERIFYING:
        return f"verifying, not kept yet: {state.verdict}" if state.verdict else "verifying"
    if state.mode is Mode.READY:
        doubt = f", in doubt: {state.vigil.sentence}" if state.vigil.is_in_doubt else ""
        return f"ready{doubt}"
    return _describe_loading(state)


def _describe_loading(state: State) -> str:
    if state.progress.phase == FAILED:
        return say_phase(FAILED)  # nothing is left that could be estimated
    fraction, left = read_fraction(state.progress, state.rules), estimate_left_seconds(state)
    percent = "" if fraction is None else f" {math.floor(fraction * 100)} %"
    estimate = "" if left is None else f", {_about(left)} left"
    return f"{say_phase(state.progress.phase)}{percent}{estimate}{_describe_quiet(state)}"


def _describe_quiet(state: State) -> str:
    """For a person who wonders: that nothing goes on, and when that will have consequences."""
    quiet, limit = state.now_seconds - state.progress.at_seconds, state.rules.limits.stall_seconds
    if quiet <= limit / 2:
        return ""
    return f", no progress for {_span(quiet)} (it counts as stuck after {_span(limit)})"


def say_phase(phase: str) -> str:
    """A word of the phases as a person reads it."""
    return phase.replace("-", " ") or STARTING


def name_phase(state: State) -> str:
    """The word of the phase, for programs."""
    if state.ending:
        return state.ending.title
    return state.progress.phase if state.mode is Mode.LOADING else str(state.mode)


def phase_began_seconds(state: State) -> float:
    """When the present phase began, on the guard's own clock."""
    return state.progress.phase_at_seconds if state.mode is Mode.LOADING else state.mode_at_seconds


def estimate_left_seconds(state: State) -> float | None:
    """How long until the engine answers, None where nothing tells it.

    Earlier starts tell it best; while one takes longer than they did, the rate of this phase does.
    """
    if state.progress.phase == FAILED:
        return None
    expected = state.rules.expected_seconds
    elapsed = state.now_seconds - state.began_at_seconds
    if expected and elapsed < expected:
        return expected - elapsed
    fraction = read_fraction(state.progress, state.rules)
    seconds = state.now_seconds - state.progress.phase_at_seconds
    if fraction is None or fraction < _TELLING_FRACTION or seconds < _TELLING_SECONDS:
        return None
    return seconds * (1 - fraction) / fraction


def say_exit(status: int) -> str:
    """How a process ended, as a person reads it; negative for a signal."""
    if status >= 0:
        return f"it ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    unasked = " (not by the guard; often the kernel, when memory is short)"
    return f"it was ended by {name}{unasked if -status == signal.SIGKILL else ''}"


def _span(seconds: float) -> str:
    """A time that has passed, so roughly that it does not change with every look."""
    if seconds < 20:
        return f"{seconds:.0f} s"
    return f"{seconds // 10 * 10:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min"


def _about(seconds: float) -> str:
    if seconds < 60:
        return "less than 1 min"
    return f"about {math.ceil(seconds / 60)} min"
