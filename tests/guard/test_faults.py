"""Engines with planted faults: each is noticed, named, and ended as documented, in time."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from stoker.guard.config import GuardConfig
from stoker.guard.decide import KILL_SECONDS, VERIFY_PATIENCE_SECONDS
from stoker.guard.values import ExitCode, Rules
from stoker.guard.vigil import DOUBT_PAUSE_SECONDS, DOUBTS, longest_doubt_seconds, question_seconds
from stoker.model.contract import Request
from tests.guard.simulation import (
    CONFIG,
    GIB,
    NEVER,
    REFUSED,
    SILENT,
    At,
    Scene,
    Simulation,
    Story,
    Wire,
    answer,
    load_lines,
    serving,
    spam,
    steadily,
    unavailable,
    well,
)

LIMITS = CONFIG.limits
RULES = Rules(limits=LIMITS, canary=CONFIG.canary)

#: When the fault begins: in the middle of a start, or an hour after it.
LOADED = 120.0
HOUR = 3600.0

#: The documented times, from the beginning of the fault to the end of the engine.
STOP = LIMITS.stop_timeout_seconds + 5
STUCK = LIMITS.stall_seconds + STOP
TALK = LIMITS.start_timeout_seconds + STUCK
UNKEPT = VERIFY_PATIENCE_SECONDS + 60 + STOP
SILENCE = longest_doubt_seconds(RULES) + STOP
NONSENSE = question_seconds(RULES) + SILENCE
AT_ONCE = 2.0

#: A line every second that is new each time: no line of it tells anything.
_random = random.Random(20)
NOISE = [
    (40.0 + n, "".join(_random.choice("\ufffdabcdefghijklm ") for _ in range(30)))
    for n in range(3000)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A fault: from when on, and what has to come of it.

    ``says``: what stands in the reason, the phase among it. ``within``: seconds from ``begins``.
    """

    scene: Scene
    begins: At
    code: int
    says: tuple[str, ...]
    within: float
    is_ready: bool = False
    config: GuardConfig = CONFIG


def loading(lines_until: At = 0.0, **values: object) -> Scene:
    """A start that stops at a moment: no line, no byte, no port after it."""
    scene = Scene(
        lines=[(at, line) for at, line in load_lines(5, LOADED) if at < lines_until],
        read=steadily(5, 60, GIB),
    )
    return replace(scene, **values)  # type: ignore[arg-type]


def breaking(then: Callable[[At, Request], Wire], **values: object) -> Scene:
    """A server that is well for an hour and then does this with every request."""

    def http(at: At, request: Request) -> Wire:
        return well(request) if at < HOUR else then(at, request)

    scene = Scene(lines=load_lines(5, LOADED), read=steadily(5, 60), http=serving(30, LOADED, http))
    return replace(scene, **values)  # type: ignore[arg-type]


def live_http(then: Callable[[Request], Wire]) -> Callable[[At, Request], Wire]:
    """The web server answers for itself; what needs the scheduler does something else."""

    def http(at: At, request: Request) -> Wire:
        return then(request) if request.method == "POST" else well(request)

    return http


def contract_of(fault: str) -> Scene:
    """A server that loads as it should and breaks its contract from the first reply on."""
    scene = breaking(lambda at, request: REFUSED)

    def http(at: At, request: Request) -> Wire:
        return well(request) if request.path == "/health" else answer(request, fault)

    return replace(scene, http=serving(30, LOADED, http))


def busy_until_hour(at: At) -> float:
    return min(at, HOUR) * 50


