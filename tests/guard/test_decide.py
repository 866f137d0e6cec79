"""The corners of what a guard decides, and what holds whatever it sees."""

from __future__ import annotations

import signal
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker.guard.config import PhasePattern
from stoker.guard.decide import begin, step
from stoker.guard.progress import KINDS, begin_progress, hear_lines
from stoker.guard.values import (
    BytesRead,
    CanaryResult,
    Contract,
    Counters,
    Exit,
    Exited,
    GpuMemory,
    Health,
    Lines,
    Mode,
    Notify,
    Observation,
    Reply,
    Rules,
    Signalled,
    Tick,
    TryCanary,
)
from stoker.guard.vigil import DOUBTS
from stoker.guard.words import describe, estimate_left_seconds
from stoker.model.contract import Request
from tests.guard.simulation import (
    CONFIG,
    NEVER,
    PHASES,
    REFUSED,
    WEIGHT_BYTES,
    At,
    Scene,
    Simulation,
    Wire,
    answer,
    spam,
    steadily,
    unavailable,
    well,
)

RULES = Rules(limits=CONFIG.limits, canary=CONFIG.canary, phases=PHASES, weight_bytes=WEIGHT_BYTES)


def impatient(**limits: float) -> Simulation:
    """A simulation with other limits and a scene that is well."""
    config = replace(CONFIG, limits=replace(CONFIG.limits, **limits))
    return Simulation(scene=Scene(http=lambda at, request: well(request)), config=config)


def test_a_trial_may_take_longer_than_a_stall() -> None:
    simulation = impatient(stall_seconds=20)
    simulation.scene = Scene(http=lambda at, request: well(request, 5))
    assert simulation.run(until=300).told("READY")


def test_a_contract_that_is_broken_while_weights_are_read_is_no_verdict() -> None:
    def http(at: At, request: Request) -> Wire:
        is_early = request.method == "POST" and at < 900
        return unavailable(500) if is_early else well(request)

    story = Simulation(scene=Scene(http=http, read=steadily(0, 890))).run(until=1200)
    assert story.exit is None
    assert story.told("READY")


def test_one_broken_trial_is_no_verdict_however_long_it_took() -> None:
    def http(at: At, request: Request) -> Wire:
        is_first = request.method == "POST" and at < 90
        return replace(unavailable(500), seconds=50.0) if is_first else well(request)

    story = Simulation(scene=Scene(http=http)).run(until=600)
    assert story.exit is None
    assert story.told("READY")


def test_a_silent_engine_is_asked_three_times() -> None:
    def http(at: At, request: Request) -> Wire:
        is_dead = request.method == "POST" and at > 600
        return answer(request, seconds=NEVER) if is_dead else well(request)

    story = Simulation(scene=Scene(http=http)).run(until=1200)
    asked = [at for at, act in story.actions if isinstance(act, TryCanary) and at > 600]
    assert story.exit is not None
    assert len(asked) == DOUBTS


def test_nonsense_is_not_forgotten_when_users_come() -> None:
    def http(at: At, request: Request) -> Wire:
        is_ill = request.method == "POST" and at > 600
        return answer(request, "one_character") if is_ill else well(request)

    scene = Scene(http=http, tokens=lambda at: max(at - 632, 0) * 50)
    story = Simulation(scene=scene).run(until=3600)
    assert story.exit is not None
    assert story.exit[0] < 680


def test_what_came_before_a_good_answer_is_forgiven() -> None:
    asked = 0

    def http(at: At, request: Request) -> Wire:
        nonlocal asked
        if request.method != "POST" or at < 600:
            return well(request)
        asked += 1
        return answer(request, "empty_answer") if asked % DOUBTS else well(request)

    story = Simulation(scene=Scene(http=http)).run(until=1200)
    assert asked > 2 * DOUBTS
    assert story.exit is None


def test_good_answers_are_evidence_without_counters() -> None:
    scene = Scene(http=lambda at, request: well(request), tokens=lambda at: None)
    story = Simulation(scene=scene).run(until=1200)
    assert {text for at, text in story.states if at > 60} == {"ready"}
    assert len(story.told("WATCHDOG")) > 200


def test_gpu_memory_that_grows_is_progress() -> None:
    state = begin(RULES, 0.0)
    for now in range(0, 3000, 10):
        state, _ = step(state, Tick(now_seconds=now))
        state, _ = step(state, GpuMemory(used_bytes=now + 1))
    assert state.mode is Mode.LOADING
    for now in range(3000, 3310, 10):
        state, _ = step(state, Tick(now_seconds=now))
        state, _ = step(state, GpuMemory(used_bytes=2991))
    assert state.mode is Mode.ENDING


def test_the_manager_is_told_at_most_once_a_second_while_it_starts() -> None:
    state = begin(RULES, 0.0)
    told = 0
    for tenth in range(600):
        state, _ = step(state, Tick(now_seconds=tenth / 10))
        seen: Observation = Lines(lines=(f"Loading shards: {tenth // 6}%",))
        state, actions = step(state, seen)
        told += sum(isinstance(act, Notify) for act in actions)
    assert told <= 130


