"""The status document: where a guard stands, for supervisors that are sent no notifications.

:mod:`stoker.guard.run` writes it; whoever shows the status of a service reads it, and must believe
it only if its process is the one that runs. It is replaced whole, so that no reader sees half of
it; it is not flushed to the disk, since it means nothing after a crash of the machine.
"""

from __future__ import annotations

import os
from contextlib import suppress

from stoker.guard.words import GuardStatus
from stoker.model.document import render_document
from stoker.ports import TEMPORARY_SUFFIX

_MODE = 0o644


def write_status(path: str, status: GuardStatus) -> None:
    """Replace the document. Raises OSError if it cannot be written."""
    write_whole(path, render_document(status))


def write_whole(path: str, text: str) -> None:
    """Replace a file of the guard's own in one step. Raises OSError if it cannot be written."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}{TEMPORARY_SUFFIX}")
    # The engine may write in this folder too: whatever it put in this place, a pipe above all,
    # must not be opened.
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, _MODE)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(temporary, path)
