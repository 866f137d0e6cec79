"""How much memory there is, and how much of it we may still take."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.cgroups import by_folder, read_limits

_MEMINFO_PATH = "/proc/meminfo"
_LIMIT_FILES = (
    "memory.max",
    "memory.current",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.stat",
)


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The kernel's summary and the limits of our groups."""
    meminfo = host.read_text(_MEMINFO_PATH)
    return {"meminfo": meminfo, **read_limits(host, "memory", _LIMIT_FILES)}


def parse(raw: Mapping[str, str]) -> dict[str, int]:
    """All in bytes.

    ``limit_bytes``: the tightest limit of our groups, all memory without one. ``usable_bytes``:
    what can be taken before either the machine or a group runs out. Cached files that a group
    would give back (a model that was just read) do not count as used.
    """
    total, available = (
        _kernel_bytes(raw["meminfo"], name) for name in ("MemTotal", "MemAvailable")
    )
    limits = [(limit, used) for limit, used in map(_limit, by_folder(raw)) if 0 <= limit < total]
    room = (max(0, limit - used) for limit, used in limits)
    return {
        "total_bytes": total,
        "available_bytes": available,
        "limit_bytes": min((limit for limit, _ in limits), default=total),
        "usable_bytes": min([available, *room]),
    }


def _kernel_bytes(meminfo: str, name: str) -> int:
    for line in meminfo.splitlines():
        fields = line.split()
        if fields[:1] == [f"{name}:"] and fields[2:] == ["kB"]:
            return int(fields[1]) * 1024
    raise ValueError(f"{_MEMINFO_PATH} does not say {name}")


def _limit(folder: Mapping[str, str]) -> tuple[int, int]:
    """Limit and use of one group folder; a limit of -1 without one."""
    limit = folder.get("memory.max") or folder.get("memory.limit_in_bytes") or "max"
    used = int(folder.get("memory.current") or folder.get("memory.usage_in_bytes") or 0)
    rows = (line.partition(" ") for line in folder.get("memory.stat", "").splitlines())
    stat = {name: value for name, _, value in rows}
    # Version 1 gives the group's own number and, with this prefix, that of all groups below it.
    cached = int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)
    return (-1 if limit == "max" else int(limit)), max(0, used - cached)


PROBE = Probe(id="memory", source=f"{_MEMINFO_PATH}, control groups", read=read, parse=parse)
