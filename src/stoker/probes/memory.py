"""How much memory there is, and how much of it we may still take; also of each NUMA node."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.cgroups import by_folder, read_limits
from stoker.probes.reading import list_if_any, read_if_any

_MEMINFO_PATH = "/proc/meminfo"
_NODES_PATH = "/sys/devices/system/node"
_NODE = re.compile(r"node(\d{1,4})")
#: What the kernel gives back of a node before it says that nothing is left.
_FREE_OF_NODE = ("MemFree", "Active(file)", "Inactive(file)")
_LIMIT_FILES = (
    "memory.max",
    "memory.current",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.stat",
)


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The kernel's summary, that of each node, and the limits of our groups."""
    meminfo = host.read_text(_MEMINFO_PATH)
    limits = read_limits(host, "memory", _LIMIT_FILES)
    return {"meminfo": meminfo, **_read_nodes(host), **limits}


def _read_nodes(host: ReadableHost) -> dict[str, str]:
    names = sorted(name for name in list_if_any(host, _NODES_PATH) if _NODE.fullmatch(name))
    texts = {name: read_if_any(host, f"{_NODES_PATH}/{name}/meminfo") for name in names}
    cpus = {f"{name}_cpus": read_if_any(host, f"{_NODES_PATH}/{name}/cpulist") for name in names}
    return {name: text for name, text in {**texts, **cpus}.items() if text is not None}


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """All in bytes.

    ``limit_bytes``: the tightest limit of our groups, all memory without one. ``usable_bytes``:
    what can be taken before either the machine or a group runs out. Cached files that a group
    would give back (a model that was just read) do not count as used. ``nodes``: each NUMA node
    with ``total_bytes``, ``free_bytes``, ``available_bytes`` (with the cached files that it would
    give back), and ``has_cpus``: a node without any may be the memory of a GPU (None: not known).
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
        "nodes": _parse_nodes(raw),
    }


def _parse_nodes(raw: Mapping[str, str]) -> list[dict[str, object]]:
    """In the order of their numbers; one that does not say its memory is left out."""
    numbers = sorted(int(found[1]) for found in map(_NODE.fullmatch, raw) if found is not None)
    nodes: list[dict[str, object]] = []
    for number in numbers:
        sizes = _node_bytes(raw[f"node{number}"])
        if "MemTotal" not in sizes or "MemFree" not in sizes:
            continue
        given_back = sum(sizes.get(name, 0) for name in _FREE_OF_NODE)
        cpus = raw.get(f"node{number}_cpus")
        nodes.append(
            {
                "node": number,
                "total_bytes": sizes["MemTotal"],
                "free_bytes": sizes["MemFree"],
                "available_bytes": min(given_back, sizes["MemTotal"]),
                "has_cpus": None if cpus is None else bool(cpus.strip()),
            }
        )
    return nodes


def _node_bytes(meminfo: str) -> dict[str, int]:
    """Lines such as ``Node 0 MemFree: 19127384 kB``."""
    rows = [line.split() for line in meminfo.splitlines()]
    return {
        row[2].rstrip(":"): int(row[3]) * 1024
        for row in rows
        if len(row) == 5 and row[0] == "Node" and row[3].isdecimal() and row[4] == "kB"
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


PROBE = Probe(
    id="memory",
    source=f"{_MEMINFO_PATH}, {_NODES_PATH}, control groups",
    read=read,
    parse=parse,
)
