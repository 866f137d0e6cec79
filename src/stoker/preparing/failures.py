"""Failures of a preparation in words: one sentence, and what to do.

Called around every effect of a preparation. Pure, except that it is a context manager; it never
swallows anything.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.errors import HostError, PreparationFailed
from stoker.model.addresses import hide_login
from stoker.model.units import format_bytes
from stoker.ports import ReadableHost

FULL_DISK_HINT = "free some space there, or choose a folder on another file system"


@contextmanager
def naming_failure(deed: str) -> Iterator[None]:
    """Turn what the host or the operating system refuses into "``deed`` failed: why"."""
    try:
        yield
    except HostError as error:
        raise PreparationFailed(f"{deed} failed: {error.summary}", error.hint) from error
    except OSError as error:
        hint = FULL_DISK_HINT if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        reason = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        raise PreparationFailed(f"{deed} failed: {where}{reason}", hint) from error


def require_space(host: ReadableHost, folder: str, needed_bytes: int) -> None:
    """Raise PreparationFailed when so many bytes do not fit where ``folder`` is or will be."""
    free_bytes = host.free_bytes(folder)
    if free_bytes < needed_bytes:
        raise PreparationFailed(
            f"{folder} needs {format_bytes(needed_bytes)}, "
            f"but only {format_bytes(free_bytes)} are free on its file system",
            FULL_DISK_HINT,
        )


def hide_credentials(text: str) -> str:
    """The text without the user and password of any address in it."""
    return hide_login(text)


def last_line(text: str) -> str:
    """The last line of a program's output that says something, without credentials."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return hide_credentials(lines[-1]) if lines else "it said nothing"
