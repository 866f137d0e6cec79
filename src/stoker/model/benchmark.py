"""What is sent to measure a server, and what was measured: workloads, loads, samples, figures.

The words are the field's. All moments are seconds since the load began, on one monotonic clock.
TTFT: from sending a request to the first event that carries content. ITL: between two events that
carry content. TPOT: from the first content to the last, divided by the output tokens less one.
E2E: from sending to the last content. Tokens are what the server's own usage says, never a count
of events, since engines put several tokens into one event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain


class Arrival(StrEnum):
    """When requests are sent.

    ``CLOSED``: so many at once, the next when one has ended. ``POISSON``, ``CONSTANT``: at a rate,
    whether earlier ones have ended or not. ``REPLAY``: at the moments of a recorded trace.
    """

    CLOSED = "closed"
    POISSON = "poisson"
    CONSTANT = "constant"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How hard a server is worked, and for how long.

    ``concurrency``: requests at once; for the other arrivals the most at once, 0 for no bound.
    ``rate_per_second``: requests a second of an open loop. A load ends once ``requests`` were
    measured or ``seconds`` have passed, whichever is first; 0 is no bound, and one of them must be
    given. ``warmup_requests`` come before and are not measured. ``speed``: how much faster than it
    was recorded a trace is sent again.
    """

    arrival: Arrival = Arrival.CLOSED
    concurrency: int = 1
    rate_per_second: float = 0.0
    requests: int = 0
    seconds: float = 0.0
    warmup_requests: int = 0
    speed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """What a single request must keep to count for goodput, in milliseconds; None asks nothing."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_p99_ms: float | None = None
    e2e_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long prompts or answers are, in tokens: always ``median``, or spread around it.

    ``spread``: fixed, uniform (``least`` to ``most``) or lognormal (``median``, ``sigma``, cut at
    ``least`` and ``most``).
    """

    spread: str = "fixed"
    median: int = 0
    sigma: float = 0.0
    least: int = 1
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A kind of traffic. ``shape``: how its requests are made.

    ``chat``: one question. ``shared_prefix``: questions behind ``prefixes`` long common
    beginnings of ``prefix_tokens``. ``tool_loop``: ``turns`` requests, each with all that was said
    before and a tool's answer of ``turn_tokens``. ``random``: words without sense. ``file``: the
    user's own requests.
    ``text``: which of the texts that come with Stoker the words are taken from (prose or code).
    ``stops_early``: whether the model may end before the length that is asked for.
    """

    name: str
    title: str
    shape: str = "chat"
    text: str = "prose"
    prompt_tokens: Lengths = field(default_factory=Lengths)
    output_tokens: Lengths = field(default_factory=Lengths)
    turn_tokens: Lengths = field(default_factory=Lengths)
    prefix_tokens: int = 0
    prefixes: int = 0
    turns: int = 1
    stops_early: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """A request's tokens by the server's usage; None where it told none.

    ``cached``: of the prompt, found in the server's cache. ``asked``: the length that was asked
    for.
    """

    prompt: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    asked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request as it went. ``number`` counts all requests of a load from 0.

    ``due_seconds``: when it should have been sent; it lies before ``sent_seconds`` where the client
    was late. ``first_seconds`` and ``last_seconds``: first and last content, None where none came.
    ``gaps_us``: microseconds between successive events with content. Tokens are None where the
    server told none. ``error``: why there was no whole answer, empty otherwise.
    """

    number: int
    session: int = 0
    due_seconds: float
    sent_seconds: float
    ended_seconds: float
    first_seconds: float | None = None
    last_seconds: float | None = None
    gaps_us: tuple[int, ...] = ()
    tokens: TokenCount = field(default_factory=TokenCount)
    status: int = 0
    error: str = ""
    is_measured: bool = True

    @property
    def is_good(self) -> bool:
        """Whether a whole answer came."""
        return not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One metric of a measured load, with its spread over requests and how sure it is.

    ``name`` by the field (ttft, itl, tpot, e2e, output_throughput, ...), ``unit`` ms, tokens/s,
    requests/s, tokens or share. ``count``: values it rests on. ``percentiles``: by "50", "90",
    "95", "99"; empty for a rate. ``low`` and ``high``: a 95 % confidence interval of the mean (of a
    rate: of itself); None where too little was measured. ``intervals``: the same of percentiles.
    ``batches``: its value in equal slices of the window, in their order, from which comparisons
    know how much the server varies by itself; a slice in which nothing ended has none.
    """

    name: str
    unit: str
    count: int
    mean: float
    deviation: float = 0.0
    low: float | None = None
    high: float | None = None
    percentiles: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    batches: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHealth:
    """Whether the client kept up: how late its own loop was, and its share of a core.

    ``complaints``: sentences that say that its figures are its own and not the server's; where
    there is one, the load is no result.
    """

    lag_p50_ms: float = 0.0
    lag_p99_ms: float = 0.0
    lag_max_ms: float = 0.0
    late_p99_ms: float = 0.0
    busy_share: float = 0.0
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What of a load was measured, in seconds and requests; the rest is warm-up and drain.

    Rates are over ``seconds``: from the moment that all places are busy until, in a closed loop,
    one of them stays empty, and in an open loop until the last sending. ``requests`` are those of
    which the latencies are: at least half of their time lies in the window. Those before and after
    are ``warmup_requests`` and ``drain_requests``.
    """

    seconds: float
    warmup_seconds: float = 0.0
    drain_seconds: float = 0.0
    requests: int = 0
    warmup_requests: int = 0
    drain_requests: int = 0
    failed_requests: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One load and what it found. ``server``: the difference of the server's own metrics, by
    meaning. ``errors``: how often each error came. ``notes``: sentences about how the figures were
    made, where that is not as usual."""

    load: Load
    window: Window
    figures: tuple[Figure, ...]
    server: Mapping[str, float] = field(default_factory=dict)
    health: ClientHealth = field(default_factory=ClientHealth)
    errors: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    was_interrupted: bool = False

    def find(self, name: str) -> Figure | None:
        """The figure of this name, None where it was not measured."""
        return next((figure for figure in self.figures if figure.name == name), None)

    @property
    def batches(self) -> tuple[float, ...]:
        """Output tokens/s of equal slices of the window."""
        figure = self.find("output_throughput")
        return figure.batches if figure else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What was measured, so that it can be told from what runs later.

    ``digest`` covers facts and launch. ``settings``: the launch's settings by name, secrets left
    out. Of a server behind a URL only ``url`` and ``model`` are known.
    """

    url: str
    model: str
    name: str = ""
    engine: str = ""
    release: str = ""
    digest: str = ""
    settings: Mapping[str, Plain] = field(default_factory=dict)
    verified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A measured workload: one point for each load of a sweep. ``seed`` made its requests.

    ``verified`` of ``served`` names the verification's moment, empty where the server was not
    verified.
    """

    SCHEMA: ClassVar[str] = "benchmark/1"

    id: str
    started: str
    served: Served
    workload: Workload
    points: tuple[Point, ...]
    objectives: Objectives = field(default_factory=Objectives)
    seed: int = 0
    client: str = ""
    notes: tuple[str, ...] = ()
