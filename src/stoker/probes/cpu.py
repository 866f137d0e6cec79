"""How many cores a process may really use here, and what they can compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.cgroups import by_folder, read_limits
from stoker.probes.reading import list_if_any, read_if_any

_CPUS_PATH = "/sys/devices/system/cpu"
_CPUINFO_BYTES = 8 << 20  # about 2.5 KiB a core, on machines with many hundreds

#: The instruction sets that builds of engines are made for; the other hundred say nothing here.
_FLAGS_OF_INTEREST = frozenset(
    {"avx", "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "f16c", "fma"}
    | {"amx_bf16", "amx_int8", "amx_tile"}
    | {"asimd", "asimddp", "bf16", "i8mm", "neon", "sve", "sve2"}
)


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The kernel's list of cores, our affinity, the quota of our groups."""
    raw = {
        "cpuinfo": host.read_text("/proc/cpuinfo", _CPUINFO_BYTES),
        "status": read_if_any(host, "/proc/self/status") or "",
        **read_limits(host, "cpu", ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")),
    }
    if "core id" not in raw["cpuinfo"]:
        raw["siblings"] = "\n".join(_read_siblings(host))
    return raw


def _read_siblings(host: ReadableHost) -> Iterable[str]:
    """Which threads share a core, for kernels that do not say so in their list of cores."""
    for name in list_if_any(host, _CPUS_PATH):
        if name.removeprefix("cpu").isdigit():
            text = read_if_any(host, f"{_CPUS_PATH}/{name}/topology/thread_siblings_list")
            yield from [text.strip()] if text else []


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """Counts, usable cores and instruction sets.

    ``quota_cores`` is the tightest quota of our groups, the logical count without one.
    ``usable_cores`` is a whole number, at least 1: how many threads can be kept busy.
    """
    cores = [_fields(block) for block in raw["cpuinfo"].split("\n\n")]
    logical = [core for core in cores if core.get("processor", "").isdigit()]
    if not logical:
        raise ValueError("the kernel's list of cores names none")
    count = len(logical)
    allowed = parse_cpu_list(_fields(raw["status"]).get("Cpus_allowed_list", "")) or count
    quota = min((quota for quota in map(_quota, by_folder(raw)) if quota), default=count)
    flags = logical[0].get("flags") or logical[0].get("Features", "")
    return {
        "logical_count": count,
        "physical_count": _count_physical(logical, raw.get("siblings", "")) or count,
        "quota_cores": quota,
        "usable_cores": max(1, int(min(allowed, quota))),
        "model": logical[0].get("model name"),
        "flags": sorted(_FLAGS_OF_INTEREST.intersection(flags.split())),
    }


def parse_cpu_list(text: str) -> int:
    """How many cores a list such as ``0-3,8`` names; 0 for an empty one."""
    count = 0
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _count_physical(cores: Iterable[Mapping[str, str]], siblings: str) -> int:
    found = {(core.get("physical id"), core.get("core id")) for core in cores if "core id" in core}
    return len(found or set(siblings.split()))


def _quota(folder: Mapping[str, str]) -> float | None:
    """Cores of one group folder; None without a limit. Version 2 has both numbers in one file."""
    text = folder.get("cpu.max") or " ".join(
        folder.get(name, "") for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )
    quota, _, period = text.partition(" ")
    if quota in ("max", "", "-1") or not period:
        return None
    if int(quota) <= 0 or int(period) <= 0:
        raise ValueError(f"a quota of {text!r} is none")
    return int(quota) / int(period)


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


PROBE = Probe(id="cpu", source="/proc/cpuinfo, control groups", read=read, parse=parse)
