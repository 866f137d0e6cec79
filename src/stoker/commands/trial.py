"""One trial of a contract: within which bounds, with how much patience, and what is kept of it.

Shared by `stoker verify` for a deployment and for a URL. What a check is, the contract knows; this
module puts limits around the endpoint, tells how far the trial is, and keeps what was found so far
when somebody interrupts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stoker.commands.recording import Recorder, redact, redact_text
from stoker.commands.remedies import with_remedies
from stoker.commands.world import World
from stoker.contract.run import Selection, verify
from stoker.contract.selection import QUICK, SOAK, select_checks
from stoker.endpoints.limited import LimitedEndpoint
from stoker.endpoints.patient import PatientEndpoint
from stoker.errors import HostError
from stoker.model.contract import (
    CONTRACT_TIMEOUT_SECONDS,
    CheckResult,
    Recording,
    Subject,
    Verification,
)
from stoker.model.event import Event, EventKind
from stoker.ports import Check, Endpoint, Reporter

#: How long all requests of a trial together may take, where nothing else is said.
QUICK_SECONDS = float(CONTRACT_TIMEOUT_SECONDS)
FULL_SECONDS = 1800.0
#: What the checks of the soak level may take beside the full ones.
_SOAK_CHECK_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial, whole or interrupted, and all that its checks saw."""

    verification: Verification
    subject: Subject
    recorder: Recorder
    was_interrupted: bool = False

    @property
    def recording(self) -> Recording:
        """All of it as a document that can be judged again."""
        verification, manners = self.verification, self.subject.manners
        return Recording(
            engine=f"{manners.title} at {verification.url}",
            subject=self.subject,
            checks=self.recorder.checks,
            name=verification.name,
            url=verification.url,
            level=verification.level,
        )


@dataclass(slots=True)
class Limits:
    """The limits around one server: ``seconds`` in all, and waiting where it asks for that."""

    world: World
    seconds: float
    patient: PatientEndpoint | None = field(default=None, init=False)

    def wrap(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint within the limits."""
        self.patient = PatientEndpoint(endpoint, self.world.clock, self._tell)
        return LimitedEndpoint(self.patient, self.world.clock, self.seconds)

    def describe_waits(self) -> tuple[str, ...]:
        """What the server's own limits cost, in a sentence; none where they cost nothing."""
        told = self.patient.describe_waits() if self.patient else ""
        return (told,) if told else ()

    def _tell(self, text: str) -> None:
        self.world.reporter.emit(Event(kind=EventKind.NOTE, subject="limit", text=text))


def bound_seconds(
    level: str, *, timeout_seconds: float = QUICK_SECONDS, soak_seconds: float = 0.0
) -> float:
    """How long a trial of a level may take; ``timeout_seconds`` is what the deployment says."""
    if level == QUICK:
        return timeout_seconds
    full = max(FULL_SECONDS, timeout_seconds)
    return full + _SOAK_CHECK_SECONDS + soak_seconds if level == SOAK else full


class CountingReporter:
    """Passes events on, and says before each check which one it is and how many there are."""

    def __init__(self, reporter: Reporter, checks: Sequence[Check]) -> None:
        self._reporter = reporter
        self._checks = checks
        self._done = 0

    def begin(self) -> None:
        """Say which check comes first."""
        self._tell_next()

    def emit(self, event: Event) -> None:
        """See :class:`stoker.ports.Reporter`."""
        self._reporter.emit(event)
        if event.kind is EventKind.CHECK:
            self._done += 1
            self._tell_next()

    def _tell_next(self) -> None:
        if self._done >= len(self._checks):
            return
        check = self._checks[self._done]
        text = f"check {self._done + 1} of {len(self._checks)}, {check.title}"
        self._reporter.emit(Event(kind=EventKind.PHASE, subject=check.id, text=text))


def try_subject(
    world: World,
    endpoint: Endpoint,
    *,
    name: str,
    subject: Subject,
    selection: Selection,
    notes: Iterable[str] = (),
) -> Tried:
    """Try the selected checks and attach what would mend the broken ones.

    An interruption (KeyboardInterrupt) ends the trial; what was found so far is answered.
    """
    checks = select_checks(selection.level, selection.only, selection.require)
    reporter = CountingReporter(world.reporter, checks)
    recorder, results = Recorder(), list[CheckResult]()
    was_interrupted = False
    reporter.begin()
    try:
        found = verify(
            endpoint,
            name=name,
            subject=subject,
            clock=world.clock,
            reporter=reporter,
            selection=selection,
            keep=recorder.keep,
            tell=results.append,
        )
    except KeyboardInterrupt:
        was_interrupted = True
        found = Verification(
            name=name,
            url=endpoint.url,
            level=selection.level,
            results=tuple(results),
            at_seconds=world.clock.now_seconds(),
            engine=subject.manners.engine,
            notes=(f"interrupted: {len(results)} of {len(checks)} checks were tried",),
        )
    found = replace(found, notes=(*found.notes, *notes))
    return Tried(
        verification=redact_results(with_remedies(found, subject)),
        subject=subject,
        recorder=recorder,
        was_interrupted=was_interrupted,
    )


def redact_results(verification: Verification) -> Verification:
    """The verification without what has the looks of a secret."""
    return replace(
        verification,
        results=tuple(
            replace(
                result,
                found=redact_text(result.found),
                exchanges=tuple(map(redact, result.exchanges)),
            )
            for result in verification.results
        ),
        answer=redact_text(verification.answer),
    )


def with_note(tried: Tried, *notes: str) -> Tried:
    """The same trial with more to tell."""
    found = tried.verification
    return replace(tried, verification=replace(found, notes=(*found.notes, *notes)))


def describe_write_error(path: str, error: HostError) -> str:
    """Why a result could not be written, as a note: the trial itself counts all the same."""
    return f"{path} could not be written: {error.summary}"
