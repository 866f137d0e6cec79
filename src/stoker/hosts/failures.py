"""What the operating system refused, as one sentence that names the path and what to do.

Called by the host adapters around every system call on a path. Knows no policy and reads nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.errors import AccessDenied, HostError, NoSpace, NotFound

_GONE = {errno.ENOENT, errno.ESRCH}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def naming(path: str, deed: str) -> Iterator[None]:
    """Turn whatever the system says about ``path`` into a HostError.

    ``deed`` completes "may not": read, write, enter. ValueError is what Python says of a path
    that no system call can take (a NUL byte in it).
    """
    try:
        yield
    except OSError as error:
        raise explain(error, path=path, deed=deed) from error
    except ValueError as error:
        raise HostError(f"{path!r} cannot be a path: {error}") from error


def explain(error: OSError, *, path: str, deed: str) -> HostError:
    """The error of the hierarchy that says what the system said."""
    code = error.errno
    if code in _GONE:
        return NotFound(f"{path} does not exist")
    if code == errno.ENOTDIR:
        return NotFound(f"{path} does not exist: a part of the path is not a folder")
    if code in _FULL:
        return _explain_full(code, path)
    if code in _REFUSED:
        return _explain_refusal(code, path, deed)
    return HostError(f"could not {deed} {path}: {error.strerror or error}")


def _explain_full(code: int | None, path: str) -> HostError:
    if code == errno.EDQUOT:
        return NoSpace(
            f"the disk quota of this user is used up, {path} was not written",
            "free some space or raise the quota, then run the command again",
        )
    return NoSpace(
        f"there is no space left to write {path}",
        f"free some space on its file system (see `df -h` for {path}), then run the command again",
    )


def _explain_refusal(code: int | None, path: str, deed: str) -> HostError:
    if code == errno.EROFS:
        return AccessDenied(
            f"{path} is on a file system that is mounted read-only",
            "mount it writable, or choose a path on another file system",
        )
    return AccessDenied(
        f"this user may not {deed} {path}",
        f"see who may with `namei -l {path}`, then run as that user or grant the access",
    )