FAULTS = {
    # while it starts
    "hang in weights": Planted(
        scene=loading(70),
        begins=70,
        code=ExitCode.STALLED,
        says=("stuck in loading weights", "Loading shards:  70%"),
        within=STUCK,
    ),
    "stuck at CUDA-graph capture": Planted(
        scene=loading(110),
        begins=100,
        code=ExitCode.STALLED,
        says=("stuck in capturing", "Capture target decode CUDA graph begin"),
        within=STUCK,
    ),
    "log spam without progress": Planted(
        scene=loading(
            lines=[
                *load_lines(5, LOADED)[:20],
                *spam(70, 4000, "[2026-11-29 16:#:45] still waiting for rank # (0x7f#a, # s)"),
            ]
        ),
        begins=70,
        code=ExitCode.STALLED,
        says=("stuck in loading weights", "still waiting for rank"),
        within=STUCK,
    ),
    "a percentage that stands still in the spam": Planted(
        scene=loading(
            lines=[*load_lines(5, 80)[:15], *spam(80, 4000, "Loading shards:  47% # s left")]
        ),
        begins=80,
        code=ExitCode.STALLED,
        says=("stuck in loading weights",),
        within=STUCK,
    ),
    "a gauge that goes up and down": Planted(
        scene=loading(
            lines=[(at, f"GPU busy {at * 7 % 100:.0f}% (peers silent)") for at in range(20, 4000)]
        ),
        begins=20,
        code=ExitCode.STALLED,
        says=("stuck in starting",),
        within=TALK,
    ),
    "garbage log bytes": Planted(
        scene=loading(lines=NOISE),
        begins=40,
        code=ExitCode.STALLED,
        says=("stuck in starting",),
        within=TALK,
    ),
    "reads a little of everything, for ever": Planted(
        scene=loading(70, read=lambda at: int(at * 8000)),
        begins=70,
        code=ExitCode.STALLED,
        says=("stuck in loading weights",),
        within=STUCK,
    ),
    "exit during load": Planted(
        scene=loading(70, ends=(71.0, 1)),
        begins=71,
        code=1,
        says=("status 1 while loading weights", "Loading shards"),
        within=AT_ONCE,
    ),
    "exit with 0 during load": Planted(
        scene=loading(70, ends=(71.0, 0)),
        begins=71,
        code=ExitCode.ENDED_UNASKED,
        says=("status 0 while loading weights",),
        within=AT_ONCE,
    ),
    "OOM-killed": Planted(
        scene=loading(97, ends=(97.0, -9)),
        begins=97,
        code=137,
        says=("SIGKILL", "memory is short", "while allocating"),
        within=AT_ONCE,
    ),
    "health 503 forever": Planted(
        scene=replace(breaking(lambda at, request: REFUSED), http=serving(30, NEVER)),
        begins=LOADED,
        code=ExitCode.STALLED,
        says=("stuck in warming up",),
        within=STUCK,
    ),
    "slow drip health": Planted(
        scene=replace(breaking(lambda at, request: REFUSED), http=lambda at, request: SILENT),
        begins=LOADED,
        code=ExitCode.STALLED,
        says=("stuck in warming up",),
        within=STUCK,
    ),
    "health 200 before weights loaded, which never come": Planted(
        scene=loading(70, http=live_http(lambda request: unavailable()), heeds=NEVER),
        begins=70,
        code=ExitCode.NEVER_VERIFIED,
        says=("stuck in verifying", "HTTP 503", "SIGKILL"),
        within=STUCK + 60,
    ),
    "health 200, and no question is ever answered": Planted(
        scene=replace(
            breaking(lambda at, request: REFUSED),
            http=serving(30, LOADED, live_http(lambda request: SILENT)),
        ),
        begins=LOADED,
        code=ExitCode.NEVER_VERIFIED,
        says=("stuck in verifying", "no whole reply"),
        within=STUCK + 240,
    ),
    "wrong published name": Planted(
        scene=contract_of("another_name"),
        begins=LOADED,
        code=ExitCode.NEVER_VERIFIED,
        says=("never kept its contract", "published_name"),
        within=UNKEPT,
    ),
    "empty answers": Planted(
        scene=contract_of("empty_answer"),
        begins=LOADED,
        code=ExitCode.NEVER_VERIFIED,
        says=("never kept its contract", "chat_answer"),
        within=UNKEPT,
    ),
    "one repeated character": Planted(
        scene=contract_of("one_character"),
        begins=LOADED,
        code=ExitCode.NEVER_VERIFIED,
        says=("never kept its contract", "one character over and over"),
        within=UNKEPT,
    ),
    # once it is ready
    "dead scheduler with live HTTP": Planted(
        scene=breaking(live_http(lambda request: SILENT)),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "counters stood still"),
        within=SILENCE,
        is_ready=True,
    ),
    "counters frozen while requests run": Planted(
        scene=breaking(live_http(lambda request: SILENT), tokens=busy_until_hour),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "counters stood still"),
        within=SILENCE,
        is_ready=True,
    ),
    "dead scheduler without counters": Planted(
        scene=breaking(live_http(lambda request: SILENT), tokens=lambda at: None),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "no counters could be read"),
        within=2 * SILENCE,
        is_ready=True,
    ),
    "NaN after an hour": Planted(
        scene=breaking(live_http(lambda request: answer(request, "nan"))),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "numbers broke down"),
        within=SILENCE,
        is_ready=True,
    ),
    "NaN after an hour, to many users": Planted(
        scene=breaking(
            live_http(lambda request: answer(request, "one_character")),
            tokens=lambda at: at * 50,
        ),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "one character over and over"),
        within=NONSENSE,
        is_ready=True,
    ),
    "empty answers after an hour": Planted(
        scene=breaking(live_http(lambda request: answer(request, "empty_answer"))),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "no text"),
        within=SILENCE,
        is_ready=True,
    ),
    "canary 500s": Planted(
        scene=breaking(live_http(lambda request: unavailable(500))),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "HTTP 500"),
        within=SILENCE,
        is_ready=True,
    ),
    "refuses connections after ready": Planted(
        scene=breaking(lambda at, request: REFUSED),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "no connection"),
        within=SILENCE,
        is_ready=True,
    ),
    "accepts and never answers": Planted(
        scene=breaking(lambda at, request: SILENT),
        begins=HOUR,
        code=ExitCode.GAVE_UP,
        says=("no longer generates", "no whole reply"),
        within=2 * SILENCE,
        is_ready=True,
    ),
    "crash after ready": Planted(
        scene=breaking(lambda at, request: REFUSED, ends=(HOUR, -11)),
        begins=HOUR,
        code=139,
        says=("SIGSEGV", "while ready"),
        within=AT_ONCE,
        is_ready=True,
    ),
    "ends with 0 after ready": Planted(
        scene=breaking(lambda at, request: REFUSED, ends=(HOUR, 0)),
        begins=HOUR,
        code=ExitCode.ENDED_UNASKED,
        says=("status 0", "while ready"),
        within=AT_ONCE,
        is_ready=True,
    ),
    "TERM ignored": Planted(
        scene=breaking(
            lambda at, request: well(request), signals=((HOUR, signal.SIGTERM),), heeds=NEVER
        ),
        begins=HOUR,
        code=ExitCode.DONE,
        says=("SIGTERM", "SIGKILL"),
        within=STOP,
        is_ready=True,
    ),
    "TERM ignored by an engine that is stuck": Planted(
        scene=loading(110, heeds=NEVER),
        begins=100,
        code=ExitCode.STALLED,
        says=("stuck in capturing", "SIGKILL"),
        within=STUCK,
    ),
}


