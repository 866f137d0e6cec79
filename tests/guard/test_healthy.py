"""Healthy engines that look sick: slow loads up to forty minutes, then two hours of hard work.

Every seed is another engine. A guard that ends one of them is worse than none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import pytest

from stoker.guard.values import Mode, Rules
from stoker.guard.vigil import longest_doubt_seconds
from stoker.model.contract import Request
from tests.guard.simulation import (
    CONFIG,
    NAME,
    NEVER,
    REFUSED,
    WEIGHT_BYTES,
    At,
    Scene,
    Simulation,
    Story,
    Wire,
    answer,
    unavailable,
    well,
)

#: Questions wait for as long as the longest pause of a healthy engine, in three parts.
PATIENT = replace(CONFIG, canary=replace(CONFIG.canary, timeout_seconds=40))
STALL = PATIENT.limits.stall_seconds
LONGEST_LOAD = 2400.0
LONGEST_PAUSE = 100.0
WATCHED = 3600.0

SEEDS = range(50)

Window = tuple[At, At]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A healthy engine and what makes it hard to tell from a sick one."""

    scene: Scene
    loaded: At
    first_request: At


def covers(windows: Sequence[Window], at: At) -> At | None:
    """The end of the window that a moment lies in."""
    return next((end for begin, end in windows if begin <= at < end), None)


def live(seed: int) -> Life:
    """The engine of a seed."""
    chance = random.Random(seed)
    load = LONGEST_LOAD if seed % 10 == 0 else chance.uniform(30, LONGEST_LOAD)
    imports = min(45.0, load * 0.1)
    weights = imports + load * chance.uniform(0.3, 0.7)
    loaded = load
    lines = [
        *write_imports(chance, imports),
        *write_weights(chance, imports, weights),
        *write_rest(chance, weights, loaded),
    ]
    # The first question compiles what it needs.
    first = loaded + chance.choice([0.5, 20.0, 92.0])
    # Clients come once it is ready, which it is when the whole contract has been tried.
    open_at = first + LONGEST_TRIAL
    pauses = [(loaded, first), *scatter(chance, open_at, first + WATCHED, LONGEST_PAUSE)]
    busy = scatter(chance, open_at, first + WATCHED, 1200.0)
    scene = Scene(
        lines=sorted(lines),
        read=read_in_steps(chance, imports, weights),
        http=serve(chance, imports, loaded, pauses=pauses, busy=busy),
        tokens=count(pauses, busy),
    )
    return Life(scene=scene, loaded=loaded, first_request=first)


def write_imports(chance: random.Random, until: At) -> list[tuple[At, str]]:
    return [(n * until / 5, f"INFO importing part {chance.random()}") for n in range(5)]


def write_weights(chance: random.Random, begin: At, end: At) -> list[tuple[At, str]]:
    """A bar, or one bar for each file, or nothing at all while the bytes are read."""
    lines = [(begin, "[2026-11-29 16:25:45] Load weight begin. avail mem=139.09 GB")]
    style = chance.choice(["bar", "files", "silent", "burst"])
    length = end - begin
    if style == "bar":
        lines += [(begin + length * n / 100, f"Loading shards: {n}% {n}/100") for n in range(100)]
    if style == "files":
        lines += [
            (begin + length * (file + part / 4) / 20, f"model-{file}-of-20.bin: {part * 25}%")
            for file in range(20)
            for part in range(4)
        ]
    if style == "burst":
        lines += [(end - 1, f"loaded tensor {n} of 500") for n in range(500)]
    return lines


def write_rest(chance: random.Random, begin: At, end: At) -> list[tuple[At, str]]:
    """Room, graphs, a warm-up; now and then a compiler that says nothing for minutes."""
    lines = [(begin, "KV cache is allocated. #tokens: 905795"), (begin, "Memory pool end.")]
    at, number = begin + 1.0, 0
    while at < end - 2:
        number += 1
        # Graphs show a percentage or compilers name what they compile, or one of them is silent.
        step = chance.choice([2.0, 10.0, 60.0, 0.8 * STALL])
        at = min(at + step, end - 1)
        share = (at - begin) / (end - begin)
        lines.append((at, f"Capture target graph (bs={number} mem=12.3 GB): {share * 100:.2f}%"))
        if chance.random() < 0.3:
            lines.append((at, f"compiling kernel {chance.choice(WORDS)}_{chance.choice(WORDS)}"))
    return [*lines, (end - 1, "sending the warm-up request")]


#: Its health alone is asked for twice, and may take half a minute each time.
LONGEST_TRIAL = 120.0

WORDS = ("rope", "norm", "moe", "gate", "attention", "sampling", "topk", "quant", "reduce", "mask")


def read_in_steps(chance: random.Random, begin: At, end: At) -> Callable[[At], int]:
    """Bytes that come evenly, or in bursts with pauses shorter than a stall."""
    burst = chance.choice([1.0, 5.0, 30.0, 0.7 * STALL])

    def read(at: At) -> int:
        share = min(max((at - begin) / (end - begin), 0.0), 1.0)
        steps = max((end - begin) / burst, 1.0)
        return int(int(share * steps) / steps * WEIGHT_BYTES)

    return read


def scatter(chance: random.Random, begin: At, end: At, longest: float) -> list[Window]:
    """Windows with room between them."""
    windows, at = [], begin
    while at < end:
        length = chance.uniform(1, longest)
        windows.append((at, at + length))
        at += length + chance.uniform(120, 900)
    return windows


