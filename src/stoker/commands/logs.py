"""`stoker logs [NAME]`: what the engine wrote, and with `--journal` what its supervisor did."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.commands.log_marks import read_tail
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.errors import HostError
from stoker.model.layout import current_path
from stoker.state.documents import choose_deployment

#: How often a followed log is looked at.
INTERVAL_SECONDS = 0.25
#: How much of a followed log is read at once.
CHUNK_BYTES = 256 << 10


def read_logs(world: World, name: str | None, *, line_count: int) -> tuple[str, ...]:
    """The last lines of a deployment's log. Raises UsageError for an unknown deployment."""
    chosen = choose_deployment(world.host, world.folders, name)
    world = using_supervisor_of(world, chosen)
    return tuple(read_tail(world, chosen)[-line_count:]) if line_count else ()


def read_messages(world: World, name: str | None, *, line_count: int) -> tuple[str, ...]:
    """The last lines that the deployment's supervisor itself wrote about it. Raises UsageError."""
    chosen = choose_deployment(world.host, world.folders, name)
    world = using_supervisor_of(world, chosen)
    return world.supervisor.read_messages(chosen, line_count)


def follow_logs(world: World, name: str | None) -> Iterator[str]:
    """Text as it is written from now on; a rotated log is followed on.

    It ends once the deployment is gone.
    """
    chosen = choose_deployment(world.host, world.folders, name)
    world = using_supervisor_of(world, chosen)
    path = world.supervisor.log_path(chosen)
    offset = _size_bytes(world, path)
    while True:
        size_bytes = _size_bytes(world, path)
        offset = offset if offset <= size_bytes else 0
        if size_bytes > offset:
            content = world.host.read_bytes(path, offset, min(size_bytes - offset, CHUNK_BYTES))
            offset += len(content)
            yield content.decode("utf-8", "replace")
        elif world.host.stat(current_path(world.folders, chosen)) is None:
            return
        else:
            world.clock.sleep(INTERVAL_SECONDS)


def _size_bytes(world: World, path: str) -> int:
    try:
        stat = world.host.stat(path)
    except HostError:
        return 0
    return stat.size_bytes if stat else 0
