"""A guard's core with a clock that only tests turn, and engines that are written down as scenes.

The requests of the guard go through its own asking module and the real contract; only the bytes
on the wire are made up, so that forty minutes pass in a blink.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import Script
from stoker.fake_engine.switches import discover_faults
from stoker.guard.asking import Question, put_question
from stoker.guard.config import (
    Canary,
    Engine,
    GuardConfig,
    Limits,
    PhasePattern,
    Server,
)
from stoker.guard.decide import begin, step
from stoker.guard.values import (
    Action,
    BytesRead,
    Exit,
    Exited,
    Lines,
    Mode,
    Notify,
    Observation,
    Rules,
    SignalEngine,
    Signalled,
    State,
    Tick,
    TryCanary,
    TryContract,
    TryCounters,
    TryHealth,
)
from stoker.guard.words import describe
from stoker.model.contract import Exchange, Request, Subject

NAME = "smollm2"
GIB = 1 << 30
WEIGHT_BYTES = 60 * GIB
COUNTER = "fake:generation_tokens_total"

PHASES = (
    PhasePattern(
        pattern=r"Loading shards: +(?P<percent>\d+)%", phase="loading-weights", title="loading"
    ),
    PhasePattern(pattern="Load weight begin", phase="loading-weights", title="loading"),
    PhasePattern(pattern="KV cache is allocated", phase="allocating", title="making room"),
    PhasePattern(pattern="Capture .*graph", phase="capturing", title="capturing graphs"),
    PhasePattern(pattern="warm-up request", phase="warming-up", title="warming up"),
)

CONFIG = GuardConfig(
    name="a-deployment",
    digest="d",
    engine=Engine(argv=("engine",), env={}, directory="/"),
    server=Server(
        host="127.0.0.1", port=8000, readiness_path="/health", subject=Subject(published_name=NAME)
    ),
    limits=Limits(start_timeout_seconds=900, stall_seconds=300, stop_timeout_seconds=30),
    canary=Canary(
        interval_seconds=30, timeout_seconds=20, metrics_path="/metrics", counters=(COUNTER,)
    ),
    phases=PHASES,
)

#: How long an engine takes to answer a question or its readiness path when it is well.
QUICK_SECONDS = 0.1
NEVER = float("inf")

#: A moment of an engine's life, in seconds since it was started.
At = float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What the engine does with one request."""

    status: int = 200
    body: str = ""
    events: tuple[str, ...] = ()
    seconds: float = QUICK_SECONDS
    is_refused: bool = False


REFUSED = Wire(is_refused=True, seconds=0.0)
SILENT = Wire(seconds=NEVER)


def unavailable(status: int = 503) -> Wire:
    """An error that is JSON, as engines send it."""
    return Wire(status=status, body=json.dumps({"error": {"message": "Compute error."}}))


