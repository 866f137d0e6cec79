"""What a guard does about what it sees: a state machine without clock, process or network.

:mod:`stoker.guard.run` feeds it every observation and carries its actions out. It must never wait,
read or write anything.

While the engine starts (``Mode.LOADING``, then ``Mode.VERIFYING``):

==================================================  ============================================
seen                                                done
==================================================  ============================================
progress (:mod:`stoker.guard.progress`)             EXTEND_TIMEOUT_USEC, at most once a second
no progress for ``stall_seconds``                   no more of it; the engine is ended, exit 90
                                                    (91 once the readiness path has answered)
readiness path: HTTP 200                            the contract is tried
readiness path: refused, 503, too slow              asked again after a second
contract kept                                       READY=1
contract broken, and still something goes on        tried again after ten seconds
contract broken, VERIFY_TRIALS times, and nothing   the engine is ended, exit 91
certain went on for VERIFY_PATIENCE_SECONDS
contract refused, 503 or too slow                   tried again; ``stall_seconds`` ends it
engine ends                                         its status is passed on; 0 becomes 93
==================================================  ============================================

Once it is ready (``Mode.READY``; :mod:`stoker.guard.vigil`):

=======================  ============================  =========================================
small question           counters meanwhile            done
=======================  ============================  =========================================
not asked                grew since the last look      alive: WATCHDOG=1
answered                 whatever they do              alive: WATCHDOG=1
no answer, 429 or 503    grew                          busy, and alive: WATCHDOG=1
no answer, 429 or 503    stood still                   doubt; after three deadlines: exit 92
no answer, 429 or 503    none, or unreadable           doubt; after six deadlines: exit 92
not asked                no answer in time             doubt; read again at once
nonsense                 whatever they do              doubt; the third in a row: exit 92
another HTTP error       whatever they do              doubt; the third in a row: exit 92
refused                  whatever they do              doubt; the third in a row: exit 92
=======================  ============================  =========================================

In doubt there is no WATCHDOG=1, and the next look comes after five seconds instead of an interval.

At any time: TERM and INT end the engine with the same signal, and with KILL after
``stop_timeout_seconds`` or when asked a second time; the guard then exits with 0, since that was
asked for. HUP is passed on and means what the engine makes of it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

from stoker.guard.progress import (
    begin_progress,
    hear_bytes,
    hear_gpu_memory,
    hear_lines,
    hear_news,
    mark,
)
from stoker.guard.values import (
    FAILED,
    STARTING,
    Action,
    BytesRead,
    CanaryResult,
    Contract,
    Counters,
    Ending,
    Exit,
    ExitCode,
    Exited,
    GpuMemory,
    Health,
    Lines,
    Mode,
    Notify,
    Observation,
    Reply,
    Rules,
    SignalEngine,
    Signalled,
    State,
    Tick,
    TryContract,
    TryHealth,
)
from stoker.guard.vigil import begin_look, begin_vigil, has_evidence, hear_canary, hear_counters
from stoker.guard.words import describe, say_exit, say_phase

LAST_LINES = 12
HEALTH_PAUSE_SECONDS = 1.0
VERIFY_PAUSE_SECONDS = 10.0
VERIFY_TRIALS = 3
#: A server may say 200 before it has loaded; as long as it loads, a broken contract is no verdict.
VERIFY_PATIENCE_SECONDS = 60.0
#: How much later than the guard the service manager would end the engine.
MARGIN_SECONDS = 30.0
#: How long a killed process may take to be gone; one in the middle of a driver's call takes long.
KILL_SECONDS = 60.0
#: A status may change with every line of a log; a person does not read faster than this.
STATUS_PAUSE_SECONDS = 1.0
WATCHDOG_PAUSE_SECONDS = 5.0
#: A clock that is looked at every second jumps only when the whole guard stood still.
GAP_SECONDS = 10.0

Step = tuple[State, tuple[Action, ...]]


def begin(rules: Rules, now_seconds: float) -> State:
    """The state of a guard whose engine was started just now."""
    return State(
        rules=rules,
        began_at_seconds=now_seconds,
        mode_at_seconds=now_seconds,
        now_seconds=now_seconds,
        progress=begin_progress(now_seconds),
        next_at_seconds=now_seconds,
    )


def step(state: State, observation: Observation) -> Step:
    """What follows from one observation. Nothing does once the guard has ended."""
    if state.mode is Mode.ENDED:
        return state, ()
    after, actions = _hear(state, observation)
    after, notices = _announce(after)
    return after, (*notices, *actions)


def _hear(state: State, observation: Observation) -> Step:
    match observation:
        case Tick(now_seconds=now):
            return _hear_tick(_pass_time(state, now))
        case Exited(status=status):
            return _hear_exit(state, status)
        case Signalled(number=number):
            return _hear_signal(state, number)
        case Lines(lines=lines):
            return _hear_lines(state, lines), ()
        case Health() | Contract() | Counters() | CanaryResult():
            return _hear_answer(state, observation)
        case BytesRead() | GpuMemory():
            return _hear_reading(state, observation), ()


def _pass_time(state: State, now_seconds: float) -> State:
    """Set the clock. Time in which the guard itself did not run says nothing about the engine."""
    gap_seconds = now_seconds - state.now_seconds
    state = replace(state, now_seconds=max(now_seconds, state.now_seconds))
    if gap_seconds <= GAP_SECONDS:
        return state
    progress = replace(
        state.progress,
        at_seconds=state.progress.at_seconds + gap_seconds,
        certain_at_seconds=state.progress.certain_at_seconds + gap_seconds,
    )
    alive_at = state.vigil.alive_at_seconds + gap_seconds
    return replace(state, progress=progress, vigil=replace(state.vigil, alive_at_seconds=alive_at))


def _hear_answer(state: State, answer: Health | Contract | Counters | CanaryResult) -> Step:
    """An answer counts in the mode that asked for it; one that comes later is dropped."""
    match answer, state.mode:
        case Health(reply=reply), Mode.LOADING:
            return _hear_health(state, reply)
        case Contract() as contract, Mode.VERIFYING:
            return _hear_contract(state, contract)
        case Counters() as counters, Mode.READY:
            return _give_up_hopeless(*hear_counters(state, counters))
        case CanaryResult() as canary, Mode.READY:
            return _give_up_hopeless(*hear_canary(state, canary))
    return state, ()


def _is_starting(state: State) -> bool:
    return state.mode in (Mode.LOADING, Mode.VERIFYING)


def _hear_lines(state: State, lines: Sequence[str]) -> State:
    last_lines = (*state.last_lines, *lines[-LAST_LINES:])[-LAST_LINES:]
    state = replace(state, last_lines=last_lines)
    if not _is_starting(state):
        return state
    elapsed = state.now_seconds - state.began_at_seconds
    progress = hear_lines(
        state.progress,
        tuple(lines),
        rules=state.rules,
        now_seconds=state.now_seconds,
        counts_talk=elapsed <= state.rules.limits.start_timeout_seconds,
    )
    return replace(state, progress=progress)


def _hear_reading(state: State, reading: BytesRead | GpuMemory) -> State:
    if isinstance(reading, BytesRead):
        progress = hear_bytes(state.progress, reading.total, state.now_seconds)
    else:
        progress = hear_gpu_memory(state.progress, reading.used_bytes, state.now_seconds)
    return replace(state, progress=progress)


def _hear_tick(state: State) -> Step:
    if state.mode is Mode.ENDING:
        return _watch_ending(state)
    if _is_starting(state) and _is_stalled(state):
        return _end_stalled(state)
    if state.is_asking or state.now_seconds < state.next_at_seconds:
        return state, ()
    if state.mode is Mode.READY:
        return begin_look(state)
    request = TryHealth() if state.mode is Mode.LOADING else TryContract()
    return replace(state, is_asking=True), (request,)


def _hear_health(state: State, reply: Reply) -> Step:
    now = state.now_seconds
    if reply is not Reply.GOOD:
        progress = hear_news(state.progress, f"readiness {reply}", now)
        next_at = now + HEALTH_PAUSE_SECONDS
        return replace(state, progress=progress, is_asking=False, next_at_seconds=next_at), ()
    progress = mark(state.progress, now)
    state = replace(state, mode=Mode.VERIFYING, mode_at_seconds=now, progress=progress)
    return replace(state, is_asking=True), (TryContract(),)


def _hear_contract(state: State, seen: Contract) -> Step:
    now = state.now_seconds
    if seen.reply is Reply.GOOD:
        return _become_ready(state)
    is_broken = seen.reply is Reply.GARBAGE
    state = replace(
        state,
        trials=state.trials + is_broken,
        verdict=seen.sentence,
        is_asking=False,
        next_at_seconds=now + VERIFY_PAUSE_SECONDS,
    )
    quiet_seconds = now - state.progress.certain_at_seconds
    patience = min(VERIFY_PATIENCE_SECONDS, state.rules.limits.stall_seconds)
    if is_broken and state.trials >= VERIFY_TRIALS and quiet_seconds >= patience:
        reason = f"it never kept its contract: {seen.sentence}"
        return _end(state, ExitCode.NEVER_VERIFIED, reason)
    return state, ()


def _become_ready(state: State) -> Step:
    now = state.now_seconds
    state = replace(
        state,
        mode=Mode.READY,
        mode_at_seconds=now,
        is_asking=False,
        next_at_seconds=now + state.rules.canary.interval_seconds,
        vigil=begin_vigil(now),
        told=replace(state.told, watchdog_at_seconds=now),
    )
    return state, (Notify(text="READY=1\nWATCHDOG=1"),)


def _give_up_hopeless(state: State, actions: tuple[Action, ...]) -> Step:
    if not state.vigil.is_hopeless:
        return state, actions
    return _end(state, ExitCode.GAVE_UP, f"it no longer generates: {state.vigil.sentence}")


def _is_stalled(state: State) -> bool:
    return state.now_seconds - state.progress.at_seconds >= _patience_seconds(state)


def _patience_seconds(state: State) -> float:
    """How long nothing may go on. A trial that has begun is heard to its end: it says why."""
    limits = state.rules.limits
    if state.mode is not Mode.VERIFYING:
        return limits.stall_seconds
    return max(limits.stall_seconds, limits.verify_timeout_seconds + MARGIN_SECONDS)


def _end_stalled(state: State) -> Step:
    seconds = state.now_seconds - state.progress.at_seconds
    if state.mode is Mode.LOADING:
        phase = say_phase(state.progress.phase)
        return _end(state, ExitCode.STALLED, f"stuck in {phase}, no progress for {seconds:.0f} s")
    verdict = f": {state.verdict}" if state.verdict else ""
    reason = f"stuck in verifying, no progress for {seconds:.0f} s{verdict}"
    return _end(state, ExitCode.NEVER_VERIFIED, reason)


def _end(state: State, code: ExitCode, reason: str) -> Step:
    """Begin to end an engine that failed."""
    return _begin_ending(state, code, title="stalled", reason=reason, number=signal.SIGTERM)


def _begin_ending(
    state: State, code: int, *, title: str, reason: str, number: signal.Signals
) -> Step:
    now, limit = state.now_seconds, state.rules.limits.stop_timeout_seconds
    ending = Ending(code=code, title=title, reason=reason, kill_at_seconds=now + limit)
    state = replace(state, mode=Mode.ENDING, mode_at_seconds=now, ending=ending)
    notice = Notify(text=f"STOPPING=1\n{_extension(limit + KILL_SECONDS)}")
    return state, (notice, SignalEngine(number=number))


def _watch_ending(state: State) -> Step:
    ending = state.ending
    if ending is None or state.now_seconds < ending.kill_at_seconds:
        return state, ()
    if ending.is_killed:
        reason = f"{ending.reason}; it was not gone {KILL_SECONDS:.0f} s after SIGKILL"
        return _exit(state, ending.code, reason)
    return _kill(state, ending)


def _kill(state: State, ending: Ending) -> Step:
    deadline = state.now_seconds + KILL_SECONDS
    ending = replace(ending, is_killed=True, kill_at_seconds=deadline)
    return replace(state, ending=ending), (SignalEngine(number=signal.SIGKILL),)


def _hear_signal(state: State, number: signal.Signals) -> Step:
    if number not in (signal.SIGTERM, signal.SIGINT):
        return state, (SignalEngine(number=number),)
    if state.ending and state.ending.title == "stopping" and not state.ending.is_killed:
        return _kill(state, state.ending)
    if state.ending:
        return state, ()
    reason = f"the guard was sent {number.name}"
    return _begin_ending(state, ExitCode.DONE, title="stopping", reason=reason, number=number)


def _hear_exit(state: State, status: int) -> Step:
    if state.ending:
        forced = ", by SIGKILL" if state.ending.is_killed else ""
        return _exit(state, state.ending.code, f"{state.ending.reason}; it has ended{forced}")
    code = 128 - status if status < 0 else status or ExitCode.ENDED_UNASKED
    return _exit(state, code, f"{say_exit(status)} while {_say_doing(state)}")


def _say_doing(state: State) -> str:
    if state.mode is not Mode.LOADING:
        return str(state.mode)
    # Its last line may have told its failure, which is no doing.
    return STARTING if state.progress.phase == FAILED else say_phase(state.progress.phase)


def _exit(state: State, code: int, reason: str) -> Step:
    title = state.ending.title if state.ending else "ended"
    ending = Ending(code=code, title=title, reason=reason, kill_at_seconds=state.now_seconds)
    state = replace(state, mode=Mode.ENDED, mode_at_seconds=state.now_seconds, ending=ending)
    lines = "".join(f"\n    {line}" for line in state.last_lines) if code else ""
    told = f"{reason}; its last lines:{lines}" if lines else reason
    return state, (Exit(code=code, reason=told),)


def _announce(state: State) -> Step:
    """What the service manager has to hear after an observation."""
    now, told, lines = state.now_seconds, state.told, list[str]()
    status = describe(state)
    if status != told.status and _may_tell_status(state, status):
        told = replace(told, status=status, status_at_seconds=now)
        lines.append(f"STATUS={status}")
    if _is_starting(state) and _has_gone_on(state):
        limits = state.rules.limits
        told = replace(told, extended_at_seconds=now)
        allowed = _patience_seconds(state) + limits.stop_timeout_seconds + MARGIN_SECONDS
        lines.append(_extension(state.progress.at_seconds - now + allowed))
    if state.mode is Mode.READY and _owes_watchdog(state):
        told = replace(told, watchdog_at_seconds=now)
        lines.append("WATCHDOG=1")
    state = replace(state, told=told)
    return state, (Notify(text="\n".join(lines)),) if lines else ()


def _may_tell_status(state: State, status: str) -> bool:
    """A new word at once, new numbers behind the same word now and then."""
    is_new_word = status.split(" ")[0] != state.told.status.split(" ")[0]
    return is_new_word or state.now_seconds - state.told.status_at_seconds >= STATUS_PAUSE_SECONDS


def _has_gone_on(state: State) -> bool:
    extended = state.told.extended_at_seconds
    return extended is None or state.progress.at_seconds >= extended + 1


def _owes_watchdog(state: State) -> bool:
    last = state.told.watchdog_at_seconds
    is_due = last is None or state.now_seconds - last >= WATCHDOG_PAUSE_SECONDS
    return is_due and has_evidence(state)


def _extension(seconds: float) -> str:
    return f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}"
