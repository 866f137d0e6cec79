"""The write-ahead journal of a run: what is about to happen is on the disk before it happens.

One JSON entry a line, in order, flushed each time; before-images lie beside it by digest. The
executor writes it; recovery, roll-back and reports read it. An entry is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stoker.errors import NotFound, StateError
from stoker.model.document import parse_document, render_document, render_line
from stoker.model.facts import Plain
from stoker.model.layout import (
    image_path,
    journal_path,
    reserve_path,
    run_folder,
    run_plan_path,
    runs_folder,
)
from stoker.model.plan import Folders, Image, Plan
from stoker.model.run import Entry, EntryPhase, Outcome
from stoker.ports import Clock, Host, ReadableHost

#: A journal is a few entries; a larger file is not one of ours.
LIMIT_BYTES = 16 << 20
#: Set aside at the beginning of a run: the entries of a roll-back and the files that it restores
#: are a few KiB each, and a disk that is full must not stand in the way of them.
RESERVE_BYTES = 256 << 10


class Journal:
    """The journal of one run, open for writing."""

    def __init__(self, host: Host, clock: Clock, folders: Folders, run: str) -> None:
        self._host = host
        self._clock = clock
        self._folders = folders
        self._sequence = len(read_entries(host, folders, run))
        self.run = run
        #: Off while rolling back: the oldest image of a file is the one that counts, so no later
        #: one is needed, and a full disk needs no room for it.
        self.keeps_images = True
        #: Titles of processes that this run has ended and no roll-back brings back.
        self.lost: tuple[str, ...] = ()

    def append(
        self,
        phase: EntryPhase,
        subject: str,
        *,
        before: Image | None = None,
        details: Mapping[str, Plain] | None = None,
    ) -> None:
        """Write one entry; it is on the disk when this returns. Raises HostError."""
        entry = Entry(
            sequence=self._sequence,
            run=self.run,
            host=self._host.name,
            phase=phase,
            subject=subject,
            at_seconds=self._clock.now_seconds(),
            before=before,
            details=details or {},
        )
        line = render_line(entry)
        self._host.append_file(journal_path(self._folders, self.run), line.encode(), 0o600)
        self._sequence += 1

    def keep_image(self, path: str, image: Image | None) -> Image | None:
        """Keep the file at ``path`` as it is now beside the journal, before it is replaced.

        Returns the image with the place of its content in ``source_path``. Raises HostError.
        """
        if image is None or not self.keeps_images:
            return image and replace(image, content=None)
        kept = image_path(self._folders, self.run, image.digest)
        if self._host.stat(kept) is None:
            content = self._host.read_bytes(path, 0, LIMIT_BYTES)
            self._host.write_file(kept, content, 0o600)
        return replace(image, content=None, source_path=kept)

    def drop_image(self, digest: str) -> None:
        """Remove a kept image that nothing will be rolled back to any more."""
        self._host.remove_file(image_path(self._folders, self.run, digest))

    def free_reserve(self) -> None:
        """Give back the room that was set aside, so that a full disk can be rolled back."""
        self._host.remove_file(reserve_path(self._folders, self.run))

    def end(self, outcome: Outcome, detail: str = "") -> None:
        """Close the run."""
        details = {"outcome": outcome.value, "detail": detail}
        self.append(EntryPhase.ENDED, "run", details=details)
        self.free_reserve()


def open_journal(host: Host, clock: Clock, folders: Folders, *, run: str, plan: Plan) -> Journal:
    """Begin a run: its plan first, then the entry that makes it count. Raises HostError."""
    path = run_plan_path(folders, run)
    host.write_file(path, render_document(plan).encode(), 0o600)
    host.write_file(reserve_path(folders, run), bytes(RESERVE_BYTES), 0o600)
    journal = Journal(host, clock, folders, run)
    details = {"verb": plan.verb, "name": plan.name, "plan": plan.id}
    journal.append(EntryPhase.OPENED, "run", details=details)
    return journal


def read_entries(host: ReadableHost, folders: Folders, run: str) -> tuple[Entry, ...]:
    """The entries of a run, in order.

    A last line that was cut short by a crash does not count: its effect had not begun. Raises
    StateError when anything else is malformed.
    """
    path = journal_path(folders, run)
    try:
        text = host.read_bytes(path, 0, LIMIT_BYTES).decode("utf-8", "replace")
    except NotFound:
        return ()
    lines = text.split("\n")[:-1]
    try:
        return tuple(parse_document(line, Entry, origin=path) for line in lines)
    except StateError as error:
        raise StateError(
            f"the journal of run {run} cannot be read: {error.summary}",
            f"look at it and at {run_folder(folders, run)}/plan.json; Stoker will not guess",
        ) from error


def read_run_plan(host: ReadableHost, folders: Folders, run: str) -> Plan:
    """The plan that a run executes. Raises HostError or StateError."""
    path = run_plan_path(folders, run)
    if host.stat(path) is None:
        raise StateError(
            f"run {run} was cut short and its plan {path} is gone: it cannot be rolled back",
            f"put the host right by hand, then move {run_folder(folders, run)} away",
        )
    text = host.read_bytes(path, 0, LIMIT_BYTES).decode("utf-8", "replace")
    return parse_document(text, Plan, origin=path)


def list_runs(host: ReadableHost, folders: Folders) -> tuple[str, ...]:
    """All runs, oldest first: their names begin with a number that only grows."""
    try:
        names = host.list_folder(runs_folder(folders))
    except NotFound:
        return ()
    return tuple(sorted((name for name in names if run_number(name) >= 0), key=run_number))


def run_number(name: str) -> int:
    """The number that the name of a run begins with, -1 for another name."""
    digits = name.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else -1


def unfinished_runs(host: ReadableHost, folders: Folders) -> tuple[str, ...]:
    """Runs that were begun and not closed, oldest first. Raises HostError or StateError.

    Every verb recovers before it begins a run of its own, so all runs before the newest closed
    one are closed too; a run without entries never began.
    """
    found: list[str] = []
    for run in reversed(list_runs(host, folders)):
        entries = read_entries(host, folders, run)
        if entries and entries[-1].phase is EntryPhase.ENDED:
            break
        if entries:
            found.append(run)
    return tuple(reversed(found))


def is_complete(entries: tuple[Entry, ...], plan: Plan) -> bool:
    """Whether everything of the plan was done and only the closing entry is missing."""
    if any(entry.phase is EntryPhase.ROLLING_BACK for entry in entries):
        return False
    done = [entry.subject for entry in entries if entry.phase is EntryPhase.DONE]
    return len(done) == len(plan.changes) + len(plan.activations)
