"""What a process may have here that no service manager has given limits of its own.

The memory that it may lock, the files that it may open, and whether it may look into a process
beside it. Services of systemd have limits of their own: see the service_sandbox probe.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.reading import read_if_any

_PATH = "/proc/self/limits"
_PTRACE_PATH = "/proc/sys/kernel/yama/ptrace_scope"
#: Soft and hard stand in this order after the name (proc_pid_limits(5)).
_SOFT, _HARD = 0, 1
_UNLIMITED = "unlimited"


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The limits of the process that looks, which are those of what it starts."""
    return {"limits": host.read_text(_PATH), "ptrace": read_if_any(host, _PTRACE_PATH) or ""}


def parse(raw: Mapping[str, str]) -> dict[str, int | None]:
    """``memory_lock_bytes`` and ``open_files``, None without a limit.

    Nobody raises the first, so its soft limit counts; engines raise the second to the hard one.
    ``ptrace_scope``: 0 anybody of the same user, 1 parents only, 2 root only, 3 nobody; None where
    the kernel has no such rule (Documentation/admin-guide/LSM/Yama).
    """
    scope = raw["ptrace"].strip()
    return {
        "memory_lock_bytes": _limit(raw["limits"], "Max locked memory", _SOFT),
        "open_files": _limit(raw["limits"], "Max open files", _HARD),
        "ptrace_scope": int(scope) if scope else None,
    }


def _limit(text: str, name: str, place: int) -> int | None:
    for line in text.splitlines():
        if line.startswith(name):
            value = line.removeprefix(name).split()[place]
            return None if value == _UNLIMITED else int(value)
    raise ValueError(f"{_PATH} has no line {name}")


PROBE = Probe(id="limits", source=f"{_PATH}, {_PTRACE_PATH}", read=read, parse=parse)