def test_a_guard_that_stood_still_does_not_blame_the_engine() -> None:
    state = begin(RULES, 0.0)
    state, _ = step(state, Tick(now_seconds=5000.0))
    assert state.mode is Mode.LOADING
    state, _ = step(state, Lines(lines=("Load weight begin.",)))
    for now in range(5000, 5300, 10):
        state, _ = step(state, Tick(now_seconds=now))
    assert state.mode is Mode.LOADING
    state, _ = step(state, Tick(now_seconds=5300.0))
    assert state.mode is Mode.ENDING


def test_loading_says_how_far_and_how_long() -> None:
    rules = replace(RULES, expected_seconds=480)
    state = begin(rules, 0.0)
    state, _ = step(state, Tick(now_seconds=300))
    state, _ = step(state, Lines(lines=("Loading shards:  62% 18/29",)))
    assert describe(state) == "loading weights 62 %, about 3 min left"
    state, _ = step(state, Tick(now_seconds=470))
    assert describe(state) == "loading weights 62 %, less than 1 min left"
    # Later than ever before: what this start tells counts, 170 s for 62 %.
    state, _ = step(state, Tick(now_seconds=500))
    assert describe(state) == "loading weights 62 %, about 3 min left"


def test_loading_is_told_from_bytes_where_the_log_is_silent() -> None:
    state = begin(RULES, 0.0)
    state, _ = step(state, Lines(lines=("Load weight begin.",)))
    state, _ = step(state, Tick(now_seconds=60))
    state, _ = step(state, BytesRead(total=WEIGHT_BYTES // 4))
    assert describe(state) == "loading weights 25 %, about 3 min left"
    state, _ = step(state, Tick(now_seconds=120))
    state, _ = step(state, BytesRead(total=WEIGHT_BYTES * 8))
    assert describe(state) == "loading weights 99 %, less than 1 min left"


def test_endless_news_takes_bounded_room() -> None:
    lines = tuple(f"{text} word" for _, text in spam(0, 10, "x")) + tuple(
        "".join(chr(97 + int(digit)) for digit in str(n)) + f" {n}%" for n in range(4 * KINDS)
    )
    progress = hear_lines(
        begin_progress(0.0), lines, rules=RULES, now_seconds=1.0, counts_talk=True
    )
    assert len(progress.seen) <= KINDS
    assert len(progress.bars) <= KINDS


REPLIES = st.sampled_from(Reply)
SENTENCES = st.text(max_size=400)
OBSERVATIONS: st.SearchStrategy[Observation] = st.one_of(
    st.builds(Tick, now_seconds=st.floats(0, 1e5)),
    st.builds(Lines, lines=st.lists(st.text(max_size=50), max_size=3).map(tuple)),
    st.builds(Lines, lines=st.just(("Loading shards:  62% 18/29",))),
    st.builds(BytesRead, total=st.integers(0, 1 << 50)),
    st.builds(GpuMemory, used_bytes=st.integers(0, 1 << 40)),
    st.builds(Health, reply=REPLIES),
    st.builds(Contract, reply=REPLIES, sentence=SENTENCES),
    st.builds(Counters, total=st.none() | st.floats(0, 1e12)),
    st.builds(CanaryResult, reply=REPLIES, sentence=SENTENCES),
    st.builds(Signalled, number=st.sampled_from([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])),
    st.builds(Exited, status=st.integers(-64, 255)),
)


@given(st.lists(OBSERVATIONS, max_size=60))
def test_whatever_it_sees(observations: list[Observation]) -> None:
    state, ends, is_kept = begin(RULES, 0.0), 0, False
    for seen in observations:
        before = state
        state, actions = step(state, seen)
        told = "\n".join(act.text for act in actions if isinstance(act, Notify))
        is_kept = is_kept or (isinstance(seen, Contract) and seen.reply is Reply.GOOD)
        assert "READY=1" not in told or is_kept
        assert "WATCHDOG=1" not in told or state.mode is Mode.READY
        assert not actions or before.mode is not Mode.ENDED
        assert all(line.partition("=")[1] for line in told.split("\n") if line)
        ends += sum(isinstance(act, Exit) for act in actions)
    assert ends == (state.mode is Mode.ENDED)
    assert describe(state).isprintable()


def test_a_start_in_which_nothing_happens_says_so_before_it_is_ended() -> None:
    scene = Scene(lines=[(10.0, "Load weight begin")], http=lambda at, request: REFUSED)
    story = Simulation(scene=scene).run(until=400)
    texts = [text for _, text in story.states]
    stall = CONFIG.limits.stall_seconds
    told = "loading weights 0 %, no progress for 3 min (it counts as stuck after 5 min)"
    assert told in texts
    first = next(at for at, text in story.states if "no progress" in text)
    assert stall / 2 < first - 10 <= stall / 2 + 2


def test_a_start_that_failed_has_nothing_left_to_estimate() -> None:
    failed = PhasePattern(pattern="out of memory", phase="failed", title="no memory")
    rules = replace(RULES, expected_seconds=480, phases=(failed, *RULES.phases))
    state = begin(rules, 0.0)
    state, _ = step(state, Tick(now_seconds=100))
    state, _ = step(state, Lines(lines=("Loading shards:  62% 18/29", "out of memory")))
    assert describe(state) == "failed"
    assert estimate_left_seconds(state) is None
