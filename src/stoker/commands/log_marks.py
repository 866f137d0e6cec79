"""Where in a service's log its newest start began.

A log goes on over restarts; without a mark, the lines of an earlier start would be taken for
this one's progress. Used while a plan is activated.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.commands.world import World
from stoker.errors import HostError

#: Only the end of a log is read.
TAIL_BYTES = 64 << 10


class LogMarks:
    """Marks by service name; a service without a mark is read from the tail of its log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marks: dict[str, int] = {}

    def mark(self, name: str) -> None:
        """Remember where the log ends now."""
        self._marks[name] = self._size_bytes(name)

    def lines_since(self, name: str) -> Sequence[str]:
        """The lines that came after the mark, at most the tail of the log."""
        size_bytes, mark = self._size_bytes(name), self._marks.get(name, 0)
        begin = mark if mark <= size_bytes else 0  # the log was rotated since
        return read_tail(self._world, name, begin=begin)

    def _size_bytes(self, name: str) -> int:
        try:
            stat = self._world.host.stat(self._world.supervisor.log_path(name))
        except HostError:
            return 0
        return stat.size_bytes if stat else 0


def read_tail(world: World, name: str, *, begin: int = 0) -> Sequence[str]:
    """The last lines of a service's log, from byte ``begin`` on; none if it cannot be read."""
    path = world.supervisor.log_path(name)
    try:
        stat = world.host.stat(path)
        if stat is None:
            return ()
        offset = max(begin, stat.size_bytes - TAIL_BYTES)
        text = world.host.read_bytes(path, offset, TAIL_BYTES).decode("utf-8", "replace")
    except HostError:
        return ()
    return text.splitlines()
