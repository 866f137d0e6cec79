"""`stoker apply --repair`: where a start fails, mend it and try again, within bounds.

What to try is decided by :mod:`stoker.diagnosis.repair`; each trial is an ordinary apply, journaled
and rolled back by itself where it fails, so whenever this ends, by Ctrl-C too, the host is as it
was or as it was verified. The deployment file is written once, at the end, if it was verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from stoker.commands.apply import Applied
from stoker.commands.converge import exclusive
from stoker.commands.deployment_file import write_back
from stoker.commands.kept_repairs import describe_wish, keep_worked
from stoker.commands.plan import looks_like_plan, read_file
from stoker.commands.resolve import Resolved
from stoker.commands.start_attempt import FailedStart, attempt_start, first_line
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.diagnosis.repair import (
    Candidate,
    Limits,
    Search,
    Stop,
    begin_search,
    choose_next,
    record_failure,
    take,
)
from stoker.errors import (
    ApplyFailed,
    Blocked,
    HostError,
    SpecError,
    UsageError,
)
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import engine_kinds
from stoker.model.contract import Verdict
from stoker.model.event import Event, EventKind
from stoker.model.facts import Plain
from stoker.model.kept_repair import KeptRepair
from stoker.spec import apply_changes, edit_deployment, parse_deployment
from stoker.spec.plain import read_plain

_SETTINGS = "engine.settings."
_BROKEN = (Verdict.FAILED, Verdict.ERROR)
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairWish:
    """How far a repair may go. ``minutes``: no trial begins later, None for any time.
    ``consents``: what the owner agreed to, by cause, flag or key."""

    attempts: int = 5
    minutes: float | None = None
    consents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One trial of a repair: for which ``cause``, what was changed, and what came of it.

    ``outcome``: verified, failed (it was started), or refused (it could not be planned).
    """

    cause: str
    text: str
    changes: Mapping[str, Plain]
    outcome: str
    said: str = ""
    run: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair ended with: the deployment that serves, and how it was found.

    ``changes`` are those that the file got, empty where it served as it was. ``unwritten`` says why
    the file could not be written; ``kept`` is the document that keeps the changes as evidence.
    """

    SCHEMA: ClassVar[str] = "repaired/1"

    applied: Applied
    file: str
    attempts: tuple[Attempt, ...] = ()
    changes: Mapping[str, Plain] = field(default_factory=dict)
    unwritten: str = ""
    kept: str = ""


def apply_repairing(
    world: World, path: str, wish: RepairWish, *, end_holders: Sequence[int] = ()
) -> Repaired:
    """Apply a deployment file, and mend it where its start fails. ``end_holders`` as for apply.

    Raises ApplyFailed with what was tried where nothing served, and whatever apply raises.
    """
    text = read_file(path)
    if looks_like_plan(text):
        raise UsageError(
            f"{path} is a saved plan, which is applied as it was shown or not at all",
            "name the deployment file to have it repaired",
        )
    deployment = parse_deployment(text, path, engine_kinds=engine_kinds())
    chosen = using_wanted(world, deployment)
    wish = replace(wish, consents=(*wish.consents, *deployment.accept))
    with exclusive(chosen, "apply"):
        work = _Work(chosen, text, path, wish)
        failed = work.start(text, end_holders=end_holders)
        if isinstance(failed, Applied):
            return Repaired(applied=failed, file=path)
        return work.search(failed)


class _Work:
    """One search: the world that it works in, and what it has tried."""

    def __init__(self, world: World, text: str, path: str, wish: RepairWish) -> None:
        self._world, self._text, self._path, self._wish = world, text, path, wish
        self._began = world.clock.monotonic_seconds()
        self._attempts: list[Attempt] = []

    def start(self, text: str, *, end_holders: Sequence[int] = ()) -> Applied | FailedStart:
        """One apply; what is known of it where the start fails or breaks the contract."""
        return attempt_start(self._world, text, self._path, say=self._say, end_holders=end_holders)

    def search(self, first: FailedStart) -> Repaired:
        """Try repairs until one is verified. Raises ApplyFailed where none is."""
        limits = Limits(
            attempts=self._wish.attempts,
            seconds=None if self._wish.minutes is None else self._wish.minutes * 60,
            consents=frozenset(self._wish.consents),
        )
        values = read_plain(self._text, self._path).value
        search = begin_search(
            first.diagnosis,
            limits=limits,
            changed=lambda changes: apply_changes(values, changes),
            has_served=first.has_served,
        )
        self._tell_cause(first)
        while True:
            step = choose_next(search, passed_seconds=self._passed())
            if isinstance(step, Stop):
                raise self._give_up(first, step)
            search = take(search, step)
            found = self._try(step)
            if isinstance(found, Applied):
                return self._end(first, step, found)
            search = self._record(search, found)

    def _record(self, search: Search, found: FailedStart | None) -> Search:
        if found is None:
            return record_failure(search, None, has_served=False)
        self._tell_cause(found)
        return record_failure(search, found.diagnosis, has_served=found.has_served)

    def _try(self, candidate: Candidate) -> Applied | FailedStart | None:
        """One candidate; None where it could not even be planned."""
        began = self._world.clock.monotonic_seconds()
        changes = candidate.changes
        self._say(f"trying: {candidate.repair.text} ({describe_changes(changes)})")

        def told(outcome: str, said: str = "", run: str = "") -> None:
            self._attempts.append(
                Attempt(
                    cause=candidate.cause.kind,
                    text=candidate.repair.text,
                    changes=changes,
                    outcome=outcome,
                    said=said,
                    run=run,
                    seconds=self._world.clock.monotonic_seconds() - began,
                )
            )

        try:
            found = self.start(edit_deployment(self._text, changes, origin=self._path))
        except (Blocked, UsageError, SpecError) as error:
            told("refused", first_line(error))
            self._say(f"that cannot be: {first_line(error)}")
            return None
        if isinstance(found, Applied):
            told("verified", run=found.converged.run)
        else:
            told("failed", first_line(found.error), found.run)
        return found

    def _end(self, first: FailedStart, candidate: Candidate, applied: Applied) -> Repaired:
        """Keep what worked, and write the file: in this order, so that a kill between the two
        loses nothing that was learned."""
        changes = candidate.changes
        kept = self._keep(first, candidate, applied)
        try:
            new = edit_deployment(self._text, changes, origin=self._path)
            write_back(self._world, self._path, self._text, new)
            unwritten = ""
        except UsageError as error:
            unwritten = error.summary
        return Repaired(
            applied=applied,
            file=self._path,
            attempts=tuple(self._attempts),
            changes=changes,
            unwritten=unwritten,
            kept=kept,
        )

    def _keep(self, first: FailedStart, candidate: Candidate, applied: Applied) -> str:
        world, cause = self._world, candidate.cause
        subject = subject_of(first.resolved)
        results = applied.verification.results if applied.verification else ()
        repair = KeptRepair(
            deployment=first.resolved.deployment.name,
            cause=cause.kind,
            title=cause.title,
            changes=candidate.changes,
            wish=describe_wish(subject),
            shown_by=tuple(each.text for each in cause.evidence[:_MOST_SHOWN]),
            failed=tuple(each.text for each in self._attempts if each.outcome != "verified"),
            checks=sum(1 for each in results if each.verdict is Verdict.PASSED),
            at_seconds=world.clock.now_seconds(),
            run=applied.converged.run,
        )
        try:
            return keep_worked(world, subject, first.resolved.model, repair)
        except HostError as error:
            self._say(f"what worked was not kept as evidence: {error.summary}")
            return ""

    def _give_up(self, first: FailedStart, stop: Stop) -> ApplyFailed:
        """The first failure, with what was tried and why no more is."""
        lines = [first.error.summary, f"No repair was verified: {stop.text}."]
        lines += [f"    tried: {each.text} ({each.outcome})" for each in self._attempts]
        lines += [f"    by hand: {text}" for text in stop.by_hand[:_MOST_SHOWN]]
        hint = first.error.hint
        if stop.withheld:
            one = stop.withheld[0]
            lines += [
                f"    not without consent: {each.text} ({each.consent})" for each in stop.withheld
            ]
            hint = f"agree to it with --consent {one.names[0] if one.names else one.cause}"
        error = ApplyFailed("\n".join(lines), hint)
        error.__cause__ = first.error.__cause__
        return error

    def _tell_cause(self, failed: FailedStart) -> None:
        causes = failed.diagnosis.causes
        if causes:
            self._say(f"the cause: {causes[0].title}")

    def _say(self, text: str) -> None:
        self._world.reporter.emit(Event(kind=EventKind.NOTE, subject="repair", text=text))

    def _passed(self) -> float:
        return self._world.clock.monotonic_seconds() - self._began


def subject_of(resolved: Resolved) -> Subject:
    """The deployment as descriptions see it, with the settings of its launch."""
    return Subject(
        deployment=resolved.deployment,
        facts=resolved.facts,
        table=resolved.table,
        build=resolved.place.build,
        settings=resolved.launch.settings,
    )


def describe_changes(changes: Mapping[str, Plain]) -> str:
    """The changes in a line: a flag by its name alone."""
    words = (
        f"{key.removeprefix(_SETTINGS)} {'left out' if value is None else value}"
        for key, value in changes.items()
    )
    return ", ".join(words)
