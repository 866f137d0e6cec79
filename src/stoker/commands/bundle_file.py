"""The archive of a bundle: written the same for the same parts, read without trust.

Called by :mod:`stoker.commands.bundle`. An archive of a stranger may name files outside of itself,
hold links and devices, or unpack to more than a disk holds: it is never unpacked to a disk, and
what is not a plain file with a plain name ends the reading.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Mapping

from stoker.errors import UsageError

#: Of a whole archive, unpacked: many times what Stoker packs.
MOST_UNPACKED_BYTES = 64 << 20
_MOST_FILES = 400
_NAME = re.compile(r"[A-Za-z0-9<][A-Za-z0-9._<>-]*(?:/[A-Za-z0-9<][A-Za-z0-9._<>-]*){0,5}\Z")


def pack(top: str, parts: Mapping[str, bytes]) -> bytes:
    """A ``.tar.gz`` with these files below one folder; nothing in it depends on time or user."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(parts):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(parts[name]), 0o600
            archive.addfile(entry, io.BytesIO(parts[name]))
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)


def unpack(content: bytes, origin: str) -> dict[str, bytes]:
    """The files of an archive by their names below its one folder.

    Raises UsageError for what is no such archive, and for one that is made to do harm.
    """
    raw = _decompress(content, origin)
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
            return _read_all(archive, origin)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _strange(origin, f"it is no whole archive ({error})") from None


def _read_all(archive: tarfile.TarFile, origin: str) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    for entry in archive:
        if entry.isdir():
            continue
        name = _check(entry, origin, count=len(parts))
        file = archive.extractfile(entry)
        if file is None or name in parts:
            raise _strange(origin, f"{entry.name} stands in it twice or cannot be read")
        parts[name] = file.read()
    return parts


def _decompress(content: bytes, origin: str) -> bytes:
    """All of it, as long as it stays within bounds."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            raw = file.read(MOST_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _strange(origin, f"it is no whole .tar.gz ({error})") from None
    if len(raw) > MOST_UNPACKED_BYTES:
        raise _strange(origin, f"it unpacks to more than {MOST_UNPACKED_BYTES >> 20} MiB")
    return raw


def _check(entry: tarfile.TarInfo, origin: str, *, count: int) -> str:
    if not entry.isreg() or entry.sparse:
        raise _strange(origin, f"{entry.name} in it is no plain file")
    if count >= _MOST_FILES:
        raise _strange(origin, f"it holds more than {_MOST_FILES} files")
    _, _, name = entry.name.partition("/")
    if not _NAME.match(name) or ".." in name:
        raise _strange(origin, f"{entry.name!r} in it is no name of a bundle's file")
    return name


def _strange(origin: str, why: str) -> UsageError:
    return UsageError(f"{origin} is not a bundle of Stoker's: {why}", "`stoker bundle` writes one")
