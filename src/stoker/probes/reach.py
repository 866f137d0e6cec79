"""Whether the user that the service will run as exists and gets to the folders it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Command, Probe, ReadableHost
from stoker.probes.engine_packages import find_interpreter, follow_links
from stoker.probes.paths import closed_folder, read_modes
from stoker.probes.reading import read_if_any

_PASSWD_PATH = "/etc/passwd"
_TIMEOUT_SECONDS = 10.0


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The user's line in the user database, and the modes of all folders on the way."""
    if target.user is None:
        raise HostError("the service runs as the same user as Stoker")
    folders = {folder: read_modes(host, folder) for folder in target.folders}
    return {
        "user": target.user,
        "entry": _find_entry(host, target.user),
        "folders": json.dumps(folders),
        "programs": json.dumps({path: read_modes(host, path) for path in _programs(host, target)}),
    }


def _programs(host: ReadableHost, target: Target) -> list[str]:
    """Where the engine's command and its interpreter really lie, behind links and first lines.

    A virtual environment anywhere often has its Python in somebody's home folder.
    """
    if not target.command:
        return []
    program = target.command[0]
    try:
        interpreter = find_interpreter(host, program)
        found = [follow_links(host, path) for path in (program, interpreter) if path]
    except HostError:
        return []  # what cannot be looked at is told by the engine's own probe
    return list(dict.fromkeys(found))


def _find_entry(host: ReadableHost, user: str) -> str:
    """The user's line; users of a directory service stand in no file and are asked for."""
    lines = (read_if_any(host, _PASSWD_PATH) or "").splitlines()
    own = next((line for line in lines if line.startswith(f"{user}:")), "")
    getent = None if own else host.find_command("getent")
    if getent is None:
        return own
    argv = (getent, "passwd", "--", user)
    return host.run(Command(argv=argv, timeout_seconds=_TIMEOUT_SECONDS, env={})).stdout


def parse(raw: Mapping[str, str]) -> dict[str, Any]:
    """``folders``: by path ``reachable`` and, if not, ``closed_at``, the folder in the way.

    ``programs``: likewise the files that the engine's command leads to. A folder that does not
    exist yet is reachable if what exists of its path lets others in.
    """
    user = raw["user"]
    return {
        "user": user,
        "exists": raw["entry"].startswith(f"{user}:"),
        "folders": _judge(json.loads(raw["folders"]), user),
        "programs": _judge(json.loads(raw.get("programs", "{}")), user),
    }


def _judge(ways: Mapping[str, Any], user: str) -> dict[str, Any]:
    closed = {path: closed_folder(path, modes, user) for path, modes in ways.items()}
    return {
        path: {"reachable": place is None, "closed_at": place} for path, place in closed.items()
    }


PROBE = Probe(id="reach", source=f"{_PASSWD_PATH}, permissions", read=read, parse=parse)
