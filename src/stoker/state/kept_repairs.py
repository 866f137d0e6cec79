"""Keeps repairs that worked, one document for each build, model and kind of GPU."""

from __future__ import annotations

from stoker.errors import NotFound, StateError
from stoker.model.document import parse_document
from stoker.model.kept_repair import KeptRepair, KeptRepairs
from stoker.model.layout import kept_repairs_folder, kept_repairs_path
from stoker.model.plan import Folders
from stoker.model.units import canonical_json, digest_text
from stoker.ports import Host, ReadableHost
from stoker.state.documents import write_document

#: Repairs that one document keeps: the newest.
MOST_REPAIRS = 8
#: Many times what so many take.
LIMIT_BYTES = 1 << 18


def read_kept_repairs(host: ReadableHost, folders: Folders, wanted: KeptRepairs) -> KeptRepairs:
    """What is kept for ``wanted``; itself, without repairs, where nothing is.

    Raises HostError, or StateError for a document that is damaged or of something else.
    """
    path = _path(folders, wanted)
    try:
        stat = host.stat(path)
        if stat is None:
            return wanted
        if stat.kind != "file" or stat.size_bytes > LIMIT_BYTES:
            raise _strange(path)
        found = parse_document(host.read_text(path, LIMIT_BYTES), KeptRepairs, origin=path)
    except NotFound:
        return wanted
    if _identity(found) != _identity(wanted) or len(found.repairs) > MOST_REPAIRS:
        raise _strange(path)
    return found


def keep_repair(host: Host, folders: Folders, kept: KeptRepairs, repair: KeptRepair) -> str:
    """Put a repair before those that are kept, and return the document's path. Raises HostError.

    An earlier one for the same wish and the same cause goes, and so does the oldest of too many.
    """
    others = (
        each
        for each in kept.repairs
        if (each.cause, dict(each.wish)) != (repair.cause, dict(repair.wish))
    )
    made = KeptRepairs(
        engine=kept.engine,
        release=kept.release,
        model=kept.model,
        gpu=kept.gpu,
        repairs=(repair, *others)[:MOST_REPAIRS],
    )
    path = _path(folders, kept)
    host.make_folder(kept_repairs_folder(folders), 0o700)
    write_document(host, path, made)
    return path


def _path(folders: Folders, kept: KeptRepairs) -> str:
    return kept_repairs_path(folders, digest_text(canonical_json(_identity(kept)))[:16])


def _strange(path: str) -> StateError:
    return StateError(
        f"{path} is not what Stoker wrote there", "remove it; the next repair makes a new one"
    )


def _identity(kept: KeptRepairs) -> list[str]:
    return [kept.engine, kept.release, kept.model, kept.gpu]