def count(pauses: Sequence[Window], busy: Sequence[Window]) -> Callable[[At], float]:
    """Tokens are made while there is work and no pause."""
    made = [0.0]
    end = int(max(window[1] for window in (*pauses, *busy))) + 1000
    for second in range(end):
        works = covers(busy, second) is not None and covers(pauses, second) is None
        made.append(made[-1] + 80.0 * works)
    return lambda at: made[min(int(at), end)]


def serve(
    chance: random.Random,
    listens: At,
    loaded: At,
    *,
    pauses: Sequence[Window],
    busy: Sequence[Window],
) -> Callable[[At, Request], Wire]:
    """Refused, then 503 (or a premature 200), then well, busy or paused."""
    is_premature = chance.random() < 0.3
    is_refused_late = chance.random() < 0.3
    slow_health = chance.choice([0.1, 1.0, 15.0, 30.0])
    full = chance.choice([None, 429, 503])

    def http(at: At, request: Request) -> Wire:
        if at < (loaded if is_refused_late else listens):
            return REFUSED
        is_question = request.method == "POST"
        if at < loaded:
            is_told_early = is_premature and not is_question
            return well(request, slow_health) if is_told_early else unavailable()
        if not is_question:
            return well(request, slow_health if request.path == "/health" else 0.2)
        if end := covers(pauses, at):
            return answer(request, seconds=end - at + 0.5)
        if covers(busy, at):
            return unavailable(full) if full else answer(request, seconds=NEVER)
        return answer(request)

    return http


@cache
def tell(seed: int) -> tuple[Life, Story]:
    """What a guard did with the engine of a seed."""
    life = live(seed)
    return life, Simulation(scene=life.scene, config=PATIENT).run(life.first_request + WATCHED)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_engine_is_let_live(seed: int) -> None:
    life, story = tell(seed)
    assert story.exit is None, story.exit
    assert story.signals() == []
    assert story.state is not None
    assert story.state.mode is Mode.READY
    ((ready_at, _),) = story.told("READY")
    assert life.loaded <= ready_at <= life.first_request + 120


@pytest.mark.parametrize("seed", SEEDS)
def test_a_service_manager_lets_it_live_too(seed: int) -> None:
    _, story = tell(seed)
    ((ready_at, _),) = story.told("READY")
    deadline = 0.0
    for at, usec in story.told("EXTEND_TIMEOUT_USEC"):
        assert at <= deadline or at == 0
        deadline = max(deadline, at + int(usec) / 1e6)
    assert ready_at <= deadline
    rules = Rules(limits=PATIENT.limits, canary=PATIENT.canary)
    moments = [at for at, _ in story.told("WATCHDOG")]
    gaps = [after - before for before, after in pairwise(moments)]
    assert max(gaps) <= longest_doubt_seconds(rules)


#: The times of llama.cpp's table.
BATCHED = replace(CONFIG, canary=replace(CONFIG.canary, timeout_seconds=120))


@pytest.mark.parametrize("seed", range(20))
def test_minutes_for_a_batch_are_borne(seed: int) -> None:
    """llama.cpp without a GPU: the counters, too, are told between batches; questions queue."""
    chance = random.Random(seed)
    ends, works_until = [600.0], 600.0 + WATCHED
    while ends[-1] < works_until:
        ends.append(ends[-1] + chance.choice([5.0, 60.0, 90.0, chance.uniform(60, 480)]))

    def http(at: At, request: Request) -> Wire:
        if not ends[0] <= at < ends[-1]:
            return well(request)
        left = next(end for end in ends if end > at) - at
        return answer(request, seconds=NEVER) if request.method == "POST" else well(request, left)

    def tokens(at: At) -> float:
        return 2048.0 * sum(end <= at for end in ends[1:])

    scene = Scene(http=http, tokens=tokens)
    story = Simulation(scene=scene, config=BATCHED).run(until=works_until + 1200)
    assert story.exit is None, story.exit
    assert story.states[-1][1] == "ready"
    moments = [at for at, _ in story.told("WATCHDOG")]
    rules = Rules(limits=BATCHED.limits, canary=BATCHED.canary)
    assert max(b - a for a, b in pairwise(moments)) <= longest_doubt_seconds(rules)


def test_one_long_silence_without_counters_is_borne() -> None:
    def http(at: At, request: Request) -> Wire:
        if at > 600 and at < 700 and request.method == "POST":
            return answer(request, seconds=NEVER)
        return well(request)

    scene = Scene(http=http, tokens=lambda at: None)
    story = Simulation(scene=scene).run(until=3600)
    assert story.exit is None
    assert any("in doubt" in text for _, text in story.states)


def test_one_wrong_answer_is_forgiven() -> None:
    def http(at: At, request: Request) -> Wire:
        is_wrong = 600 < at < 640 and request.method == "POST"
        return answer(request, "empty_answer") if is_wrong else well(request)

    story = Simulation(scene=Scene(http=http)).run(until=3600)
    assert story.exit is None
    assert any("no text" in text for _, text in story.states)


def test_a_model_that_opens_with_silent_tokens_is_asked_for_more() -> None:
    def http(at: At, request: Request) -> Wire:
        tokens = dict(request.body or {}).get("max_tokens", 0)
        return answer(request, "empty_answer") if 0 < tokens < 5 else well(request)

    story = Simulation(scene=Scene(http=http)).run(until=3600)
    assert story.exit is None
    assert PATIENT.server.subject.published_name == NAME
