"""What the guard sees, what it does and what it remembers, as frozen values.

:mod:`stoker.guard.decide` turns observations into actions by these; the shell makes the
observations and carries the actions out. Nothing here decides anything.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from stoker.guard.config import Canary, Limits, PhasePattern

#: The phase of an engine that has told none yet.
STARTING = "starting"
#: The phase of a line that tells why the engine is about to end.
FAILED = "failed"
#: The phase during which reading weights is what an engine does.
LOADING_WEIGHTS = "loading-weights"


class ExitCode(IntEnum):
    """How the guard itself ends. All other statuses are the engine's own, passed on."""

    DONE = 0
    USAGE = 2
    STALLED = 90
    NEVER_VERIFIED = 91
    GAVE_UP = 92
    ENDED_UNASKED = 93
    NO_DEVICES = 94
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


class Mode(StrEnum):
    """Where the guard stands with its engine."""

    LOADING = "loading"
    VERIFYING = "verifying"
    READY = "ready"
    ENDING = "ending"
    ENDED = "ended"


class Reply(StrEnum):
    """How a request ended. BUSY is a server that says itself that it has too much to do."""

    GOOD = "good"
    GARBAGE = "garbage"
    ERROR = "error"
    BUSY = "busy"
    REFUSED = "refused"
    TIMEOUT = "timeout"


# Observations


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The clock: seconds that never go back. All else that is seen is seen at the last tick."""

    now_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines of the engine's log, in order."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesRead:
    """Bytes that all processes of the engine have read so far; it may fall when one ends."""

    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """Bytes of GPU memory that the engine holds. An observation that nobody has to make."""

    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The engine's first process has ended; negative for a signal, as in subprocess."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the readiness path answered; GOOD is HTTP 200."""

    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """How a trial of the contract ended, with a sentence on what was not kept.

    GOOD: kept. GARBAGE: broken. REFUSED, TIMEOUT, BUSY: it could not be tried to its end.
    """

    reply: Reply
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The sum of the counters that grow with every token; None if it could not be read.

    ``reply``: how the request ended.
    """

    total: float | None
    reply: Reply = Reply.GOOD


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """How the small question was answered, with a sentence where it was not."""

    reply: Reply
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """The guard itself was sent a signal."""

    number: signal.Signals


Observation = (
    Tick
    | Lines
    | BytesRead
    | GpuMemory
    | Exited
    | Health
    | Contract
    | Counters
    | CanaryResult
    | Signalled
)


# Actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Tell the service manager: lines of the form NAME=VALUE, as sd_notify(3) has them."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryHealth:
    """Ask the readiness path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TryContract:
    """Try the quick contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TryCounters:
    """Read the counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TryCanary:
    """Ask a small question with an answer of at most so many tokens."""

    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalEngine:
    """Send a signal to every process of the engine."""

    number: signal.Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """End the guard with this status. ``reason`` is for a person and may have several lines."""

    code: int
    reason: str


Action = Notify | TryHealth | TryContract | TryCounters | TryCanary | SignalEngine | Exit


# Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A percentage that a kind of line tells, and whether it was ever higher than later."""

    percent: float
    has_fallen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a start goes on.

    ``at_seconds``: when anything last went on; ``certain_at_seconds``: when something did that
    cannot be idle talk. ``phase_at_seconds`` and ``bytes_at_phase``: when the present phase
    began, and what had been read by then. ``seen`` holds kinds of lines, phases and replies that
    are no longer news. ``bytes_read`` and ``gpu_bytes`` are the last readings.
    """

    at_seconds: float
    certain_at_seconds: float
    phase: str = STARTING
    title: str = STARTING
    percent: float | None = None
    phase_at_seconds: float
    bytes_at_phase: int = 0
    bytes_read: int = 0
    bytes_at_seconds: float
    gpu_bytes: int = 0
    seen: frozenset[str] = frozenset()
    bars: Mapping[str, Bar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vigil:
    """What is known of a ready engine.

    ``counters``: the last reading. ``alive_at_seconds``: the last evidence that it generates.
    ``asked_at_seconds``: the last question that was answered or found it busy. ``faults``: wrong
    answers and refusals since the last good answer; ``silences``: questions without any answer
    since the last evidence; ``sentence``: what the last of either was. ``question``: how the
    question ended after which the counters are being read. ``is_hopeless``: it is given up.
    """

    counters: float | None = None
    alive_at_seconds: float = 0.0
    asked_at_seconds: float = 0.0
    faults: int = 0
    silences: int = 0
    sentence: str = ""
    question: CanaryResult | None = None
    is_hopeless: bool = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether something speaks against it."""
        return bool(self.faults or self.silences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """An end that the guard brings about: with which code, why, and when it uses force.

    ``title`` is the word that is shown: stalled, stopping, or ended where it ended by itself.
    """

    code: int
    title: str
    reason: str
    kill_at_seconds: float
    is_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the service manager was told last, and when."""

    status: str = ""
    status_at_seconds: float = 0.0
    extended_at_seconds: float | None = None
    watchdog_at_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What does not change while a guard runs.

    ``expected_seconds``: how long earlier starts took, None if there were none.
    """

    limits: Limits
    canary: Canary
    phases: tuple[PhasePattern, ...] = ()
    weight_bytes: int = 0
    expected_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that the guard remembers between two observations.

    ``next_at_seconds``: when the next request is due; ``is_asking``: one is under way.
    ``trials`` and ``verdict``: how often the contract was tried in vain, and its last word.
    """

    rules: Rules
    mode: Mode = Mode.LOADING
    began_at_seconds: float
    mode_at_seconds: float
    now_seconds: float
    progress: Progress
    next_at_seconds: float
    is_asking: bool = False
    trials: int = 0
    verdict: str = ""
    vigil: Vigil = field(default_factory=Vigil)
    ending: Ending | None = None
    told: Told = field(default_factory=Told)
    last_lines: tuple[str, ...] = ()
