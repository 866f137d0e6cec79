"""Whose a process is: the service or the container that its control group belongs to.

Used by the probes that name processes. What a path means is data; where it says nothing that is
known, nothing is told.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Patterns = tuple[tuple[str, re.Pattern[str]], ...]

#: As systemd allows names of units (systemd.unit(5)); a user may make groups of any other name.
_SERVICE = re.compile(r"[A-Za-z0-9:_.\\@-]{1,240}\.service")
_USER_MANAGER = re.compile(r"user@\d+\.service")
_ID_CHARACTERS = 12


def name_owner(row: Mapping[str, Any], users: Mapping[str, str]) -> dict[str, Any]:
    """A process as a child program describes it, with the name of its user and :func:`parse_owner`.

    One that could not be described (gone, or of another pid namespace) is left as it is.
    """
    if "cgroup" not in row:
        return dict(row)
    rest = {name: value for name, value in row.items() if name not in ("user_id", "cgroup")}
    user_id = str(row["user_id"])
    return {**rest, "user": users.get(user_id, user_id), **parse_owner(row["cgroup"])}


def parse_owner(text: str) -> dict[str, str | None]:
    """``unit`` and ``manager`` (system or user), or ``container``, from /proc/PID/cgroup.

    A scope is no unit that would start anything again, and what runs in a container is the
    container's, whatever manages it in there.
    """
    none: dict[str, str | None] = {"unit": None, "manager": None, "container": None}
    paths = tuple(_paths_in(text))
    for path in paths:
        if container := _find_container(path):
            return {**none, "container": container}
    for path in paths:
        unit, manager = _find_unit(path)
        if unit:
            return {**none, "unit": unit, "manager": manager}
    return none


def _paths_in(text: str) -> Iterator[str]:
    """The path of each hierarchy, systemd's first: the others may lie elsewhere."""
    rows = [line.split(":", 2) for line in text.splitlines()]
    rows = [row for row in rows if len(row) == 3 and row[2].startswith("/")]
    yield from (row[2] for row in sorted(rows, key=lambda row: row[1] not in ("", "name=systemd")))


def _find_container(path: str) -> str | None:
    for kind, pattern in _load("container"):
        if found := pattern.search(path):
            return f"{kind} {found['id'][:_ID_CHARACTERS]}"
    return None


def _find_unit(path: str) -> tuple[str | None, str | None]:
    """The innermost unit of a path, if it is a service."""
    parts = path.split("/")
    units = [n for n, part in enumerate(parts) if part.endswith((".service", ".scope"))]
    if not units or not _SERVICE.fullmatch(parts[units[-1]]):
        return None, None
    unit = parts[units[-1]]
    if any(pattern.fullmatch(unit) for _, pattern in _load("launcher")):
        return None, None
    is_below_user = any(_USER_MANAGER.fullmatch(part) for part in parts[: units[-1]])
    return unit, "user" if is_below_user else "system"


@cache
def _load(table: str) -> Patterns:
    text = files("stoker.probes").joinpath("control_groups.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)[table]
    return tuple((row.get("kind", ""), re.compile(row["pattern"])) for row in rows)
