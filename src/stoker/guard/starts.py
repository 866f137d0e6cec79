"""How long earlier starts took: what the guard remembers between its lives.

:mod:`stoker.guard.run` reads it before a start and adds to it after one that ended ready. It is
an estimate: a file that cannot be read or written is no reason to stop.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from stoker.guard.status import write_whole
from stoker.model.document import render_document
from stoker.model.facts import Plain
from stoker.model.generation import Start, Starts

#: The newest ones only: a machine gets faster disks, and an engine slower kernels.
KEPT = 10
#: A file of ours is far smaller; this is somebody else's.
_LIMIT_BYTES = 1 << 16


def read_starts(path: str | None, name: str) -> Starts:
    """What is remembered; nothing where it cannot be read."""
    if path is None:
        return Starts(name=name)
    try:
        # Not followed and not waited for: whatever lies there may have been put by the engine.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8") as file:
            data = json.loads(file.read(_LIMIT_BYTES))
        return Starts(name=name, starts=tuple(_parse_start(item) for item in data["starts"]))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return Starts(name=name)


def _parse_start(item: Plain) -> Start:
    # json.loads hands out plain values alone, so these can only raise what the caller expects.
    return Start(
        digest=str(item["digest"]),
        model=str(item["model"]),
        seconds=float(item["seconds"]),
        at_seconds=float(item["at_seconds"]),
    )


def remember_start(path: str | None, starts: Starts, start: Start) -> None:
    """Add one start; nothing happens where it cannot be written."""
    if path is None:
        return
    kept = Starts(name=starts.name, starts=(*starts.starts, start)[-KEPT:])
    with suppress(OSError):
        write_whole(path, render_document(kept))
