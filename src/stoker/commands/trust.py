"""Whether the folders that services run from can be trusted: asked before anything is planned.

What lies in them is executed, by root too. If another user could write there, that user could put
a program in an environment's place, or a link in a secret's.
"""

from __future__ import annotations

import posixpath

from stoker.commands.world import World
from stoker.errors import HostError, StateError
from stoker.ports import Stat

WRITABLE_BY_OTHERS = 0o022
STICKY = 0o1000


def check_data_folders(world: World) -> None:
    """Raises StateError for a data folder that somebody else owns or may write to."""
    folders = world.folders
    for folder in (folders.environments, folders.models, folders.services):
        _check_way(world, folder)


def _check_way(world: World, folder: str) -> None:
    """Every part of the way, from the root to what exists of the folder."""
    parts = folder.strip("/").split("/")
    parent: Stat | None = None
    for count in range(len(parts) + 1):
        path = "/" + "/".join(parts[:count])
        stat = world.host.stat(path)
        if stat is None:
            return
        _check_part(world, path, stat, parent)
        parent = stat


def _check_part(world: World, path: str, stat: Stat, parent: Stat | None) -> None:
    if stat.owner not in ("root", world.me):
        raise _distrust(path, f"it belongs to {stat.owner}")
    is_open = bool(stat.mode & WRITABLE_BY_OTHERS)
    if is_open and not stat.mode & STICKY:
        raise _distrust(path, f"others may write in it (mode {stat.mode:04o})")
    is_planted = parent is not None and parent.mode & WRITABLE_BY_OTHERS and _is_link(world, path)
    if is_planted:
        raise _distrust(path, "it is a link in a folder in which others may write")


def _is_link(world: World, path: str) -> bool:
    try:
        world.host.read_link(path)
    except HostError:
        return False
    return True


def _distrust(path: str, why: str) -> StateError:
    return StateError(
        f"{path} cannot be trusted: {why}, and services are run from below it",
        f"choose a folder of your own with STOKER_DATA, or close this one: "
        f"chmod go-w {posixpath.normpath(path)}",
    )
