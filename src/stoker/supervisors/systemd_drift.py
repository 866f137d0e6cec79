"""In which places a unit is not what Stoker wrote: pure.

Called by the adapter beside it. Three things can differ from each other: the file, what systemd
has read of it, and the process. Files beside ours that change what it says are a fourth.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.model.launch import Drift, DriftKind
from stoker.supervisors.logs import flatten
from stoker.supervisors.stamps import differing_names
from stoker.supervisors.systemd_answers import LoadedUnit
from stoker.supervisors.systemd_unit import is_untouched, parse_digest

#: Files in here change every service of the machine; they come with distributions, and are not
#: about ours (systemd.unit(5), drop-ins of a whole type of units).
_FOR_ALL_SERVICES = "service.d"


def find_edit(definition: str | None, *, path: str, digest: str) -> Iterator[Drift]:
    """Whether our file at ``path`` is there, as it was written, and the one that is in force."""
    if definition is None:
        sentence = f"{path} is gone"
    elif not is_untouched(definition):
        sentence = f"{path} was edited after Stoker wrote it"
    elif digest and parse_digest(definition) != digest:
        has = parse_digest(definition)
        sentence = f"{path} holds definition {has[:12]}, in force is {digest[:12]}"
    else:
        return
    yield Drift(kind=DriftKind.EDITED, path=path, sentence=sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A unit as it was found.

    ``path``: where our file lies; ``beside``: files that lie where systemd looks for changes to
    it. ``changed_at_seconds``: when one of these was last put there; ``read_at_seconds``: when
    systemd last read all its units, 0 if that is not known. ``edited_at_seconds``: when somebody
    edited our file, None if nobody did. ``unit``: what systemd has read. ``environment``: of the
    process, empty when nothing runs or it cannot be read.
    """

    path: str
    beside: tuple[str, ...]
    changed_at_seconds: float
    read_at_seconds: float
    edited_at_seconds: float | None
    unit: LoadedUnit
    environment: Mapping[str, str]


def find_difference(seen: Seen, *, wanted: Mapping[str, str]) -> Iterator[Drift]:
    """How the file, what systemd has of it, and the process differ from each other.

    ``wanted``: the variables that the service in force gives its process.
    """
    unit, path = seen.unit, seen.path
    if _is_unread(seen):
        sentence = f"systemd has not read {path} since it, or a file beside it, was changed"
        yield Drift(kind=DriftKind.UNREAD, path=path, sentence=sentence)
    added = [each for each in unit.drop_ins if _is_about_ours(each)]
    for each in added:
        sentence = f"{flatten(each)} changes what the unit says"
        yield Drift(kind=DriftKind.ADDED, path=each, sentence=sentence)
    # A file beside ours may set variables too; then what counts is what systemd has of them all.
    given = _parse_environment(unit.environment) if added else wanted
    if _began_after_edit(seen):
        sentence = f"the process was started after {path} had been edited"
        yield Drift(kind=DriftKind.PROCESS, path=path, sentence=sentence)
    elif names := differing_names(seen.environment, given):
        sentence = f"the process was started under another definition: {', '.join(names)} differ"
        yield Drift(kind=DriftKind.PROCESS, path=path, sentence=sentence)


def _is_unread(seen: Seen) -> bool:
    """Whether systemd has in memory something else than lies on the disk.

    systemd itself compares times of modification, so it takes an older file that was put back, its
    time kept, for the one that it has read; and of a new folder beside the file it knows nothing
    until it reads all anew. What does not run may have been read on demand, later than all others,
    and is read anew before it is started.
    """
    is_late = 0 < seen.read_at_seconds < seen.changed_at_seconds
    is_put_back = is_late and not seen.unit.is_ended
    return seen.unit.is_outdated or is_put_back or not set(seen.beside) <= set(seen.unit.drop_ins)


def _began_after_edit(seen: Seen) -> bool:
    """Whether the process runs what somebody else wrote, as far as that can be told."""
    if seen.edited_at_seconds is None or seen.unit.is_outdated or not seen.unit.pid:
        return False
    return seen.unit.began_at_seconds > seen.edited_at_seconds


def _is_about_ours(drop_in: str) -> bool:
    return posixpath.basename(posixpath.dirname(drop_in)) != _FOR_ALL_SERVICES


def _parse_environment(assignments: Sequence[str]) -> dict[str, str]:
    """Variables by name; of a name that is set twice the last counts (systemd.exec(5))."""
    pairs = (assignment.partition("=") for assignment in assignments)
    return {name: value for name, _, value in pairs}
