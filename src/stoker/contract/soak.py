"""Load for a given time, and one question that is asked over and over meanwhile.

Commands call it behind the checks. Keeps the history of the question: when it was asked, how
soon it was answered, and whether rightly. Must end what it started, whatever happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from threading import Event as Signal
from threading import Lock, Thread
from typing import TypeVar

from stoker.contract.asking import Asker
from stoker.contract.evidence import keep_evidence
from stoker.contract.interview import Heard, Style, find_context, hear
from stoker.contract.load import Canary, find_canary, find_load_faults, make_load
from stoker.contract.procedure import Steps
from stoker.model.contract import CanaryAnswer, CheckResult, Exchange, Subject, Verdict
from stoker.model.event import Event, EventKind
from stoker.ports import Clock, Endpoint, Reporter

ID = "soak"
_TITLE = "Answers stay as they are under lasting load"
_EXPECTED = "the same answer under load as alone"

_INTERVAL_SECONDS = 5.0
#: A short soak asks more often.
_LEAST_ASKED = 10
#: A server that refuses a connection may be restarting; it is given so long to be back.
_PAUSE_SECONDS = 2.0
_JOIN_SECONDS = 5.0
#: Workers that get nothing but errors must not spin.
_REST_SECONDS = 0.5

_MOST_HISTORY = 240

#: Lost requests of the load: so many, and such a part of all.
_LEAST_LOST = 2
_LOST_SHARE = 0.01

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Load:
    """What the workers share: which request is next, and what became of them."""

    endpoint: Endpoint
    subject: Subject
    style: Style
    stop: Signal = field(default_factory=Signal)
    lock: Lock = field(default_factory=Lock)
    number: int = 0
    done: int = 0
    lost: list[Heard] = field(default_factory=list)

    def work(self) -> None:
        """Ask one request after the other until it is time to stop."""
        while not self.stop.is_set():
            with self.lock:
                number, self.number = self.number, self.number + 1
            request = make_load(self.subject, self.style, number)
            exchange = self.endpoint.exchange(request)
            faults = find_load_faults([request], [exchange])
            if self.stop.is_set():
                return
            with self.lock:
                self.done += 1
                self.lost += faults
            if faults or exchange.status >= 400:
                self.stop.wait(_REST_SECONDS)


@dataclass(slots=True)
class _Watch:
    """The question's history, thinned evenly once it is long, and what ended it."""

    canary: Canary
    history: list[CanaryAnswer] = field(default_factory=list)
    stride: int = 1
    asked: int = 0
    symptom: str = ""
    found: str = ""
    exchanges: tuple[Exchange, ...] = ()
    was_interrupted: bool = False

    def note(self, answer: CanaryAnswer) -> None:
        """Keep an answer: each at first, then every second, every fourth; all that went wrong."""
        is_due = self.asked % self.stride == 0
        self.asked += 1
        if is_due or answer.verdict is Verdict.FAILED:
            self.history.append(answer)
        if len(self.history) > _MOST_HISTORY:
            self.stride *= 2
            self.history = self.history[::2]


def soak(
    endpoint: Endpoint,
    subject: Subject,
    clock: Clock,
    reporter: Reporter,
    *,
    seconds: float,
    parallel: int,
) -> tuple[CheckResult, tuple[CanaryAnswer, ...]]:
    """Keep ``parallel`` requests going for so long and watch one question meanwhile.

    Ends early with the first answer that went wrong twice, and when the user interrupts it: then
    with what was seen. Reports each answer as progress.
    """
    started_at = clock.monotonic_seconds()
    subject = _follow(find_context(subject), endpoint)
    canary = _follow(find_canary(subject), endpoint)
    load = _Load(endpoint=endpoint, subject=subject, style=canary.style)
    watch = _Watch(canary=canary)
    if canary.baseline.fault:
        watch.symptom, watch.found = "canary_lost", canary.baseline.fault.found
        watch.exchanges = (canary.baseline.exchange,)
        return _sum_up(watch, load, seconds=0.0), ()
    workers = [Thread(target=load.work, daemon=True) for _ in range(parallel)]
    try:
        for worker in workers:
            worker.start()
        _watch_for(watch, load, clock, reporter, seconds=seconds, parallel=parallel)
    except KeyboardInterrupt:
        watch.was_interrupted = True
    finally:
        load.stop.set()
        _join(workers, clock)
    took = clock.monotonic_seconds() - started_at
    return _sum_up(watch, load, seconds=took), tuple(watch.history)


def _follow(steps: Steps[_Result], endpoint: Endpoint) -> _Result:
    """Run a part of a procedure against a server."""
    asker = Asker(endpoint)
    try:
        batch = next(steps)
        while True:
            batch = steps.send(asker.ask(batch))
    except StopIteration as ended:
        result: _Result = ended.value
        return result


