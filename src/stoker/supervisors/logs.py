"""Logs of services that a manager only ever adds to, and logs that managers write themselves.

Called by the adapters of this package. Where a manager opens a service's log by itself and
rotates nothing, that is done here before the service is started. A service that the manager
starts again by itself goes on in the same file: nobody is asked at that moment.
"""

from __future__ import annotations

import re

from stoker.errors import HostError
from stoker.ports import Host, ReadableHost

#: A log as large as that gives way to a new one, and so many old ones stay: what supervisord does.
LARGEST_BYTES = 50 << 20
KEPT_COUNT = 3
#: How much of a manager's own log is looked through for one of its services.
_TAIL_BYTES = 1 << 18


def rotate_log(host: Host, path: str, *, largest_bytes: int = LARGEST_BYTES) -> None:
    """Rename a log that is too large to ``path.1``, and older ones each to the next number.

    A process that still has it open goes on writing to it under its new name. Raises HostError.
    """
    found = host.stat(path)
    if found is None or found.kind != "file" or found.size_bytes <= largest_bytes:
        return
    # From the oldest on: whenever this is cut short, no two of them have the same name.
    for number in range(KEPT_COUNT - 1, 0, -1):
        if host.stat(f"{path}.{number}") is not None:
            host.rename(f"{path}.{number}", f"{path}.{number + 1}")
    host.rename(path, f"{path}.1")


def read_lines_about(
    host: ReadableHost, path: str, name: str, *, line_count: int
) -> tuple[str, ...]:
    """The last lines of a manager's own log that name a service, without control characters."""
    try:
        found = host.stat(path)
        begin = max(0, found.size_bytes - _TAIL_BYTES) if found else 0
        text = host.read_bytes(path, begin, _TAIL_BYTES).decode("utf-8", "replace")
    except HostError:
        return ()
    is_about = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
    lines = [flatten(line) for line in text.splitlines() if is_about.search(line)]
    return tuple(lines[-line_count:]) if line_count > 0 else ()


def flatten(text: str) -> str:
    """One line of visible characters, whatever somebody else put into it."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