def answer(request: Request, fault: str = "", seconds: float = QUICK_SECONDS) -> Wire:
    """What an engine with this fault answers once it has loaded."""
    faults = (discover_faults()[fault],) if fault else ()
    exchange = DirectEndpoint(Core(Script(names=(NAME,)), faults=faults)).exchange(request)
    return Wire(status=exchange.status, body=exchange.body, events=exchange.events, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One engine's life.

    ``lines``: what it writes, with the moments. ``read``: bytes read so far at a moment.
    ``http``: what it does with a request; the readiness path, the counters and the questions of
    the contract come here. ``tokens``: its counter at a moment, besides the guard's own tokens;
    None for a server that shows none. ``ends``: when it ends by itself, with which status.
    ``heeds``: seconds from a signal to its end; NEVER for one that it ignores.
    """

    lines: Sequence[tuple[At, str]] = ()
    read: Callable[[At], int] = lambda at: 0
    http: Callable[[At, Request], Wire] = lambda at, request: REFUSED
    tokens: Callable[[At], float | None] = lambda at: 0.0
    ends: tuple[At, int] | None = None
    heeds: float = 2.0
    signals: Sequence[tuple[At, signal.Signals]] = ()


@dataclass
class FakeEndpoint:
    """The endpoint port over a scene, and the clock of whoever waits for its exchanges.

    ``seconds`` is how long they would have taken.
    """

    scene: Scene
    at: At
    seconds: float = 0.0
    own_tokens: float = 0.0
    url: str = "http://127.0.0.1:8000"

    def exchange(self, request: Request) -> Exchange:
        """As :class:`stoker.ports.Endpoint` says, in no time at all."""
        wire = self._wire(request)
        if wire.is_refused:
            return Exchange(request=request, error="no connection", error_kind="refused")
        limit = request.timeout_seconds
        self.seconds += min(wire.seconds, limit)
        if wire.seconds > limit:
            error = f"no whole reply within {limit:g} s"
            return Exchange(request=request, error=error, error_kind="timeout")
        self.own_tokens += 4.0 * (request.method == "POST" and wire.status == 200)
        return Exchange(request=request, status=wire.status, body=wire.body, events=wire.events)

    def monotonic_seconds(self) -> float:
        return self.at + self.seconds

    def now_seconds(self) -> float:
        return self.at + self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def _wire(self, request: Request) -> Wire:
        at = self.at + self.seconds
        wire = self.scene.http(at, request)
        if request.path != "/metrics" or wire.status != 200 or wire.is_refused:
            return wire
        tokens = self.scene.tokens(at + min(wire.seconds, request.timeout_seconds))
        if tokens is None:
            return replace(wire, status=404)
        text = f'# TYPE {COUNTER} counter\n{COUNTER}{{model="x y"}} {tokens + self.own_tokens}\n'
        return replace(wire, body=text)


@dataclass
class Story:
    """What a guard did: actions with their moments, and how it ended."""

    actions: list[tuple[At, Action]] = field(default_factory=list)
    states: list[tuple[At, str]] = field(default_factory=list)
    state: State | None = None

    @property
    def exit(self) -> tuple[At, Exit] | None:
        """The end, None while it runs."""
        ends = [(at, act) for at, act in self.actions if isinstance(act, Exit)]
        return ends[0] if ends else None

    def told(self, name: str) -> list[tuple[At, str]]:
        """The moments and values of a notification."""
        return [
            (at, line.partition("=")[2])
            for at, act in self.actions
            if isinstance(act, Notify)
            for line in act.text.split("\n")
            if line.partition("=")[0] == name
        ]

    def signals(self) -> list[tuple[At, signal.Signals]]:
        """The signals that the engine was sent."""
        return [(at, act.number) for at, act in self.actions if isinstance(act, SignalEngine)]


@dataclass
class Simulation:
    """A guard and a scene, second by second."""

    scene: Scene
    config: GuardConfig = CONFIG
    weight_bytes: int = WEIGHT_BYTES
    at: At = 0.0
    story: Story = field(default_factory=Story)
    own_tokens: float = 0.0
    _ends_at: float = NEVER
    _status: int = 0
    _answers: list[tuple[At, Observation]] = field(default_factory=list)
    _written: int = 0
    _sent: int = 0
    _wished_end: float = 0.0

    def run(self, until: At) -> Story:
        """Live until a moment, or until the guard has ended."""
        rules = Rules(
            limits=self.config.limits,
            canary=self.config.canary,
            phases=self.config.phases,
            weight_bytes=self.weight_bytes,
        )
        state = begin(rules, 0.0)
        if self.scene.ends:
            self._ends_at, self._status = self.scene.ends
        while self.at <= until and state.mode is not Mode.ENDED:
            for observation in self._observe(state):
                state, actions = step(state, observation)
                for action in actions:
                    self._act(action)
            self.story.states.append((self.at, describe(state)))
            self.story.state = state
            self.at += 1.0
        return self.story

    def _observe(self, state: State) -> Sequence[Observation]:
        seen: list[Observation] = [Tick(now_seconds=self.at)]
        lines = self._new_lines()
        if lines:
            seen.append(Lines(lines=lines))
        if state.mode in (Mode.LOADING, Mode.VERIFYING) and self.at % 2 == 0:
            seen.append(BytesRead(total=self.scene.read(self.at)))
        seen += [answer for at, answer in self._answers if at <= self.at]
        self._answers = [(at, answer) for at, answer in self._answers if at > self.at]
        while self._sent < len(self.scene.signals) and self.scene.signals[self._sent][0] <= self.at:
            seen.append(Signalled(number=self.scene.signals[self._sent][1]))
            self._sent += 1
        if self.at >= self._ends_at:
            seen.append(Exited(status=self._status))
        return seen

    def _new_lines(self) -> tuple[str, ...]:
        first = self._written
        while self._written < len(self.scene.lines):
            if self.scene.lines[self._written][0] > self.at:
                break
            self._written += 1
        return tuple(line for _, line in self.scene.lines[first : self._written])

    def _act(self, action: Action) -> None:
        self.story.actions.append((self.at, action))
        if isinstance(action, TryHealth | TryContract | TryCounters | TryCanary):
            self._ask(action)
        elif isinstance(action, SignalEngine):
            self._signal(action.number)

    def _ask(self, question: Question) -> None:
        scene = Scene() if self.at >= self._ends_at else self.scene
        endpoint = FakeEndpoint(scene=scene, at=self.at, own_tokens=self.own_tokens)
        found = put_question(question, self.config, endpoint, endpoint)
        self.own_tokens = endpoint.own_tokens
        self._answers.append((self.at + endpoint.seconds, found))

    def _signal(self, number: signal.Signals) -> None:
        delay = 0.0 if number is signal.SIGKILL else self.scene.heeds
        if self.at + delay < self._ends_at:
            self._ends_at, self._status = self.at + delay, -int(number)


def spam(begins: At, ends: At, text: str, every: float = 1.0) -> list[tuple[At, str]]:
    """One line again and again, with numbers that count up where ``#`` stands."""
    count = int((ends - begins) / every)
    return [(begins + n * every, re.sub("#", str(n), text)) for n in range(count)]


def steadily(begins: At, ends: At, total: int = WEIGHT_BYTES) -> Callable[[At], int]:
    """So many bytes, read evenly between two moments."""

    def read(at: At) -> int:
        share = (at - begins) / (ends - begins)
        return int(min(max(share, 0.0), 1.0) * total)

    return read


def serving(
    listens: At, loaded: At, then: Callable[[At, Request], Wire] | None = None
) -> Callable[[At, Request], Wire]:
    """Refuses, answers 503 until it has loaded, and answers then (or what ``then`` says)."""

    def http(at: At, request: Request) -> Wire:
        if at < listens:
            return REFUSED
        if at < loaded:
            return unavailable()
        if request.path in ("/health", "/metrics") and then is None:
            return Wire()
        return then(at, request) if then else answer(request)

    return http


def well(request: Request, seconds: float = QUICK_SECONDS) -> Wire:
    """What a healthy engine answers to anything."""
    if request.path in ("/health", "/metrics"):
        return Wire(seconds=seconds)
    return answer(request, seconds=seconds)


def load_lines(begins: At, loaded: At) -> list[tuple[At, str]]:
    """The log of an ordinary start: weights, room, graphs, a warm-up request."""
    length = loaded - begins
    bars = [
        (
            begins + length * (0.1 + 0.02 * n),
            f"Loading shards: {n * 100 // 30:3}% {n}/30",
        )
        for n in range(31)
    ]
    return [
        (begins, "Load weight begin. avail mem=139.09 GB"),
        *bars,
        (begins + length * 0.75, "KV cache is allocated. #tokens: 905795, K size: 55.29 GB"),
        (begins + length * 0.8, "Capture target decode CUDA graph begin. bs=[1, 2, 4, 8]"),
        (begins + length * 0.95, "sending the warm-up request"),
    ]
