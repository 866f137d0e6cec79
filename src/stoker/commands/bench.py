"""`stoker bench NAME|URL`: what a verified server does under load, measured and kept.

The loads are sent one after the other; after each the document is written again, so whatever ends
a sweep early (Ctrl-C, a server that dies, a kill) leaves what was measured before.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from heapq import nlargest
from itertools import tee

from stoker.apply.lock import read_holder
from stoker.bench.load import run_load
from stoker.bench.load_values import Live, Patience, Ran
from stoker.bench.loop import hold_signals
from stoker.bench.measuring import mark_warmup, measure
from stoker.bench.requests import Planned
from stoker.bench.starving import Watched
from stoker.commands.bench_metrics import WatchedMetrics, tell_metrics, watch_metrics
from stoker.commands.bench_notes import describe_load, make_notes
from stoker.commands.bench_server import Server, Which, find_process, locate_server, verify_server
from stoker.commands.bench_traffic import (
    Traffic,
    TrafficWish,
    calibrate_words,
    check_traffic,
    choose_traffic,
    plan_moments,
    plan_traffic,
)
from stoker.commands.world import World
from stoker.errors import EndpointError, HostError, StateError, UsageError
from stoker.model.benchmark import Arrival, Benchmark, Load, Objectives, Point, Sample
from stoker.model.event import Event, EventKind
from stoker.model.layout import lock_path
from stoker.state.benchmarks import keep_benchmark

#: Warm-up of a closed loop, for each place: the first requests meet cold caches and kernels.
WARMUP_OF_PLACES = 1
DEFAULT_SECONDS = 30.0
#: Errors that are kept of a load; a server may put a number of its own into each.
_MOST_ERRORS = 20
Moments = Iterator[float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchWish:
    """What is to be measured: which server, which traffic, which loads one after the other."""

    which: Which = field(default_factory=Which)
    traffic: TrafficWish = field(default_factory=TrafficWish)
    loads: tuple[Load, ...] = (Load(concurrency=8, seconds=DEFAULT_SECONDS),)
    objectives: Objectives = field(default_factory=Objectives)
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benched:
    """What came of it. ``samples``: those of each point. ``kept``: the document's path, empty where
    it could not be written. ``was_interrupted``: by the person. ``has_failed``: a load got nothing
    but errors, at last or at all, or could not begin."""

    benchmark: Benchmark
    samples: tuple[tuple[Sample, ...], ...]
    kept: str = ""
    was_interrupted: bool = False
    has_failed: bool = False

    @property
    def lacks_result(self) -> bool:
        """Whether a load has none: nothing of it was measured, or the client did not keep up."""
        return any(
            point.health.complaints or not point.window.requests for point in self.benchmark.points
        )


def bench(world: World, wish: BenchWish) -> Benched:
    """Measure a server. Raises UsageError, ContractFailed, EndpointError or HostError."""
    check_loads(wish.loads)
    traffic = choose_traffic(wish.traffic)
    server = _noting_others(world, locate_server(world, wish.which))
    check_traffic(traffic, server, wish.loads)  # before the minute that a verification may take
    return bench_server(world, wish, verify_server(world, wish.which, server), traffic)


def _noting_others(world: World, server: Server) -> Server:
    """Of a deployment that is changed meanwhile the figures are partly those of the change."""
    busy = read_holder(lock_path(world.folders)) if server.served.name else ""
    if not busy:
        return server
    note = f"{busy} was changing something when this began: the figures may be of both"
    return replace(server, notes=(*server.notes, note))


def bench_server(
    world: World,
    wish: BenchWish,
    server: Server,
    traffic: Traffic,
    *,
    spared: Collection[str] = (),
) -> Benched:
    """The same for a server and a traffic that are found already. ``spared``: benchmarks that are
    kept whatever becomes of old ones."""
    check_loads(wish.loads)
    check_traffic(traffic, server, wish.loads)
    tokens_per_word, notes = calibrate_words(traffic, server)
    work = _Work(world, wish, server, traffic=traffic, tokens_per_word=tokens_per_word)
    work.notes = (*server.notes, *traffic.notes, *notes)
    work.spared = spared
    return work.measure_all()


def check_loads(loads: Sequence[Load]) -> None:
    """Raises UsageError for a load that never ends or says nothing."""
    for load in loads:
        if load.concurrency < 0 or load.requests < 0 or load.seconds < 0:
            raise UsageError("a load has no negative numbers")
        if load.arrival is Arrival.CLOSED and not load.concurrency:
            raise UsageError("a closed loop needs a number of requests at once", "--concurrency 8")
        is_rate = load.arrival in (Arrival.POISSON, Arrival.CONSTANT)
        if is_rate and load.rate_per_second <= 0:
            raise UsageError("an open loop needs a rate of requests a second", "--rate 2")
        if not load.requests and not load.seconds and load.arrival is not Arrival.REPLAY:
            raise UsageError("the load never ends", "say how long (--for 30s) or --requests")


class _Work:
    """One benchmark while it is made."""

    notes: tuple[str, ...] = ()
    spared: Collection[str] = ()

    def __init__(
        self,
        world: World,
        wish: BenchWish,
        server: Server,
        *,
        traffic: Traffic,
        tokens_per_word: float,
    ) -> None:
        self._world, self._wish, self._server = world, wish, server
        self._traffic, self._tokens_per_word = traffic, tokens_per_word
        began = datetime.fromtimestamp(world.clock.now_seconds(), tz=UTC)
        self._started = began.isoformat(timespec="seconds")
        self._id = f"b{began:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
        self._points: list[Point] = []
        self._samples: list[tuple[Sample, ...]] = []
        self._watched = WatchedMetrics()
        self._process = server.state.process if server.state else ""

    def measure_all(self) -> Benched:
        """All loads, one after the other."""
        kept, was_interrupted, has_failed = "", False, False
        for number, load in enumerate(self._wish.loads):
            try:
                ran = self._run(number, load)
            except (EndpointError, KeyboardInterrupt) as error:
                if not self._points:
                    raise
                was_interrupted = isinstance(error, KeyboardInterrupt)
                has_failed = not was_interrupted
                self._note(f"{describe_load(load)} was not measured: {_say(error)}")
                break
            with hold_signals() as came:
                self._measure(load, ran)
                kept = self._keep()
            was_interrupted = ran.was_interrupted or bool(came)
            has_failed = ran.has_given_up or _got_nothing(ran)
            if was_interrupted or has_failed:
                break
        with hold_signals():
            kept = self._keep() or kept
        return Benched(
            benchmark=self._benchmark(),
            samples=tuple(self._samples),
            kept=kept,
            was_interrupted=was_interrupted,
            has_failed=has_failed,
        )

    def _run(self, number: int, load: Load) -> Ran:
        server, wish = self._server, self._wish
        plans, twin = tee(
            plan_traffic(
                self._traffic, server, load, tokens_per_word=self._tokens_per_word, number=number
            )
        )
        moments = _moments(load, twin, seed=wish.traffic.seed, number=number)
        if load.arrival is not Arrival.REPLAY:
            del twin  # it would keep every request
        whole = replace(load, requests=load.requests + load.warmup_requests if load.requests else 0)
        with watch_metrics(server.endpoint, server.subject) as self._watched:
            return run_load(
                server.target,
                whole,
                plans,
                moments=moments,
                patience=wish.patience,
                watch=lambda live: self._tell(load, live),
            )

    def _measure(self, load: Load, ran: Ran) -> None:
        samples = mark_warmup(ran.samples, load.warmup_requests)
        point = measure(
            samples,
            load,
            objectives=self._wish.objectives,
            watched=Watched(lags_seconds=ran.lags_seconds, busy_share=ran.busy_share),
            server=tell_metrics(self._watched, self._server.served.engine),
            was_interrupted=ran.was_interrupted,
        )
        notes = (*point.notes, *make_notes(point, ran), *self._note_restart())
        errors = dict(nlargest(_MOST_ERRORS, point.errors.items(), key=lambda pair: pair[1]))
        left = sum(point.errors.values()) - sum(errors.values())
        if left:
            errors["other errors"] = left
        self._points.append(replace(point, notes=notes, errors=errors))
        self._samples.append(samples)

    def _note_restart(self) -> tuple[str, ...]:
        """A process that was started in the middle is another one than was verified."""
        if not self._process:
            return ()
        before, self._process = self._process, find_process(self._world, self._server)
        if self._process == before:
            return ()
        note = (
            "The server was started again, or ended, while it was measured: these are figures of "
            "its failing and its warming up too."
        )
        return (note,)

    def _tell(self, load: Load, live: Live) -> None:
        failed = f", {live.failed:,} failed" if live.failed else ""
        doing = f"waiting for {live.busy:,} answers" if live.is_ending else f"{live.busy} under way"
        self._world.reporter.emit(
            Event(
                kind=EventKind.PROGRESS,
                subject=self._server.served.name or self._server.served.url,
                text=f"measuring {describe_load(load)}: {live.events_per_second:,.0f} events/s, "
                f"{live.ended:,} answered, {doing}{failed}",
                fraction=None if live.is_ending else _fraction(load, live),
            )
        )

    def _benchmark(self) -> Benchmark:
        return Benchmark(
            id=self._id,
            started=self._started,
            served=self._server.served,
            workload=self._traffic.workload,
            points=tuple(self._points),
            objectives=self._wish.objectives,
            seed=self._wish.traffic.seed,
            client=f"{platform.node()}, {os.cpu_count()} cores",
            notes=self.notes,
        )

    def _keep(self) -> str:
        """Write what there is; where that fails a note says so, since it was measured all the
        same."""
        try:
            self._world.open_state()
            kept = keep_benchmark(
                self._world.host,
                self._world.folders,
                self._benchmark(),
                samples=self._samples,
                spared=self.spared,
            )
        except (HostError, StateError) as error:
            self._note(f"the result is not kept: {error.summary}")
            return ""
        if kept.complaint:
            self._note(kept.complaint)
        return kept.path

    def _note(self, text: str) -> None:
        """Once, however often it comes up."""
        self.notes = (*(each for each in self.notes if each != text), text)


def _moments(load: Load, planned: Iterator[Planned], *, seed: int, number: int) -> Moments:
    """When requests are due: those of a trace say it themselves, a closed loop needs none."""
    if load.arrival is Arrival.REPLAY:
        return (each.due_seconds or 0.0 for each in planned)
    if load.arrival is Arrival.CLOSED:
        return None
    return plan_moments(load, seed=seed, number=number)


def _fraction(load: Load, live: Live) -> float | None:
    shares = []
    if load.seconds:
        shares.append(live.seconds / load.seconds)
    if load.requests:
        shares.append(live.ended / (load.requests + load.warmup_requests))
    return min(max(shares), 1.0) if shares else None


def _got_nothing(ran: Ran) -> bool:
    """Whether requests ended and none of them well."""
    return bool(ran.samples) and all(sample.error for sample in ran.samples)


def _say(error: BaseException) -> str:
    return error.summary if isinstance(error, EndpointError) else "it was interrupted"
