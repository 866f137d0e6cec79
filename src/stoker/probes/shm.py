"""How large the shared memory of this machine is, through which an engine's processes talk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.cgroups import MOUNTS_PATH

_PATH = "/dev/shm"
_MEMINFO_PATH = "/proc/meminfo"
#: Less than others read of it, so that a recording keeps what those have read.
_MEMINFO_BYTES = 1 << 16
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """How it is mounted, how much of it is free, and how much memory there is."""
    return {
        "mounts": host.read_text(MOUNTS_PATH),
        "free": str(host.free_bytes(_PATH)),
        "meminfo": host.read_text(_MEMINFO_PATH, _MEMINFO_BYTES),
    }


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """``size_bytes`` of the mount, ``free_bytes`` of it; ``is_own``: it is a mount of its own.

    Where it is none, it is a folder of another file system, and its size is what is free there.
    """
    free_bytes = int(raw["free"])
    mounted = list(_find_options(raw["mounts"]))
    if not mounted:
        return {"size_bytes": free_bytes, "free_bytes": free_bytes, "is_own": False}
    return {
        "size_bytes": _size_bytes(mounted[-1], raw["meminfo"]),
        "free_bytes": free_bytes,
        "is_own": True,
    }


def _find_options(mounts: str) -> Iterator[str]:
    """The options of each file system that is mounted there; the last one is what is seen."""
    for line in mounts.splitlines():
        # mountinfo: id, parent, device, root, mount point, options, ..., -, type, source, options.
        fields = line.split()
        if len(fields) > 6 and fields[4] == _PATH:
            yield fields[-1]


def _size_bytes(options: str, meminfo: str) -> int:
    words = dict(word.partition("=")[::2] for word in options.split(","))
    size = words.get("size", "50%")  # tmpfs(5): half of the memory by default
    if size.endswith("%"):
        return _memory_bytes(meminfo) * int(size[:-1]) // 100
    unit = _UNITS.get(size[-1:].lower(), 1)
    return int(size[:-1] if unit > 1 else size) * unit


def _memory_bytes(meminfo: str) -> int:
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{_MEMINFO_PATH} does not say MemTotal")


PROBE = Probe(id="shm", source=MOUNTS_PATH, read=read, parse=parse)
