"""A file that a verb was asked to write: only a new one, or one that it wrote itself before.

Called before the work that it is for, which may take long, and again when it is written. This
module must never make a folder, replace anything but a regular file, or touch a stranger's one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from stoker.commands.folders import absolute_path
from stoker.errors import HostError, UsageError
from stoker.ports import Host, ReadableHost

_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputKind:
    """What is written: ``title`` in words (``recording``), and ``mark``, which every such file
    holds near its beginning. ``mode``: who may read it."""

    title: str
    mark: str
    mode: int


def check_output(host: ReadableHost, path: str, kind: OutputKind) -> bool:
    """Whether the file would replace an older one of its kind.

    Raises UsageError for a path where it cannot be written, and for one where something else is.
    """
    absolute = absolute_path(path)
    try:
        stat = host.stat(absolute)
        if stat is None:
            _check_place(host, absolute, path)
            return False
        if stat.kind != "file":
            raise UsageError(
                f"{path} is no regular file, so no {kind.title} is written there",
                "name a new file",
            )
        head = host.read_text(absolute, _HEAD_BYTES)
    except HostError as error:
        raise UsageError(f"{path} cannot be written: {error.summary}", error.hint) from error
    if kind.mark not in head:
        raise UsageError(
            f"{path} is there already, and is no {kind.title} of Stoker's",
            "name another file, or move it away",
        )
    return True


def _check_place(host: ReadableHost, absolute: str, path: str) -> None:
    """Raises UsageError where a link leads nowhere or the folder is not there."""
    folder, name = os.path.split(absolute)
    stat = host.stat(folder)
    if stat is None or stat.kind != "folder":
        raise UsageError(f"there is no folder {folder}, so {path} is not written", "make it first")
    if name in host.list_folder(folder):
        raise UsageError(f"{path} is a link that leads nowhere", "name a new file")


def write_output(host: Host, path: str, content: str | bytes, kind: OutputKind) -> None:
    """Write it. Raises HostError, and UsageError as :func:`check_output` does."""
    check_output(host, path, kind)
    raw = content.encode() if isinstance(content, str) else content
    host.write_file(absolute_path(path), raw, kind.mode)
