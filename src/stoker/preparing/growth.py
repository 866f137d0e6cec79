"""Progress seen from outside: how many bytes lie in the folders that a child fills.

Called twice a second while pip or the hub's client runs. It only reads, and gives up on a child
that brings nothing any more.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from stoker.errors import AccessDenied, NotFound, PreparationFailed
from stoker.model.event import EventKind
from stoker.model.units import format_bytes
from stoker.ports import ReadableHost
from stoker.preparing.tools import Tools, tell

#: A look at the folders takes at most this part of the time: a big environment has many files.
_SHARE_OF_TIME = 0.1


def measure_bytes(host: ReadableHost, path: str) -> int:
    """The size of what lies in a folder right now; what vanishes meanwhile counts as nothing."""
    try:
        found = host.stat(path)
        if found is None:
            return 0
        if found.kind != "folder":
            return found.size_bytes
        names = host.list_folder(path)
    except (NotFound, AccessDenied):
        return 0
    return sum(measure_bytes(host, posixpath.join(path, name)) for name in names)


def watch_growth(
    tools: Tools,
    subject: str,
    *,
    title: str,
    folders: tuple[str, ...],
    expected_bytes: int,
    patience_seconds: float,
) -> Callable[[], None]:
    """A ``poll`` for :meth:`stoker.ports.Host.run` that reports how the folders grow.

    ``expected_bytes`` is what they will gain in all, 0 when nobody knows. The poll raises
    PreparationFailed, which ends the child, when nothing changed for ``patience_seconds``.
    """
    start_bytes = latest_bytes = most_bytes = _measure_all(tools.host, folders)
    changed_at = look_at = tools.clock.monotonic_seconds()

    def poll() -> None:
        nonlocal latest_bytes, most_bytes, changed_at, look_at
        now = tools.clock.monotonic_seconds()
        if now < look_at:
            return
        found_bytes = _measure_all(tools.host, folders)
        look_at = now + (tools.clock.monotonic_seconds() - now) / _SHARE_OF_TIME
        if found_bytes != latest_bytes:
            latest_bytes, changed_at = found_bytes, now
        elif now - changed_at > patience_seconds:
            raise _say_stalled(title, patience_seconds)
        # What was downloaded is deleted once it is installed; progress never goes back.
        most_bytes = max(most_bytes, found_bytes)
        tell_bytes(
            tools,
            subject,
            title=title,
            done_bytes=most_bytes - start_bytes,
            of_bytes=expected_bytes,
        )

    return poll


def tell_bytes(tools: Tools, subject: str, *, title: str, done_bytes: int, of_bytes: int) -> None:
    """Emit one progress event; without a fraction when the whole (``of_bytes``) is not known."""
    text = f"{title}: {format_bytes(done_bytes)}"
    fraction = None
    if of_bytes > 0:
        done_bytes = min(done_bytes, of_bytes)
        text = f"{title}: {format_bytes(done_bytes)} of {format_bytes(of_bytes)}"
        fraction = done_bytes / of_bytes
    tell(tools, EventKind.PROGRESS, subject, text=text, fraction=fraction)


def _measure_all(host: ReadableHost, folders: tuple[str, ...]) -> int:
    return sum(measure_bytes(host, folder) for folder in folders)


def _say_stalled(title: str, patience_seconds: float) -> PreparationFailed:
    return PreparationFailed(
        f"{title}: nothing came for {patience_seconds:.0f} seconds, so it was stopped",
        "see whether the network still works, then run the command again; what is complete is kept",
    )
