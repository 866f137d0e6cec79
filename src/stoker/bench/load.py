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
from stoker.bench.load_failures import Failures, say_why
from stoker.bench.load_values import Live, Patience, Ran, Target, Watch
from stoker.bench.loop import allow_many_files, end_early, without_collector
from stoker.bench.requests import Planned
from stoker.bench.wire import Wire
from stoker.errors import EndpointError
from stoker.model.benchmark import Arrival, Load, Sample

#: How often the loop looks at its own lateness, and tells how far the load is.
_LAG_SECONDS, _TELL_SECONDS = 0.005, 0.5
#: Connections that are made at once: more than a server's backlog would be dropped and sent again.
_CONNECTS_AT_ONCE = 64
#: Pieces that are read before the loop looks at its sockets again: about a quarter of a ms.
_SLICE_PIECES = 48
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
        self._landing = Landing(self._judge, hidden=target.key)
        self._failures = Failures(load.concurrency)
        self._idle: deque[Wire] = deque()
        self._flights: dict[Wire, _Flight] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._paused: set[asyncio.TimerHandle] = set()
        self._sent = self._ended_count = self._events = 0
        self._stopped_at = 0.0
        self._lags: list[float] = []
        self._said = ""
        self._is_stopped = self._was_interrupted = self._has_given_up = self._is_reading = False

    async def work(self, watch: Watch) -> Ran:
        """Run the whole load."""
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        await self._open()
        with end_early(self._loop, self._interrupt), without_collector():
            self._started = self._landing.started = time.perf_counter()
            self._failures.begin(self._started)
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
            has_given_up=self._has_given_up,
            wait_seconds=self._failures.wait_seconds,
        )

    def _begin(self) -> None:
        raise NotImplementedError

    def _take(self, wire: Wire) -> None:
        """A connection is free."""
        raise NotImplementedError

    def _lose(self, why: str) -> None:
        """A connection could not be made in the middle."""
        raise NotImplementedError

    def _recover(self, pause_seconds: float) -> None:
        """A request failed, and its connection is gone."""
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
                f"then: {say_why(failure)}",
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
                fail(f"no connection: {say_why(error)}")
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
            media_type=wire.headers.get(b"content-type", b"").decode("latin-1").lower(),
            error=wire.error,
            pieces=wire.pieces,
        )
        self._count(landed)
        has_failed, following = self._read(landed)
        if has_failed and not self._is_stopped:
            wire.close()
            self._recover(self._failures.note_wait(wire.headers.get(b"retry-after", b"")))
            self._end_if_hopeless()
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
        self._landing.read_at_once(landed)
        if not self._is_stopped:
            self._recover(self._failures.note_wait(b""))
            self._end_if_hopeless()
        self._look_whether_over()

    def _count(self, landed: Landed) -> None:
        self._ended_count += 1
        self._events += len(landed.pieces)

    def _judge(self, sample: Sample) -> None:
        """An answer has been read."""
        if sample.error:
            self._failures.note_failure(sample.error)
        else:
            self._failures.note_answer(sample.ended_seconds + self._started)

    def _end_if_hopeless(self) -> None:
        why = "" if self._is_stopped else self._failures.find_end(time.perf_counter())
        if why:
            self._said, self._has_given_up = why, True
            self._stop()

    def _read(self, landed: Landed) -> tuple[bool, Planned | None]:
        """Read an answer now if something depends on it, else soon. Whether it is known to have
        failed, and the request that follows from it."""
        follow = landed.planned.follow
        # Among failures the next one is to be known in time for a pause.
        if follow is None and not landed.has_failed and not self._failures.in_a_row:
            self._landing.add(landed)
            if not self._is_reading:
                self._is_reading = True
                self._loop.call_soon(self._read_slice)
            return False, None
        answer = self._landing.read_at_once(landed)
        return answer is None, None if answer is None or follow is None else follow(answer)

    def _read_slice(self) -> None:
        self._is_reading = self._landing.read_some(_SLICE_PIECES)
        if self._is_reading:
            self._loop.call_soon(self._read_slice)

    # --- ending ---

    def _stop(self) -> None:
        """Send nothing more; what is under way may end."""
        if not self._is_stopped:
            self._is_stopped, self._stopped_at = True, time.perf_counter()
            for pause in self._paused:
                pause.cancel()
            self._paused.clear()
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
        is_quiet = not self._flights and not self._connecting
        if self._is_stopped and is_quiet and not self._over.done():
            self._over.set_result(None)

    # --- looking at itself ---

    def _watch_lag(self, due: float) -> None:
        """Note how late the loop is. While it could not look, it was as late at each moment when it
        should have: a process that stood still for a second is not late once but all the time."""
        now = time.perf_counter()
        late = max(now - due, 0.0)
        self._lags.append(late)
        while late > _LAG_SECONDS:
            late -= _LAG_SECONDS
            self._lags.append(late)
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
                    failed=self._failures.count,
                    busy=len(self._flights),
                    events_per_second=max(events - told_events, 0) / (now - told_at),
                    is_ending=self._is_stopped,
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
        if self._is_stopped:
            self._look_whether_over()
            return
        self._failures.note_failure(why)
        self._recover(self._failures.note_wait(b""))
        self._end_if_hopeless()

    def _recover(self, pause_seconds: float) -> None:
        """Its place waits before it asks again, on a new connection."""

        def go_on() -> None:
            self._paused.discard(pause)
            self._connect_then(self._take, self._lose)

        pause = self._loop.call_later(pause_seconds, go_on)
        self._paused.add(pause)


