"""In which places a program of supervisord is not what Stoker wrote: pure.

Called by the adapter beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker.model.launch import Drift, DriftKind
from stoker.supervisors.stamps import DIGEST, differing_names
from stoker.supervisors.supervisord_files import is_untouched, parse_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A program as it was found.

    ``definition``: the text at ``path``, None if there is none. ``unread``: why the daemon does
    not go by it, empty if it does or does not run. ``environment``: of the process, empty when
    nothing runs or it cannot be read.
    """

    path: str
    definition: str | None
    unread: str
    environment: Mapping[str, str]


def find_drift(seen: Seen, *, wanted: Mapping[str, str]) -> tuple[Drift, ...]:
    """How it differs; ``wanted`` are the variables that the service in force gives its process."""
    edit = tuple(_find_edit(seen, wanted[DIGEST]))
    return (*edit, *_find_difference(seen, wanted, is_edited=bool(edit)))


def _find_edit(seen: Seen, digest: str) -> Iterator[Drift]:
    if seen.definition is None:
        sentence = f"{seen.path} is gone"
    elif not is_untouched(seen.definition):
        sentence = f"{seen.path} was edited after Stoker wrote it"
    elif (has := parse_digest(seen.definition)) != digest:
        sentence = f"{seen.path} holds definition {has[:12]}, in force is {digest[:12]}"
    else:
        return
    yield Drift(kind=DriftKind.EDITED, path=seen.path, sentence=sentence)


def _find_difference(seen: Seen, wanted: Mapping[str, str], *, is_edited: bool) -> Iterator[Drift]:
    names = differing_names(seen.environment, wanted)
    if names:
        sentence = f"the process was started under another definition: {', '.join(names)} differ"
        yield Drift(kind=DriftKind.PROCESS, path=seen.path, sentence=sentence)
    if not seen.unread:
        return
    # A daemon takes up the file of a running program only with a restart of that, and a new guard
    # is no reason for one. What was edited will most likely be written again as it was taken up.
    is_waiting = bool(seen.environment) and not is_edited
    kind = DriftKind.PENDING if is_waiting else DriftKind.UNREAD
    until = "; it will with the next start" if is_waiting else ""
    yield Drift(kind=kind, path=seen.path, sentence=f"{seen.path}: {seen.unread}{until}")
