"""Sends requests to a server as a load says, and notes when each token came.

The only module of the package that sends, beside :mod:`stoker.bench.wire`. Called by the command
layer. One thread and one loop: how late the loop is between two events of a server is measured too,
so that a client which could not keep up says so (:mod:`stoker.bench.starving` judges). Answers are
read after they have ended, a slice at a time. It must never write a file and never judge a figure.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stoker.bench.landing import Landed, Landing
from stoker.bench.load_values import Live, Patience, Ran, Target, Watch
from stoker.bench.loop import allow_many_files, end_early, without_collector
from stoker.bench.requests import Planned
from stoker.bench.wire import Wire
from stoker.errors import EndpointError
from stoker.model.benchmark import Arrival, Load

#: How often the loop looks at its own lateness, and tells how far the load is.
_LAG_SECONDS, _TELL_SECONDS = 0.005, 0.5
#: Connections that are made at once: more than a server's backlog would be dropped and sent again.
_CONNECTS_AT_ONCE = 64
#: Pieces that are read before the loop looks at its sockets again: about a quarter of a ms.
_SLICE_PIECES = 48
#: A place that got an error waits so long before it asks again, so that a dying server is not
#: hammered. A load ends when so many errors, and nothing else for so long, have come.
_PAUSE_SECONDS, _GIVE_UP_SECONDS, _LEAST_FAILURES = 0.25, 10.0, 8
_UNFINISHED = "it had not ended when the load was over"


def run_load(
    target: Target,
    load: Load,
    plans: Iterator[Planned],
    *,
    moments: Iterator[float] | None = None,
    patience: Patience | None = None,
    watch: Watch = lambda live: None,
) -> Ran:
    """Send what ``plans`` gives until the load is over; Ctrl-C ends it early and keeps the rest.

    ``moments``: for an open loop, the seconds at which requests are due. Raises EndpointError where
    the connections cannot be made.
    """
    patience = patience or Patience()
    if load.arrival is Arrival.CLOSED:
        return asyncio.run(_ClosedRun(target, load, plans, patience).work(watch))
    run = _OpenRun(target, load, plans, patience)
    run.moments = moments or iter(())
    return asyncio.run(run.work(watch))


@dataclass(slots=True, eq=False)
class _Flight:
    """A request under way: it is sent a second time where ``is_again``."""

    number: int
    planned: Planned
    due: float
    is_again: bool = False


class _Run:
    """What closed and open loops share: connections, sending, and what becomes of answers."""

    def __init__(
        self, target: Target, load: Load, plans: Iterator[Planned], patience: Patience
    ) -> None:
        self._target, self._load, self._plans, self._patience = target, load, plans, patience
        self._landing = Landing()
        self._idle: deque[Wire] = deque()
        self._flights: dict[Wire, _Flight] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._paused = 0
        self._sent = self._ended_count = self._failed = self._in_a_row = self._events = 0
        self._answered_at = self._stopped_at = 0.0
        self._lags: list[float] = []
        self._said, self._last_error = "", ""
        self._is_stopped = self._was_interrupted = self._is_reading = False

    async def work(self, watch: Watch) -> Ran:
        """Run the whole load."""
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        await self._open()
        with end_early(self._loop, self._interrupt), without_collector():
            self._started = self._landing.started = self._answered_at = time.perf_counter()
            cpu = time.process_time()
            self._watch_lag(self._started)
            telling = self._loop.create_task(self._tell(watch))
            if self._load.seconds:
                self._loop.call_later(self._load.seconds, self._stop)
            self._begin()
            await self._over
            wall = max(time.perf_counter() - self._started, 1e-9)
            share = (time.process_time() - cpu) / wall
            telling.cancel()
        while self._landing.read_some(_SLICE_PIECES):
            pass
        for wire in (*self._idle, *self._flights):
            wire.close()
        return Ran(
            samples=tuple(sorted(self._landing.samples, key=lambda sample: sample.number)),
            stopped_seconds=self._stopped_at - self._started,
            ended_seconds=wall,
            lags_seconds=tuple(self._lags),
            busy_share=share,
            said=self._said,
            was_interrupted=self._was_interrupted,
        )

    def _begin(self) -> None:
        raise NotImplementedError

    def _take(self, wire: Wire) -> None:
        """A connection is free."""
        raise NotImplementedError

    def _lose(self, why: str) -> None:
        """A connection could not be made in the middle."""
        raise NotImplementedError

    # --- connections ---

    async def _open(self) -> None:
        """Make the first connections, before the clock runs."""
        allow_many_files()
        wanted = self._load.concurrency or _CONNECTS_AT_ONCE
        for start in range(0, wanted, _CONNECTS_AT_ONCE):
            group = [self._connect() for _ in range(start, min(start + _CONNECTS_AT_ONCE, wanted))]
            made = await asyncio.gather(*group, return_exceptions=True)
            self._idle.extend(each for each in made if isinstance(each, Wire))
            failure = next((each for each in made if isinstance(each, BaseException)), None)
            if failure is None:
                continue
            if not isinstance(failure, OSError):
                raise failure
            for wire in self._idle:
                wire.close()
            raise EndpointError(
                "refused",
                f"{len(self._idle)} of {wanted} connections to {self._target.authority} were made, "
                f"then: {failure or 'no answer in time'}",
                "ask for fewer at once, or raise `ulimit -n` and the server's own limit"
                if self._idle
                else "is the server running there?",
            )

    async def _connect(self) -> Wire:
        target = self._target
        making = self._loop.create_connection(
            Wire,
            target.address,
            target.port,
            ssl=target.tls,
            server_hostname=(target.server_name or target.address) if target.tls else None,
        )
        _, wire = await asyncio.wait_for(making, self._patience.connect_seconds)
        return wire

    def _connect_then(self, then: Callable[[Wire], None], fail: Callable[[str], None]) -> None:
        """Make another connection in the background."""

        async def make() -> None:
            try:
                wire = await self._connect()
            except OSError as error:  # a timeout is one of these
                self._connecting.discard(task)
                fail(f"no connection: {error or 'no answer in time'}")
                return
            self._connecting.discard(task)
            then(wire)

        task = self._loop.create_task(make())
        self._connecting.add(task)

    # --- sending ---

    def _send(self, wire: Wire, planned: Planned, due: float) -> None:
        self._fly(wire, _Flight(number=self._sent, planned=planned, due=due))
        self._sent += 1

    def _fly(self, wire: Wire, flight: _Flight) -> None:
        self._flights[wire] = flight
        wire.ask(_render(self._target, flight.planned), self._ended)

    def _has_sent_all(self) -> bool:
        return bool(self._load.requests) and self._sent >= self._load.requests

    # --- an answer has ended ---

    def _ended(self, wire: Wire) -> None:
        flight = self._flights.pop(wire)
        if wire.was_dropped and not flight.is_again and not self._is_stopped:
            # Servers close idle connections; what they never looked at is sent once more.
            flight.is_again = True
            self._connect_then(
                lambda new: self._fly(new, flight),
                lambda why: self._land_without(flight, why),
            )
            return
        landed = Landed(
            number=flight.number,
            planned=flight.planned,
            due=flight.due,
            sent=wire.sent_at,
            ended=wire.ended_at,
            status=wire.status,
            error=wire.error,
            pieces=wire.pieces,
        )
        self._count(landed)
        following = self._read(landed)
        if landed.has_failed and not self._is_stopped:
            wire.close()
            self._pause()
        elif following is not None and not self._is_stopped and not self._has_sent_all():
            planned = following
            self._with(wire, lambda free: self._send(free, planned, time.perf_counter()))
        else:
            self._with(wire, self._take)

    def _with(self, wire: Wire, then: Callable[[Wire], None]) -> None:
        """Go on with this connection, or with a new one where it is worn out."""
        if wire.can_go_on or self._is_stopped:
            then(wire)
            return
        wire.close()
        self._connect_then(then, self._lose)

    def _pause(self) -> None:
        """After a failure a place waits before it asks again, on a new connection."""
        self._paused += 1
        self._loop.call_later(_PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._paused -= 1
        if self._is_stopped:
            self._look_whether_over()
        else:
            self._connect_then(self._take, self._lose)

    def _land_without(self, flight: _Flight, why: str) -> None:
        """A request that found no connection failed."""
        now = time.perf_counter()
        landed = Landed(
            number=flight.number,
            planned=flight.planned,
            due=flight.due,
            sent=now,
            ended=now,
            error=why,
            pieces=[],
        )
        self._count(landed)
        self._read(landed)
        self._lose(why)

    def _count(self, landed: Landed) -> None:
        self._ended_count += 1
        self._events += len(landed.pieces)
        if landed.has_failed:
            self._count_failure(landed.error or f"HTTP status {landed.status}")
        else:
            self._in_a_row, self._answered_at = 0, landed.ended

    def _count_failure(self, why: str) -> None:
        self._failed += 1
        self._in_a_row += 1
        self._last_error = why
        most = max(_LEAST_FAILURES, 2 * self._load.concurrency)
        never_answered = self._ended_count == self._failed
        silence = time.perf_counter() - self._answered_at
        if self._in_a_row >= most and (never_answered or silence > _GIVE_UP_SECONDS):
            self._said = (
                f"ended early: nothing but errors ({self._in_a_row} in a row); the last: {why}"
            )
            self._stop()

    def _read(self, landed: Landed) -> Planned | None:
        """Read an answer now if the next request depends on it, which is returned; else soon."""
        follow = None if landed.has_failed else landed.planned.follow
        if follow is not None:
            answer = self._landing.read_at_once(landed)
            return None if answer is None else follow(answer)
        self._landing.add(landed)
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._read_slice)
        return None

    def _read_slice(self) -> None:
        self._is_reading = self._landing.read_some(_SLICE_PIECES)
        if self._is_reading:
            self._loop.call_soon(self._read_slice)

    # --- ending ---

    def _stop(self) -> None:
        """Send nothing more; what is under way may end."""
        if not self._is_stopped:
            self._is_stopped, self._stopped_at = True, time.perf_counter()
            self._loop.call_later(self._patience.drain_seconds, self._give_up, _UNFINISHED)
        self._look_whether_over()

    def _interrupt(self) -> None:
        self._was_interrupted = True
        self._said = self._said or "interrupted; what had ended by then was kept"
        self._stop()
        self._give_up(_UNFINISHED)

    def _give_up(self, why: str) -> None:
        for task in self._connecting:
            task.cancel()
        self._connecting.clear()
        for wire in tuple(self._flights):
            wire.give_up(why)
        self._look_whether_over()

    def _look_whether_over(self) -> None:
        is_quiet = not self._flights and not self._connecting and not self._paused
        if self._is_stopped and is_quiet and not self._over.done():
            self._over.set_result(None)

    # --- looking at itself ---

    def _watch_lag(self, due: float) -> None:
        now = time.perf_counter()
        self._lags.append(max(now - due, 0.0))
        self._loop.call_later(_LAG_SECONDS, self._watch_lag, now + _LAG_SECONDS)

    async def _tell(self, watch: Watch) -> None:
        told_at, told_events = self._started, 0
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            now = time.perf_counter()
            late = now - self._patience.request_seconds
            for wire in tuple(self._flights):
                if wire.sent_at < late:
                    wire.give_up(f"no whole answer within {self._patience.request_seconds:g} s")
            events = self._events + sum(len(wire.pieces) for wire in self._flights)
            watch(
                Live(
                    seconds=now - self._started,
                    sent=self._sent,
                    ended=self._ended_count,
                    failed=self._failed,
                    busy=len(self._flights),
                    events_per_second=max(events - told_events, 0) / (now - told_at),
                )
            )
            told_at, told_events = now, events


class _ClosedRun(_Run):
    """So many at once: each place asks again when its answer has ended."""

    def _begin(self) -> None:
        places, self._idle = self._idle, deque()
        for wire in places:
            self._take(wire)

    def _take(self, wire: Wire) -> None:
        planned = None if self._is_stopped or self._has_sent_all() else next(self._plans, None)
        if planned is None:
            self._idle.append(wire)
            self._stop()
        else:
            self._send(wire, planned, time.perf_counter())

    def _lose(self, why: str) -> None:
        self._count_failure(why)
        if self._is_stopped:
            self._look_whether_over()
        else:
            self._pause()


class _OpenRun(_Run):
    """Requests are sent at their moments, whether earlier ones have ended or not."""

    moments: Iterator[float] = iter(())

    def __init__(
        self, target: Target, load: Load, plans: Iterator[Planned], patience: Patience
    ) -> None:
        super().__init__(target, load, plans, patience)
        self._waiting: deque[tuple[Planned, float]] = deque()

    def _begin(self) -> None:
        moment = None if self._has_sent_all() else next(self.moments, None)
        planned = None if moment is None else next(self._plans, None)
        if moment is None or planned is None:
            self._stop()
            return
        due = self._started + moment
        self._loop.call_later(due - time.perf_counter(), self._arrive, planned, due)

    def _arrive(self, planned: Planned, due: float) -> None:
        if self._is_stopped:
            return
        while self._idle:
            wire = self._idle.popleft()
            if wire.can_go_on:
                self._send(wire, planned, due)
                break
        else:
            self._send_elsewhere(planned, due)
        self._begin()

    def _send_elsewhere(self, planned: Planned, due: float) -> None:
        """On a new connection, or later where as many are busy as may be."""
        busy = len(self._flights) + len(self._connecting)
        if self._load.concurrency and busy >= self._load.concurrency:
            self._waiting.append((planned, due))
            return
        flight = _Flight(number=self._sent, planned=planned, due=due)
        self._sent += 1
        self._connect_then(
            lambda wire: self._fly(wire, flight), lambda why: self._land_without(flight, why)
        )

    def _take(self, wire: Wire) -> None:
        if self._waiting and not self._is_stopped:
            self._send(wire, *self._waiting.popleft())
            return
        self._idle.append(wire)
        self._look_whether_over()

    def _lose(self, why: str) -> None:
        self._look_whether_over()


def _render(target: Target, planned: Planned) -> bytes:
    lines = [
        f"POST {target.base_path}{planned.path} HTTP/1.1",
        f"Host: {target.authority}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        f"Content-Length: {len(planned.body)}",
    ]
    if target.key:
        lines.append(f"Authorization: Bearer {target.key}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + planned.body