def tell(planted: Planted) -> Story:
    """What the guard did, up to a day."""
    return Simulation(scene=planted.scene, config=planted.config).run(until=planted.begins + 7200)


def test_there_are_at_least_twenty() -> None:
    assert len(FAULTS) >= 20


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed_named_and_ended_in_time(name: str) -> None:
    planted = FAULTS[name]
    story = tell(planted)
    assert story.exit is not None, story.states[-1]
    at, end = story.exit
    assert end.code == planted.code, end.reason
    assert [words for words in planted.says if words not in end.reason] == [], end.reason
    assert planted.begins <= at <= planted.begins + planted.within
    assert bool(story.told("READY")) is planted.is_ready


@pytest.mark.parametrize("name", FAULTS)
def test_the_service_manager_is_not_told_that_all_is_well(name: str) -> None:
    planted = FAULTS[name]
    story = tell(planted)
    assert story.exit is not None
    at, end = story.exit
    # A manager that only knows what it was told would come after the guard, and would come.
    extensions = [(moment, int(usec) / 1e6) for moment, usec in story.told("EXTEND_TIMEOUT_USEC")]
    allowed = max(moment + seconds for moment, seconds in extensions)
    is_started = planted.is_ready
    assert is_started or at <= allowed <= at + LIMITS.stall_seconds + STOP + KILL_SECONDS
    last = max((moment for moment, _ in story.told("WATCHDOG")), default=0.0)
    assert last <= (at - DOUBTS * DOUBT_PAUSE_SECONDS if end.code == ExitCode.GAVE_UP else at)
    assert bool(story.told("STOPPING")) is any(story.signals())
