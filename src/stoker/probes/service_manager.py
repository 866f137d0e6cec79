"""What process 1 is, whether systemd manages services here, and whether this is a container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.reading import read_if_any, read_those_there

#: systemd's own test for itself, see sd_booted(3).
_SYSTEMD_PATH = "/run/systemd/system"
#: Files in which a container manager leaves its name (systemd's container interface).
_NAME_PATHS = ("/run/host/container-manager", "/run/systemd/container")
#: Files whose mere presence tells a container, and whose.
_MARKERS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """Names and marks; of the environment of process 1 only what names a container."""
    raw = {"comm": host.read_text("/proc/1/comm"), **read_those_there(host, _NAME_PATHS)}
    raw["systemd"] = _kind(host, _SYSTEMD_PATH)
    raw["markers"] = " ".join(path for path in _MARKERS if _kind(host, path))
    raw["variables"] = "\n".join(_read_container_variable(host))
    return raw


def _read_container_variable(host: ReadableHost) -> Iterator[str]:
    environment = read_if_any(host, "/proc/1/environ") or ""
    yield from (pair for pair in environment.split("\0") if pair.startswith("container="))


def _kind(host: ReadableHost, path: str) -> str:
    try:
        found = host.stat(path)
    except HostError:
        return ""
    return found.kind if found else ""


def parse(raw: Mapping[str, str]) -> dict[str, str | bool | None]:
    """``container`` is the manager's name, or None as far as can be seen from inside."""
    pid1 = raw["comm"].strip()
    if not pid1:
        raise ValueError("process 1 has no name")
    named = [raw[path].strip() for path in _NAME_PATHS if path in raw]
    marked = [_MARKERS[path] for path in raw["markers"].split() if path in _MARKERS]
    variables = [line.partition("=")[2] for line in raw["variables"].splitlines()]
    names = [name for name in (*named, *variables, *marked) if name]
    return {
        "pid1": pid1,
        "systemd_running": raw["systemd"] == "folder",
        "container": names[0] if names else None,
    }


PROBE = Probe(
    id="service_manager", source=f"/proc/1, {_SYSTEMD_PATH}, /run", read=read, parse=parse
)
