"""Whether a ready engine still generates. Pure; :mod:`stoker.guard.decide` calls it when ready.

The table of :mod:`stoker.guard.decide` says what is done with each answer. Evidence is only what
could not come from a dead scheduler: counters that grew, or an answer that a person could read.
A healthy readiness path is none.

One look is: read the counters, where there are any; unless they grew, ask the small question;
then read the counters again, so that the guard's own tokens are not taken for somebody's, and so
that a busy engine (no answer, but counters that grow) is told from a dead one.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.guard.values import (
    Action,
    CanaryResult,
    Counters,
    Reply,
    Rules,
    State,
    TryCanary,
    TryCounters,
    Vigil,
)

#: So many wrong answers in a row, and the engine is given up.
DOUBTS = 3
#: For so many times the deadline of a question silence is borne while the counters stand still,
#: which is how long a healthy engine may pause; in looks, two at least.
PAUSE_TIMEOUTS = 3
PAUSE_LOOKS = 2
#: Where no counters can be read, a long queue or a long batch looks like a dead scheduler, so
#: silence is borne longer.
SILENCE_TIMEOUTS = 6
#: Counters that let themselves be waited for are asked again, for so many deadlines, before the
#: question is: an engine that tells them between two batches tells by them that a batch has ended.
BATCH_TIMEOUTS = 4
#: In doubt the next look comes soon.
DOUBT_PAUSE_SECONDS = 5.0
#: Counters say that tokens are made, not that they mean anything: the question is asked at the
#: latest after so many intervals.
QUESTION_INTERVALS = 10
#: A short answer costs next to nothing. Once it is in doubt it gets the room that the contract
#: gives, since a model may open with tokens that show no text.
SHORT_TOKENS = 4
LONG_TOKENS = 32

#: Both leave open whether the engine is dead or has too much to do.
_SILENT = (Reply.TIMEOUT, Reply.BUSY)


def begin_vigil(now_seconds: float) -> Vigil:
    """The contract has just passed, which is evidence enough."""
    return Vigil(alive_at_seconds=now_seconds, asked_at_seconds=now_seconds)


def begin_look(state: State) -> tuple[State, tuple[Action, ...]]:
    """Begin a look: read the counters where there are any, else ask."""
    if state.rules.canary.metrics_path:
        return replace(state, is_asking=True), (TryCounters(),)
    return _ask(state)


def hear_counters(state: State, seen: Counters) -> tuple[State, tuple[Action, ...]]:
    """The counters were read: at the beginning of a look, or after the question."""
    before, question = state.vigil.counters, state.vigil.question
    is_known = seen.total is not None and before is not None
    has_grown = is_known and (seen.total or 0.0) > (before or 0.0)
    # A reading that failed is no reason to forget the last: a batch may end after it.
    last = before if seen.total is None else seen.total
    state = replace(state, vigil=replace(state.vigil, counters=last, question=None))
    if question is None and seen.reply is Reply.TIMEOUT and not _is_last_chance(state):
        return _rest(_note_batch(state), pause_seconds=0.0), ()
    if question is None:
        return _rest_or_ask(state, has_grown=has_grown)
    if question.reply is Reply.GOOD:
        return _rest(state), ()
    if has_grown:
        return _rest(_note_busy(state)), ()
    return _rest(_note_silence(state, question.sentence, is_known=is_known)), ()


def hear_canary(state: State, seen: CanaryResult) -> tuple[State, tuple[Action, ...]]:
    """The question came to an end."""
    is_silent = seen.reply in _SILENT
    if seen.reply is Reply.GOOD:
        state = replace(state, vigil=_note_answer(state))
    elif not is_silent:
        return _rest(_note_fault(state, seen.sentence)), ()
    if state.rules.canary.metrics_path:
        return replace(state, vigil=replace(state.vigil, question=seen)), (TryCounters(),)
    if is_silent:
        state = _note_silence(state, seen.sentence, is_known=False)
    return _rest(state), ()


def has_evidence(state: State) -> bool:
    """Whether the last evidence is as fresh as it can be, and nothing speaks against it."""
    age = state.now_seconds - state.vigil.alive_at_seconds
    return not state.vigil.is_in_doubt and age <= _longest_interval(state.rules)


def longest_doubt_seconds(rules: Rules) -> float:
    """The longest time from the last evidence until a silent engine is given up.

    The worst that an engine can do: every request is answered just before its deadline or not at
    all, and the last look begins just before silence has lasted too long. A service manager's own
    watchdog has to wait longer than that, so that the guard, which can say why, comes first.
    Garbage behind growing counters takes up to :func:`question_seconds` more to be seen.
    """
    borne = SILENCE_TIMEOUTS * rules.canary.timeout_seconds
    last = DOUBT_PAUSE_SECONDS + _look_seconds(rules)
    return rules.canary.interval_seconds + borne + last


def idle_pause_seconds(rules: Rules) -> float:
    """How long it takes where the counters are read at once, and stand still."""
    looks = PAUSE_TIMEOUTS * rules.canary.timeout_seconds
    return rules.canary.interval_seconds + looks + (PAUSE_TIMEOUTS - 1) * DOUBT_PAUSE_SECONDS


def mute_seconds(rules: Rules) -> float:
    """How long it takes where nothing is answered at all, counters included.

    It is the last look's question and reading that complete it.
    """
    return rules.canary.interval_seconds + SILENCE_TIMEOUTS * rules.canary.timeout_seconds


def question_seconds(rules: Rules) -> float:
    """The longest time between two questions."""
    return QUESTION_INTERVALS * rules.canary.interval_seconds


def _look_seconds(rules: Rules) -> float:
    requests = 3 if rules.canary.metrics_path else 1
    return requests * rules.canary.timeout_seconds


def _longest_interval(rules: Rules) -> float:
    return rules.canary.interval_seconds + _look_seconds(rules)


def _rest_or_ask(state: State, *, has_grown: bool) -> tuple[State, tuple[Action, ...]]:
    """The first half of a look is over; growing counters spare the question, but not for ever."""
    if not has_grown:
        return _ask(state)
    state = replace(state, vigil=replace(_mark_alive(state), silences=0))
    unasked_seconds = state.now_seconds - state.vigil.asked_at_seconds
    if state.vigil.is_in_doubt or unasked_seconds >= question_seconds(state.rules):
        return _ask(state)
    return _rest(state), ()


def _ask(state: State) -> tuple[State, tuple[Action, ...]]:
    tokens = LONG_TOKENS if state.vigil.is_in_doubt else SHORT_TOKENS
    return replace(state, is_asking=True), (TryCanary(max_tokens=tokens),)


def _rest(state: State, *, pause_seconds: float | None = None) -> State:
    pause = state.rules.canary.interval_seconds if pause_seconds is None else pause_seconds
    if state.vigil.is_in_doubt:
        pause = min(DOUBT_PAUSE_SECONDS, pause)
    return replace(state, is_asking=False, next_at_seconds=state.now_seconds + pause)


def _mark_alive(state: State) -> Vigil:
    return replace(state.vigil, alive_at_seconds=state.now_seconds)


def _note_answer(state: State) -> Vigil:
    vigil = _mark_alive(state)
    return replace(vigil, asked_at_seconds=state.now_seconds, faults=0, silences=0, sentence="")


def _note_busy(state: State) -> State:
    """It makes tokens, so it is alive; but a wrong answer that came before is not forgotten."""
    vigil = replace(_mark_alive(state), asked_at_seconds=state.now_seconds, silences=0)
    return replace(state, vigil=vigil)


def _note_fault(state: State, sentence: str) -> State:
    vigil = replace(state.vigil, faults=state.vigil.faults + 1, sentence=sentence)
    is_hopeless = vigil.faults >= DOUBTS or _has_been_silent(state, SILENCE_TIMEOUTS)
    return replace(state, vigil=replace(vigil, is_hopeless=is_hopeless))


def _is_last_chance(state: State) -> bool:
    """Whether the counters were waited for long enough, and only the question is left."""
    return _has_been_silent(state, BATCH_TIMEOUTS)


def _note_batch(state: State) -> State:
    """Not even the counters are told; a long batch has the same effect."""
    canary = state.rules.canary
    sentence = f"{canary.metrics_path} gave no whole reply within {canary.timeout_seconds:g} s"
    return _note_silence(state, sentence, is_known=False)


def _has_been_silent(state: State, timeouts: int) -> bool:
    """Whether there was no evidence for so many deadlines since the first look without any."""
    canary = state.rules.canary
    began_at = state.vigil.alive_at_seconds + canary.interval_seconds
    return state.now_seconds - began_at >= timeouts * canary.timeout_seconds


def _note_silence(state: State, sentence: str, *, is_known: bool) -> State:
    stand = "while its counters stood still" if is_known else "and no counters could be read"
    limit = PAUSE_TIMEOUTS if is_known else SILENCE_TIMEOUTS
    silences = state.vigil.silences + 1
    vigil = replace(
        state.vigil,
        silences=silences,
        sentence=f"{sentence}, {stand}",
        is_hopeless=silences >= PAUSE_LOOKS and _has_been_silent(state, limit),
    )
    return replace(state, vigil=vigil)
