"""What one process is, and which devices it has open or mapped: read by the child programs here.

:mod:`stoker.probes.nvml_reader` and :mod:`stoker.probes.holders_reader` call it, and nobody else:
looking at a process may hang where it is stuck in a driver, or where one of its files lies on a
server that is gone, and then only a child can be given up. Nothing here is ever opened but files
of /proc, and no argument of a command leaves it that could be a secret.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.model.units import parse_process_identity
from stoker.model.visible import visible
from stoker.probes.listeners import shorten_command

PROC = "/proc"
#: Command lines and control groups are judged by their beginning.
_TEXT_BYTES = 4096

#: A device by its numbers, major and minor.
Numbers = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The devices of one process, by file descriptor and by mapping.

    ``is_whole``: whether all of them could be looked at; without root a process shows its own
    user's alone.
    """

    opened: frozenset[Numbers]
    mapped: frozenset[Numbers]
    is_whole: bool


@dataclass(slots=True)
class Seen:
    """Files that were looked at already, so that each library is looked at once.

    By the device and the number of the file and its path, as /proc/PID/maps tells them.
    """

    numbers: dict[tuple[str, str, str], Numbers | None] = field(default_factory=dict)


def describe_process(pid: int, proc: str = PROC) -> dict[str, Any] | None:
    """A process as JSON-shaped data, None if it is gone or hidden.

    ``process`` is its identity, ``cgroup`` the text of the kernel, ``command`` what
    :func:`stoker.probes.listeners.shorten_command` leaves of it.
    """
    try:
        stat_text = _read(f"{proc}/{pid}/stat")
        identity = parse_process_identity(stat_text, pid)
        parent, group = (int(word) for word in stat_text.rpartition(")")[2].split()[1:3])
        user_id = _parse_user_id(_read(f"{proc}/{pid}/status"))
    except (OSError, ValueError):
        return None
    return {
        "process": identity,
        "parent": parent,
        "group": group,
        "user_id": user_id,
        "command": _read_command(pid, proc),
        "cgroup": _read_if_any(f"{proc}/{pid}/cgroup"),
    }


def find_held(
    pid: int, majors: Mapping[int, object], *, seen: Seen, proc: str = PROC
) -> Held | None:
    """The character devices with these majors that a process holds; None if it is gone."""
    try:
        os.stat(f"{proc}/{pid}")
    except OSError:
        return None
    opened, has_all_files = _find_opened(pid, majors, proc)
    mapped, has_all_maps = _find_mapped(pid, majors, seen, proc)
    return Held(opened=opened, mapped=mapped, is_whole=has_all_files and has_all_maps)


def _find_opened(
    pid: int, majors: Mapping[int, object], proc: str
) -> tuple[frozenset[Numbers], bool]:
    folder = f"{proc}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except PermissionError:
        return frozenset(), False
    except OSError:
        return frozenset(), True  # it has ended meanwhile
    numbers = (read_numbers(f"{folder}/{name}") for name in names)
    return frozenset(each for each in numbers if each and each[0] in majors), True


def _find_mapped(
    pid: int, majors: Mapping[int, object], seen: Seen, proc: str
) -> tuple[frozenset[Numbers], bool]:
    """Mappings outlive the descriptors that they were made with."""
    try:
        text = _read(f"{proc}/{pid}/maps", limit_bytes=-1)
    except PermissionError:
        return frozenset(), False
    except OSError:
        return frozenset(), True
    found = set()
    for key, span, path in parse_maps(text):
        if key not in seen.numbers:
            seen.numbers[key] = _numbers_of_mapping(pid, span, path, proc)
        numbers = seen.numbers[key]
        if numbers and numbers[0] in majors:
            found.add(numbers)
    return frozenset(found), True


def parse_maps(text: str) -> Iterator[tuple[tuple[str, str, str], str, str]]:
    """The mapped files of /proc/PID/maps: what identifies each, the name of the mapping among
    those of /proc/PID/map_files, and the path as the process sees it."""
    for line in text.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        begin, _, end = fields[0].partition("-")
        span = f"{begin.lstrip('0') or '0'}-{end.lstrip('0') or '0'}"
        yield (fields[3], fields[4], fields[5]), span, fields[5]


def _numbers_of_mapping(pid: int, span: str, path: str, proc: str) -> Numbers | None:
    """The device behind a mapping, however the process calls it.

    Only root may go through the mapping itself; others find their own files by their path.
    """
    try:
        return _numbers_in(os.stat(f"{proc}/{pid}/map_files/{span}"))
    except OSError:
        return read_numbers(f"{proc}/{pid}/root{path}")


def read_numbers(path: str) -> Numbers | None:
    """The numbers of a character device; None for everything else, and for what is gone."""
    try:
        return _numbers_in(os.stat(path))
    except OSError:
        return None


def _numbers_in(found: os.stat_result) -> Numbers | None:
    if not stat.S_ISCHR(found.st_mode):
        return None
    return os.major(found.st_rdev), os.minor(found.st_rdev)


def _read_command(pid: int, proc: str) -> str:
    words = _read_if_any(f"{proc}/{pid}/cmdline").replace("\0", " ").split()
    name = _read_if_any(f"{proc}/{pid}/comm").strip()
    return visible(shorten_command(name, words))


def _parse_user_id(status: str) -> int:
    """The real user of a process. Raises ValueError when the text does not say."""
    for line in status.splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    raise ValueError("the status does not name the user")


def _read(path: str, limit_bytes: int = _TEXT_BYTES) -> str:
    with open(path, "rb") as file:
        return file.read(limit_bytes).decode("utf-8", "replace")


def _read_if_any(path: str) -> str:
    try:
        return _read(path)
    except OSError:
        return ""
