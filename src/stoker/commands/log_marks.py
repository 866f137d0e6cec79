"""Where in a service's log its newest start began.

A log goes on over restarts; without a mark, the lines of an earlier start would be taken for
this one's progress. Used while a plan is activated. Of a start that failed the log is kept in
the run's folder: a roll-back may forget the service and its log with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.commands.world import World
from stoker.errors import HostError
from stoker.model.layout import engine_log_path, failed_verification_path
from stoker.state.documents import read_verification, write_document

#: Only the end of a log is read.
TAIL_BYTES = 64 << 10
#: Of a start that failed more is read and kept: its first error may stand far from the end.
START_BYTES = 2 << 20


class LogMarks:
    """Marks by service name; a service without a mark is read from the tail of its log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marks: dict[str, int] = {}

    def mark(self, name: str) -> None:
        """Remember where the log ends now."""
        self._marks[name] = self._size_bytes(name)

    def lines_since(self, name: str) -> Sequence[str]:
        """The lines that came after the mark, at most START_BYTES of them."""
        return self._read_since(name).decode("utf-8", "replace").splitlines()

    def keep(self, name: str, run: str) -> str:
        """Copy what came after the mark into the folder of ``run``, and return the copy's path.

        The first failure of a run is its cause, so a copy that is there stays. Empty where there
        is nothing to keep or it cannot be written: the failure itself must not be lost over it.
        """
        path = engine_log_path(self._world.folders, run)
        try:
            content = self._read_since(name)
            if not content or self._world.host.stat(path) is not None:
                return ""
            self._world.host.write_file(path, content, 0o600)
        except HostError:
            return ""
        return path

    def keep_verification(self, name: str, run: str) -> None:
        """Copy what the trial of the contract found into the folder of ``run``.

        A roll-back replaces or forgets the deployment's own. Like the log, it is never missed so
        much that the failure itself is lost over it.
        """
        folders, host = self._world.folders, self._world.host
        path = failed_verification_path(folders, run)
        try:
            found = read_verification(host, folders, name)
            if found is not None and not found.has_passed and host.stat(path) is None:
                write_document(host, path, found)
        except HostError:
            return

    def _read_since(self, name: str) -> bytes:
        size_bytes, mark = self._size_bytes(name), self._marks.get(name, 0)
        begin = mark if mark <= size_bytes else 0  # the log was rotated since
        return _read_end(self._world, name, begin=begin, most_bytes=START_BYTES)

    def _size_bytes(self, name: str) -> int:
        try:
            stat = self._world.host.stat(self._world.supervisor.log_path(name))
        except HostError:
            return 0
        return stat.size_bytes if stat else 0


def read_tail(world: World, name: str, *, begin: int = 0) -> Sequence[str]:
    """The last lines of a service's log, from byte ``begin`` on; none if it cannot be read."""
    content = _read_end(world, name, begin=begin, most_bytes=TAIL_BYTES)
    return content.decode("utf-8", "replace").splitlines()


def _read_end(world: World, name: str, *, begin: int, most_bytes: int) -> bytes:
    path = world.supervisor.log_path(name)
    try:
        stat = world.host.stat(path)
        if stat is None:
            return b""
        return world.host.read_bytes(path, max(begin, stat.size_bytes - most_bytes), most_bytes)
    except HostError:
        return b""
