"""Where the limits of this process's control groups stand, in both versions of the hierarchy.

Used by the cpu and the memory probe. A limit holds for everything below it, so every folder from
the process's own group up to the mounted root counts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from stoker.ports import ReadableHost
from stoker.probes.reading import read_if_any, read_those_there

GROUP_PATH = "/proc/self/cgroup"
MOUNTS_PATH = "/proc/self/mountinfo"

_OCTAL = re.compile(r"\\([0-7]{3})")


def read_limits(host: ReadableHost, controller: str, names: Iterable[str]) -> dict[str, str]:
    """The files with these names in every group folder of a controller, by path."""
    groups = read_if_any(host, GROUP_PATH) or ""
    mounts = read_if_any(host, MOUNTS_PATH) or ""
    folders = parse_folders(groups, mounts, controller)
    return read_those_there(host, [f"{folder}/{name}" for folder in folders for name in names])


def parse_folders(groups: str, mounts: str, controller: str) -> tuple[str, ...]:
    """The group folders of a controller, the process's own first, the mounted root last.

    ``groups`` is the text of /proc/self/cgroup, ``mounts`` that of /proc/self/mountinfo. Both a
    version 1 and a version 2 hierarchy may be mounted; the folders of both are named, for only
    one of them will have the controller's files.
    """
    folders: list[str] = []
    for line in groups.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        for root, mount in _mounts_of(mounts, controller if controllers else ""):
            folders.extend(_folders_between(path, root=root, mount=mount))
    return tuple(dict.fromkeys(folders))


def by_folder(limits: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The texts that :func:`read_limits` found, one mapping from name to text a folder."""
    folders: dict[str, dict[str, str]] = {}
    for path, text in limits.items():
        if path.startswith("/"):
            folder, name = posixpath.split(path)
            folders.setdefault(folder, {})[name] = text.strip()
    yield from folders.values()


def _mounts_of(mounts: str, controller: str) -> Iterator[tuple[str, str]]:
    """Root within the hierarchy and mount point of a controller; of version 2 for an empty one."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        is_wanted = (
            kinds[0] == "cgroup" and controller in kinds[2].split(",")
            if controller
            else kinds[0] == "cgroup2"
        )
        if is_wanted:
            yield _unescape(fields[3]), _unescape(fields[4])


def _folders_between(path: str, *, root: str, mount: str) -> list[str]:
    """From the group's folder up to the mount point.

    In a container without a namespace of its own the path is the one outside, and the mount's
    root says how much of it is cut off. A path above the root cannot be seen at all.
    """
    is_seen = path.startswith("/") and ".." not in path.split("/")
    below = posixpath.relpath(path, root) if is_seen else "."
    parts = [] if below == "." or below.startswith("..") else below.split("/")
    return [posixpath.join(mount, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def _unescape(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)
