"""Whether the memory of GPUs is really free once processes were ended. Pure.

Called by the command that waits for it. A driver takes back the memory of a process some time
after its end, and never where the process is stuck in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from stoker.model.facts import Plain
from stoker.model.units import format_bytes

#: Amounts that are read at two moments differ by so much without any meaning.
_SLACK_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """The memory of one GPU at a moment: who uses how much, None where it is not told."""

    label: str
    total_bytes: int
    used_bytes: int
    listed: Mapping[int, int | None]

    @property
    def unseen_bytes(self) -> int:
        """What is in use and belongs to no process that is listed."""
        return max(self.used_bytes - sum(used or 0 for used in self.listed.values()), 0)


def read_uses(gpus: Sequence[Mapping[str, Plain]], addresses: Collection[str]) -> dict[str, GpuUse]:
    """The rows of the gpus probe at these addresses, by address; none whose memory is not told."""
    uses = {}
    for gpu in gpus:
        total, used = gpu.get("memory_total_bytes"), gpu.get("memory_used_bytes")
        address = gpu.get("pci_bus_id")
        if address in addresses and isinstance(total, int) and isinstance(used, int):
            listed = {row["pid"]: row.get("used_bytes") for row in gpu.get("processes") or ()}
            uses[str(address)] = GpuUse(
                label=f"GPU {gpu.get('index')}",
                total_bytes=total,
                used_bytes=used,
                listed=listed,
            )
    return uses


def find_unfreed(
    before: Mapping[str, GpuUse],
    now: Mapping[str, GpuUse],
    *,
    ended: Collection[int],
    idle_bytes: Callable[[int], int],
) -> tuple[str, ...]:
    """A sentence for each GPU whose memory has not come back; none once all of it has.

    ``idle_bytes`` says how much the driver keeps of a GPU of this size. A GPU that cannot be read
    any more is not told of.
    """
    sentences = (
        _explain(before[address], use, ended=ended, idle_bytes=idle_bytes(use.total_bytes))
        for address, use in now.items()
        if address in before
    )
    return tuple(filter(None, sentences))


def _explain(before: GpuUse, now: GpuUse, *, ended: Collection[int], idle_bytes: int) -> str:
    if stuck := sorted(set(ended) & now.listed.keys()):
        names = ", ".join(f"process {pid}" for pid in stuck)
        return f"{now.label} is still held by {names} ({format_bytes(now.used_bytes)} in use)"
    if came := _find_newcomers(before, now, idle_bytes):
        names = ", ".join(f"process {pid}" for pid in came)
        return f"{now.label} is held by {names} now, which was not there before"
    if None in now.listed.values():
        return ""  # whose memory it is cannot be told apart, and those that were ended are gone
    is_told = all(before.listed.get(pid, 0) is not None for pid in ended)
    kept = max(before.unseen_bytes if is_told else 0, idle_bytes) + _SLACK_BYTES
    if now.unseen_bytes <= kept:
        return ""
    return f"{now.label} has {format_bytes(now.unseen_bytes)} in use that no process accounts for"


def _find_newcomers(before: GpuUse, now: GpuUse, idle_bytes: int) -> list[int]:
    """Processes that have taken memory since: most likely those that were ended, started again."""
    new = {pid: used for pid, used in now.listed.items() if pid not in before.listed}
    return sorted(pid for pid, used in new.items() if used is None or used > idle_bytes)
