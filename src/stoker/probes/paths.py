"""Who may enter the folders that lead to a path.

Used by the probes that ask whether another user will get there. Goes by permission bits alone:
group membership and access lists are not looked at, so "closed" may be too strict for them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from stoker.errors import HostError
from stoker.ports import ReadableHost

#: Path -> {"mode", "owner"}, for every part of a path that exists.
Modes = Mapping[str, Mapping[str, Any]]


def read_modes(host: ReadableHost, path: str) -> dict[str, dict[str, Any]]:
    """Permission bits and owner of a path and of all folders above it, as far as they exist.

    Below a folder that we may not enter ourselves nothing is known, which is left out too: that
    folder's own mode tells enough.
    """
    modes: dict[str, dict[str, Any]] = {}
    for part in ancestors(path):
        try:
            found = host.stat(part)
        except HostError:
            break
        if found is None:
            break
        modes[part] = {"mode": found.mode, "owner": found.owner}
    return modes


def ancestors(path: str) -> list[str]:
    """The root, every folder below it and the path itself, outermost first."""
    found = [path]
    while found[-1] not in ("/", ""):
        found.append(posixpath.dirname(found[-1]))
    return found[::-1]


def closed_folder(path: str, modes: Modes, user: str | None = None) -> str | None:
    """The outermost existing part of ``path`` that ``user`` may not enter, None if all are open.

    ``user`` None stands for anybody, who owns nothing.
    """
    for part in ancestors(path):
        found = modes.get(part)
        if found is None:
            return None
        bit = 0o100 if user is not None and found["owner"] == user else 0o001
        if not found["mode"] & bit:
            return part
    return None
