"""Keeps what starts of engines found, one document for each build, model and kind of GPU.

The key is what no difference carries over: another release computes otherwise, another model has
other dimensions, and another GPU has another amount of memory that no program sees. Everything
else is a condition of a single start (:mod:`stoker.capacity.correction` weighs them).
"""

from __future__ import annotations

import posixpath

from stoker.errors import NotFound, StateError
from stoker.model.capacity_start import CapacityStart, CapacityStarts
from stoker.model.document import parse_document
from stoker.model.layout import capacity_starts_folder, capacity_starts_path
from stoker.model.plan import Folders
from stoker.model.units import canonical_json, digest_text
from stoker.ports import Host, ReadableHost
from stoker.state.documents import write_document

#: Starts that one document keeps, and documents that the folder keeps: the newest of each.
MOST_STARTS, MOST_DOCUMENTS = 8, 64
#: Many times what so many starts take.
LIMIT_BYTES = 1 << 18
_SUFFIX = ".json"


def find_key(wanted: CapacityStarts) -> str:
    """The name of the document for this build, model and kind of GPU."""
    return digest_text(canonical_json(_identity(wanted)))[:16]


def read_capacity_starts(
    host: ReadableHost, folders: Folders, wanted: CapacityStarts
) -> CapacityStarts:
    """What is kept for ``wanted``; itself, without starts, where nothing is.

    Raises HostError, or StateError for a document that is damaged or of something else.
    """
    path = capacity_starts_path(folders, find_key(wanted))
    try:
        stat = host.stat(path)
        if stat is None:
            return wanted
        if stat.kind != "file" or stat.size_bytes > LIMIT_BYTES:
            raise _strange(path)
        found = parse_document(host.read_text(path, LIMIT_BYTES), CapacityStarts, origin=path)
    except NotFound:
        return wanted
    if _identity(found) != _identity(wanted) or len(found.starts) > MOST_STARTS:
        raise _strange(path)
    return found


def keep_capacity_start(
    host: Host, folders: Folders, kept: CapacityStarts, start: CapacityStart
) -> str:
    """Put a start before those that are kept, and return the document's path. Raises HostError.

    An earlier one under the same conditions goes, and so does the oldest of too many.
    """
    others = (each for each in kept.starts if each.conditions != start.conditions)
    starts = (start, *others)[:MOST_STARTS]
    made = CapacityStarts(
        engine=kept.engine, release=kept.release, model=kept.model, gpus=kept.gpus, starts=starts
    )
    path = capacity_starts_path(folders, find_key(kept))
    host.make_folder(capacity_starts_folder(folders), 0o700)
    write_document(host, path, made)
    _remove_oldest(host, folders)
    return path


def _remove_oldest(host: Host, folders: Folders) -> None:
    folder = capacity_starts_folder(folders)
    names = [name for name in host.list_folder(folder) if name.endswith(_SUFFIX)]
    if len(names) <= MOST_DOCUMENTS:
        return
    stats = {
        posixpath.join(folder, name): host.stat(posixpath.join(folder, name)) for name in names
    }
    files = {path: stat.changed_ns for path, stat in stats.items() if stat and stat.kind == "file"}
    for path in sorted(files, key=lambda each: files[each])[: len(names) - MOST_DOCUMENTS]:
        host.remove_file(path)


def _strange(path: str) -> StateError:
    return StateError(
        f"{path} is not what Stoker wrote there", "remove it; the next start makes a new one"
    )


def _identity(starts: CapacityStarts) -> list[object]:
    return [starts.engine, starts.release, starts.model, list(starts.gpus)]
