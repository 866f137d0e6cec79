"""Changing files so that a crash at any instant leaves the old content or the new, whole.

Called by :mod:`stoker.hosts.local` alone, which turns what these functions raise (OSError) into
the errors of the hierarchy. Never follows a link at the path that it replaces.
"""

from __future__ import annotations

import errno
import os
import pwd
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from stoker.errors import HostError
from stoker.ports import TEMPORARY_SUFFIX

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a named pipe fails instead of waiting for a reader.
_OLD_FILE = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OWNER_ONLY = 0o700
_FOR_ALL = 0o755

#: A path with fewer parts than this is nobody's folder to remove ("/home/ann").
_FEWEST_PARTS = 3


def replace_file(path: str, content: bytes, *, mode: int, owner: str) -> None:
    """Put a whole new file at ``path``: temporary file, flush, rename, flush of the folder.

    A device, a pipe or a socket stays: its name is not given to a file.
    """
    folder, name = os.path.split(path)
    _refuse_special(path)
    make_folders(folder or ".")
    with _opened(folder or ".", _FOLDER) as descriptor, ExitStack() as undo:
        temporary = f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        undo.callback(_discard, temporary, descriptor)
        _write_new(temporary, content, folder=descriptor, mode=mode, owner=owner)
        os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        undo.pop_all()
        _flush(descriptor)


def _refuse_special(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # what stands in the way, if anything does, is told by the writing itself
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
        raise FileExistsError(errno.EEXIST, "there is something that is not a file", path)


def append_file(path: str, content: bytes, *, mode: int) -> None:
    """Add to the end of a file and flush it; ``mode`` is for a file that has to be made."""
    folder, name = os.path.split(path)
    make_folders(folder or ".")
    with _opened(folder or ".", _FOLDER) as place:
        try:
            with _opened(name, _NEW_FILE, place) as descriptor:
                os.fchmod(descriptor, mode)
                _fill(descriptor, content)
            _flush(place)
        except FileExistsError:
            with _opened(name, _OLD_FILE, place) as descriptor:
                _fill(descriptor, content)


def make_folders(path: str, mode: int | None = None) -> None:
    """Make a folder and its missing parents; what exists stays as it is.

    New folders are private below a private folder and open to all elsewhere; ``mode`` is for the
    last of them alone. The modes are set whatever the umask is.
    """
    missing, private = _missing_folders(path)
    usual = _OWNER_ONLY if private else _FOR_ALL
    for folder in missing:
        wanted = mode if mode is not None and folder == path else usual
        _make_folder(folder, wanted)
    if not missing and not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, "there is something that is not a folder", path)


def make_folder_for(path: str, mode: int, *, owner: str) -> None:
    """Make a folder that belongs to another user from its first moment; one that exists stays.

    It gets its name last, so that a crash leaves no folder behind that its user cannot use.
    Raises HostError for a link or anything else at ``path``.
    """
    user, group = find_user(owner)
    place, name = os.path.split(path.rstrip("/"))
    make_folders(place or ".")
    with _opened(place or ".", _FOLDER) as parent, ExitStack() as undo:
        if _is_folder(name, parent, path=path):
            return
        temporary = f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        os.mkdir(temporary, _OWNER_ONLY, dir_fd=parent)
        undo.callback(_discard_folder, temporary, parent)
        with _opened(temporary, _FOLDER | os.O_NOFOLLOW, parent) as descriptor:
            os.fchown(descriptor, user, group)
            os.fchmod(descriptor, mode)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        undo.pop_all()
        _flush(parent)


def set_mode(path: str, mode: int) -> None:
    """Give a file or folder these permission bits. Raises HostError for a link."""
    with _opened(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise HostError(f"{path} is a link, so its permissions were left alone")
        # By its descriptor, so that nobody can put a link there between the look and the change;
        # through /proc, because a descriptor that needs no permission to open cannot do it.
        os.chmod(f"/proc/self/fd/{descriptor}", mode)


def remove_file(path: str) -> None:
    """Remove a file or a link, and flush its folder; nothing happens when it is not there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
        flush_folder(os.path.dirname(path) or ".")


def remove_tree(path: str) -> None:
    """Remove a folder with all that is in it; nothing happens when it is not there.

    Links in it are removed, never followed. Raises HostError for a path that is a link, a file,
    or too near to the root to be anybody's own.
    """
    parts = path.split("/")
    names = [part for part in parts if part not in ("", ".")]
    if not path.startswith("/") or ".." in names or len(names) < _FEWEST_PARTS:
        raise HostError(
            f"{path} will not be removed: only an absolute path of at least "
            f"{_FEWEST_PARTS} parts, without .., may be"
        )
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(found.st_mode):
        raise HostError(f"{path} is not a folder, so it was not removed")
    shutil.rmtree(path)
    flush_folder(os.path.dirname(path.rstrip("/")))


def flush_folder(path: str) -> None:
    """Make the names in a folder survive a crash."""
    with _opened(path, _FOLDER) as descriptor:
        _flush(descriptor)


def find_user(owner: str) -> tuple[int, int]:
    """User and group number of a user name, or of a user number that has no name.

    The group is -1 (leave it) for a number without a name. Raises HostError for an unknown name.
    """
    try:
        entry = pwd.getpwnam(owner)
    except KeyError:
        if owner.isascii() and owner.isdigit():
            return int(owner), -1
        raise HostError(
            f"there is no user {owner} on this host", "create the user, or name another one"
        ) from None
    return entry.pw_uid, entry.pw_gid


def _write_new(name: str, content: bytes, *, folder: int, mode: int, owner: str) -> None:
    with _opened(name, _NEW_FILE, folder) as descriptor:
        # Owner and mode come before the content, so that a secret is never readable by others
        # for an instant; the owner first, because changing it clears mode bits.
        if owner:
            os.fchown(descriptor, *find_user(owner))
        os.fchmod(descriptor, mode)
        _fill(descriptor, content)


def _fill(descriptor: int, content: bytes) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise HostError("only a file can be added to, and this is something else")
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _discard(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _discard_folder(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=folder)


def _is_folder(name: str, parent: int, *, path: str) -> bool:
    """Whether a folder is there, False for nothing. Raises HostError for anything else."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise HostError(
            f"could not make the folder {path}: a link or a file is there",
            "see who put it there, and remove it",
        )
    return True


def _missing_folders(path: str) -> tuple[list[str], bool]:
    """The folders to make, outermost first, and whether the nearest existing one is private."""
    missing: list[str] = []
    while True:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            missing.append(path)
            path = os.path.dirname(path.rstrip("/")) or "."
        else:
            return missing[::-1], stat.S_IMODE(mode) == _OWNER_ONLY


def _make_folder(path: str, mode: int) -> None:
    try:
        os.mkdir(path, _OWNER_ONLY)
    except FileExistsError:
        # Somebody else was faster, which is well if it is a folder; a dangling link is not.
        if not os.path.isdir(path):
            raise
        return
    os.chmod(path, mode)
    flush_folder(os.path.dirname(path.rstrip("/")) or ".")


@contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    """An open file; a new one is for its owner alone until somebody says otherwise."""
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flush(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some network file systems know no flush of a folder and say so; there is nothing to do.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