class _OpenRun(_Run):
    """Requests are sent at their moments, whether earlier ones have ended or not."""

    moments: Iterator[float] = iter(())

    def __init__(
        self, target: Target, load: Load, plans: Iterator[Planned], patience: Patience
    ) -> None:
        super().__init__(target, load, plans, patience)
        self._waiting: deque[tuple[Planned, float]] = deque()
        self._have_all_come = False

    def _begin(self) -> None:
        """Wait for the next request that is due."""
        have_come = self._sent + len(self._waiting)
        is_enough = bool(self._load.requests) and have_come >= self._load.requests
        moment = None if is_enough else next(self.moments, None)
        planned = None if moment is None else next(self._plans, None)
        if moment is None or planned is None:
            self._have_all_come = True
            self._serve_waiting()
            return
        due = self._started + moment
        self._loop.call_later(due - time.perf_counter(), self._arrive, planned, due)

    def _arrive(self, planned: Planned, due: float) -> None:
        if self._is_stopped:
            return
        self._waiting.append((planned, due))
        self._serve_waiting()
        self._begin()

    def _serve_waiting(self) -> None:
        """Send what is due, as far as so many may be under way."""
        while self._waiting and not self._is_stopped and not self._has_sent_all():
            busy = len(self._flights) + len(self._connecting)
            if self._load.concurrency and busy >= self._load.concurrency:
                return
            self._send_one(*self._waiting.popleft())
        if self._have_all_come:
            self._stop()

    def _send_one(self, planned: Planned, due: float) -> None:
        while self._idle:
            wire = self._idle.popleft()
            if wire.can_go_on:
                self._send(wire, planned, due)
                return
        flight = _Flight(number=self._sent, planned=planned, due=due)
        self._sent += 1
        self._connect_then(
            lambda wire: self._fly(wire, flight), lambda why: self._land_without(flight, why)
        )

    def _take(self, wire: Wire) -> None:
        self._idle.append(wire)
        self._serve_waiting()
        self._look_whether_over()

    def _lose(self, why: str) -> None:
        self._serve_waiting()
        self._look_whether_over()

    def _recover(self, pause_seconds: float) -> None:
        """Requests come when they are due, whatever became of others."""
        self._serve_waiting()


def _render(target: Target, planned: Planned) -> bytes:
    lines = [
        f"POST {target.base_path}{planned.path} HTTP/1.1",
        f"Host: {target.authority}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        f"Content-Length: {len(planned.body)}",
    ]
    if target.key:
        lines.append(f"Authorization: Bearer {target.key}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + planned.body
