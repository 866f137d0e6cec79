"""Writing a person's deployment file back: into the real file, and only if nobody else has.

Called by every command that edits such a file. Between reading and writing may lie seconds in
which an engine is asked, so the text is compared once more; no command writes one in another way.
"""

from __future__ import annotations

import os

from stoker.commands.folders import absolute_path
from stoker.commands.plan import read_file
from stoker.commands.world import World
from stoker.errors import HostError, UsageError

_NEW_FILE_MODE = 0o644


def write_back(world: World, path: str, before: str, after: str) -> None:
    """Put ``after`` in the place of ``before``, the text that this command has read.

    A link stays, and the file that it leads to is written; mode and owner stay as they are.
    Raises UsageError where the text is another one by now, or the file cannot be written: nothing
    is written then.
    """
    target = os.path.realpath(absolute_path(path))
    if read_file(path) != before:
        raise UsageError(
            f"{path} was changed meanwhile; nothing was written", "look at it, and try again"
        )
    try:
        stat = world.host.stat(target)
        mode = stat.mode if stat else _NEW_FILE_MODE
        # Only another user's file needs to be given back: to whom it belongs is kept as a name.
        owner = stat.owner if stat and stat.owner != world.me else ""
        world.host.write_file(target, after.encode(), mode, owner)
    except HostError as error:
        raise UsageError(f"{path} cannot be written: {error.summary}", error.hint) from error
