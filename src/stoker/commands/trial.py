"""One trial of a contract: within which bounds, with how much patience, and what is kept of it.

Shared by `stoker verify` for a deployment and for a URL. What a check is, the contract knows; this
module puts limits around the endpoint, tells how far the trial is, and keeps what was found so far
when somebody interrupts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stoker.commands.recording import NOT_WHOLE, Recorder, redact, redact_details, redact_text
from stoker.commands.remedies import with_remedies
from stoker.commands.world import World
from stoker.contract.run import Selection, verify
from stoker.contract.selection import QUICK, SOAK, select_checks
from stoker.endpoints.limited import LimitedEndpoint
from stoker.endpoints.patient import PatientEndpoint
from stoker.errors import StokerError
from stoker.model.contract import (
    CONTRACT_TIMEOUT_SECONDS,
    CheckResult,
    Recording,
    Subject,
    Verdict,
    Verification,
)
from stoker.model.event import Event, EventKind
from stoker.ports import Check, Endpoint, Reporter

#: Why not all was tried, as the last line of a result says it.
INTERRUPTED = "interrupted"
_ENDED_EARLY = "ended early"

#: How long all requests of a trial together may take, where nothing else is said.
QUICK_SECONDS = float(CONTRACT_TIMEOUT_SECONDS)
FULL_SECONDS = 1800.0
#: What the checks of the soak level may take beside the full ones.
_SOAK_CHECK_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial, whole or interrupted, and all that its checks saw.

    ``unwritten``: the files that were asked for and could not be written.
    """

    verification: Verification
    subject: Subject
    recorder: Recorder
    was_interrupted: bool = False
    unwritten: tuple[str, ...] = ()

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
            cut_short=verification.cut_short or (NOT_WHOLE if self.recorder.left_out else ""),
        )


@dataclass(slots=True)
class Limits:
    """The limits around one server: ``seconds`` in all, and waiting where it asks for that."""

    world: World
    seconds: float
    patient: PatientEndpoint | None = field(default=None, init=False)
    limited: LimitedEndpoint | None = field(default=None, init=False)

    def wrap(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint within the limits."""
        self.patient = PatientEndpoint(endpoint, self.world.clock, self._tell)
        self.limited = LimitedEndpoint(self.patient, self.world.clock, self.seconds)
        return self.limited

    @property
    def given_up(self) -> str:
        """Why the server is asked nothing more, in a sentence; empty where it is."""
        return self.limited.given_up if self.limited else ""

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
    limits: Limits | None = None,
) -> Tried:
    """Try the selected checks and attach what would mend the broken ones.

    An interruption (KeyboardInterrupt) ends the trial, and so does a server that the limits have
    given up; what was found so far is answered.
    """
    checks = select_checks(selection.level, selection.only, selection.require)
    reporter = CountingReporter(world.reporter, checks)
    recorder, results = Recorder(), list[CheckResult]()
    was_interrupted = False

    def tell(result: CheckResult) -> None:
        results.append(result)
        if limits and limits.given_up and len(results) < len(checks):
            raise _GivenUp

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
            tell=tell,
        )
    except (KeyboardInterrupt, _GivenUp) as ending:
        was_interrupted = isinstance(ending, KeyboardInterrupt)
        cut_short = INTERRUPTED if was_interrupted else _ENDED_EARLY
        untried = () if was_interrupted else map(_untried, checks[len(results) :])
        why = f": {limits.given_up}" if limits and not was_interrupted else ""
        found = Verification(
            name=name,
            url=endpoint.url,
            level=selection.level,
            results=(*results, *untried),
            at_seconds=world.clock.now_seconds(),
            engine=subject.manners.engine,
            notes=(f"{cut_short}: {len(results)} of {len(checks)} checks were tried{why}",),
            cut_short=cut_short,
        )
    found = replace(found, notes=(*found.notes, *notes))
    return Tried(
        verification=redact_results(with_remedies(found, subject)),
        subject=subject,
        recorder=recorder,
        was_interrupted=was_interrupted,
    )


class _GivenUp(Exception):
    """The server broke a bound so often that the trial ends between two checks."""


def _untried(check: Check) -> CheckResult:
    return CheckResult(
        check=check.id,
        title=check.title,
        verdict=Verdict.SKIPPED,
        expected="a server that keeps the bounds of a reply",
        found="the trial was ended early",
    )


def redact_results(verification: Verification) -> Verification:
    """The verification without what has the looks of a secret."""
    return replace(
        verification,
        results=tuple(
            replace(
                result,
                expected=redact_text(result.expected),
                found=redact_text(result.found),
                details=redact_details(result.details),
                exchanges=tuple(map(redact, result.exchanges)),
            )
            for result in verification.results
        ),
        answer=redact_text(verification.answer),
        notes=tuple(map(redact_text, verification.notes)),
    )


def with_unwritten(tried: Tried, path: str, error: StokerError) -> Tried:
    """The same trial, of which a file could not be written: it counts, but does not end with 0."""
    told = with_note(tried, f"{path} could not be written: {error.summary}")
    return replace(told, unwritten=(*tried.unwritten, path))


def with_note(tried: Tried, *notes: str) -> Tried:
    """The same trial with more to tell."""
    found = tried.verification
    return replace(tried, verification=replace(found, notes=(*found.notes, *notes)))