def _join(workers: Sequence[Thread], clock: Clock) -> None:
    """Wait a little for requests that are on their way; they are left behind then."""
    end = clock.monotonic_seconds() + _JOIN_SECONDS
    for worker in workers:
        if worker.ident is not None:
            worker.join(max(0.0, end - clock.monotonic_seconds()))


def _watch_for(
    watch: _Watch,
    load: _Load,
    clock: Clock,
    reporter: Reporter,
    *,
    seconds: float,
    parallel: int,
) -> None:
    """Ask again and again until the time is over or the answer went wrong twice."""
    begun_at = clock.monotonic_seconds()
    interval = min(_INTERVAL_SECONDS, seconds / _LEAST_ASKED)
    passed = 0.0
    while passed < seconds and not watch.symptom:
        clock.sleep(min(interval, seconds - passed))
        answer = _ask(watch, load, clock, parallel=parallel)
        if answer.verdict is Verdict.FAILED:
            clock.sleep(_PAUSE_SECONDS if _is_refused(watch) else 0.0)
            again = _ask(watch, load, clock, parallel=parallel)
            if again.verdict is Verdict.FAILED:
                watch.symptom = "server_died" if _is_refused(watch) else _symptom(watch)
                watch.found = f"{again.found}, twice, after {load.done} requests"
        passed = clock.monotonic_seconds() - begun_at
        reporter.emit(_event(load, answer, clock, passed=passed, seconds=seconds))


def _ask(watch: _Watch, load: _Load, clock: Clock, *, parallel: int) -> CanaryAnswer:
    """Ask the question once and note how it was answered."""
    canary = watch.canary
    exchange = load.endpoint.exchange(canary.ask(load.subject))
    heard = hear(canary.question, exchange)
    symptom = canary.find_change(heard)
    # An answer that was right again needs no evidence any more.
    watch.exchanges = (*watch.exchanges, exchange)[-2:]
    verdict = Verdict.FAILED if symptom else Verdict.PASSED
    answer = CanaryAnswer(
        at_seconds=clock.now_seconds(),
        verdict=Verdict.SKIPPED if heard.is_limited else verdict,
        first_seconds=exchange.first_seconds,
        seconds=exchange.seconds,
        parallel=parallel,
        found=canary.describe(heard) if symptom else heard.quoted,
    )
    watch.note(answer)
    return answer


def _is_refused(watch: _Watch) -> bool:
    return watch.exchanges[-1].error_kind == "refused"


def _symptom(watch: _Watch) -> str:
    return watch.canary.find_change(hear(watch.canary.question, watch.exchanges[-1]))


def _event(
    load: _Load, answer: CanaryAnswer, clock: Clock, *, passed: float, seconds: float
) -> Event:
    text = (
        f"{passed:.0f} of {seconds:.0f} s, {load.done} requests, "
        f"the first token after {answer.first_seconds:.2f} s: {answer.found}"
    )
    return Event(
        kind=EventKind.PROGRESS,
        subject=ID,
        text=text,
        fraction=min(1.0, passed / seconds) if seconds > 0 else 1.0,
        at_seconds=clock.now_seconds(),
        data={
            "verdict": str(answer.verdict),
            "first_seconds": answer.first_seconds,
            "requests": load.done,
            "parallel": answer.parallel,
        },
    )


def _sum_up(watch: _Watch, load: _Load, *, seconds: float) -> CheckResult:
    asked = watch.asked
    with load.lock:
        done, lost = load.done, list(load.lost)
    if not watch.symptom and len(lost) >= max(_LEAST_LOST, _LOST_SHARE * done):
        cause = lost[0].fault
        watch.symptom = "lost_under_load"
        watch.found = f"{len(lost)} of {done} requests went wrong: {cause.found if cause else ''}"
        watch.exchanges = tuple(each.exchange for each in lost[:2])
    verdict = Verdict.FAILED if watch.symptom else Verdict.PASSED if asked else Verdict.SKIPPED
    end = "; it was interrupted" if watch.was_interrupted else ""
    return CheckResult(
        check=ID,
        title=_TITLE,
        verdict=verdict,
        expected=_EXPECTED,
        found=watch.found or f"{_describe(watch, done, seconds)}{end}",
        symptom=watch.symptom,
        details={"requests": done, "lost": len(lost), "asked": asked},
        exchanges=keep_evidence(watch.exchanges) if watch.symptom else (),
        seconds=seconds,
    )


def _describe(watch: _Watch, done: int, seconds: float) -> str:
    """How the question fared, and whether its first token came later and later."""
    wrong = sum(each.verdict is Verdict.FAILED for each in watch.history)
    found = f"asked {watch.asked} times during {done} requests in {seconds:.0f} s"
    if wrong:
        found += f", {wrong} times wrong once and right again"
    waits = [each.first_seconds for each in watch.history]
    part = len(waits) // 4
    if part:
        early, late = median(waits[:part]), median(waits[-part:])
        found += f"; its first token came after {early:.2f} s at first and {late:.2f} s at last"
    return found
