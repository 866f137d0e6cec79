"""Look at GPUs and print what is seen as one line of JSON: ``gpu_reader (look|use) DEVICES``.

Run as a short-lived child by the guard and never imported for its answers: opening a GPU or asking
its driver may hang, and then only a process can be given up. DEVICES is a list of JSON objects as
in :class:`stoker.model.gpu.GpuDevice`. ``look`` prints ``{"sights", ...}`` and what ``use`` prints,
which is ``{"rooms", "holds"}``, null where NVIDIA's own tool is not there or says nothing.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from stoker.errors import HostError
from stoker.hosts.local import LocalHost
from stoker.model.document import render_line
from stoker.model.gpu import GpuDevice, GpuHold, GpuRoom, GpuSight, find_flaw
from stoker.ports import Command, ReadableHost

_TOOL = "nvidia-smi"
#: Shorter than the guard waits for this program.
_TOOL_SECONDS = 10.0
#: Longer than the guard waits.
_MOST_SECONDS = 60
_FORMAT = "--format=csv,noheader,nounits"
#: What NVIDIA's tool prints of memory without its unit.
_MIB = 1 << 20
_LOST = b"\xff\xff\xff\xff"


def main(arguments: Sequence[str]) -> int:
    """Print what was asked for; the exit status is 0 whatever is seen."""
    signal.alarm(_MOST_SECONDS)  # whatever becomes of the guard
    what, text = arguments
    devices = tuple(GpuDevice(**row) for row in json.loads(text))
    answer: dict[str, object] = {}
    if what == "look":
        sights = [look(device) for device in devices]
        answer["sights"] = sights
        if any(find_flaw(sight) for sight in sights):
            devices = ()  # asking the driver opens every GPU, and a sick one may hang
        else:
            devices = tuple(
                replace(device, address=sight.address)
                for device, sight in zip(devices, sights, strict=True)
            )
    rooms, holds = read_use(LocalHost(), devices)
    sys.stdout.write(render_line({**answer, "rooms": rooms, "holds": holds}))
    return 0


def look(device: GpuDevice, root: str = "") -> GpuSight:
    """What the system shows of a GPU. ``root`` is where /sys, /proc and /dev lie.

    Neither ``uevent`` nor ``driver_override`` of the device is ever read: while a driver is stuck
    letting go of it, reading them hangs.
    """
    address, minor = _find(device, root)
    sight = _look_at_bus(address, root)
    sight = replace(sight, is_known=_is_known(address, root))
    if find_flaw(sight) or minor is None:
        return sight
    node = f"/dev/nvidia{minor}"
    return replace(sight, node=node, node_error=_try_open(f"{root}{node}"))


def _find(device: GpuDevice, root: str) -> tuple[str, int | None]:
    """Where the GPU is now: a board keeps its number when the bus is counted anew."""
    for address, told in _read_listed(root):
        if device.uuid and told.get("GPU UUID") == device.uuid:
            return address, _number(told.get("Device Minor"))
    told = dict(_read_listed(root)).get(device.address, {})
    minor = _number(told.get("Device Minor"))
    return device.address, device.minor if minor is None else minor


def _read_listed(root: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The GPUs that the driver lists, each with what it says of it."""
    folder = f"{root}/proc/driver/nvidia/gpus"
    for address in _list(folder):
        lines = _read(f"{folder}/{address}/information").decode("utf-8", "replace").splitlines()
        pairs = (line.partition(":") for line in lines)
        yield address, {name.strip(): value.strip() for name, _, value in pairs}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _look_at_bus(address: str, root: str) -> GpuSight:
    devices = f"{root}/sys/bus/pci/devices"
    if not _list(devices):
        return GpuSight(address=address)  # a container may have no view of the bus
    folder = f"{devices}/{address}"
    if not os.path.isdir(folder):
        return GpuSight(address=address, is_present=False)
    return GpuSight(
        address=address,
        is_present=True,
        driver=_read_driver(f"{folder}/driver"),
        is_lost=_read(f"{folder}/config")[:4] == _LOST,
    )


def _read_driver(path: str) -> str | None:
    try:
        return os.path.basename(os.readlink(path))
    except FileNotFoundError:
        return ""
    except OSError:
        return None


def _is_known(address: str, root: str) -> bool | None:
    """Whether the driver lists it; None without a list."""
    listed = _list(f"{root}/proc/driver/nvidia/gpus")
    return address in listed if listed else None


def _try_open(path: str) -> str:
    """The name of the error that opening a device gave, empty for none."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return ""


def _list(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError:
        return ()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""


# Memory


def read_use(
    host: ReadableHost, devices: Sequence[GpuDevice]
) -> tuple[dict[str, GpuRoom] | None, list[GpuHold]]:
    """The memory of GPUs by address, and who computes on them; None where it is not told."""
    tool = host.find_command(_TOOL) if devices else None
    if tool is None:
        return None, []
    chosen = f"--id={','.join(device.address for device in devices)}"
    gpus = _ask(host, (tool, chosen, "--query-gpu=pci.bus_id,memory.total,memory.used", _FORMAT))
    apps = "--query-compute-apps=gpu_bus_id,pid,used_memory,process_name"
    if gpus is None:
        return None, []
    wanted = {device.address for device in devices}
    rooms = {address: room for address, room in parse_rooms(gpus) if address in wanted}
    used = _ask(host, (tool, chosen, apps, _FORMAT)) or ""
    return rooms or None, [hold for hold in parse_holds(used) if hold.address in wanted]


def _ask(host: ReadableHost, argv: tuple[str, ...]) -> str | None:
    env = {"LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)}
    try:
        result = host.run(Command(argv=argv, timeout_seconds=_TOOL_SECONDS, env=env))
    except HostError:
        return None
    return result.stdout if result.exit_status == 0 and not result.timed_out else None


def parse_rooms(text: str) -> Iterator[tuple[str, GpuRoom]]:
    """Lines ``00000000:41:00.0, 143771, 615``; those that say less are left out."""
    for fields in _rows(text, 3):
        total, used = _bytes(fields[1]), _bytes(fields[2])
        if total is not None and used is not None:
            yield shorten_address(fields[0]), GpuRoom(total_bytes=total, held_bytes=used)


def parse_holds(text: str) -> Iterator[GpuHold]:
    """Lines ``00000000:41:00.0, 4711, 1024, python3``; the name may hold commas."""
    for address, pid, used, path in _rows(text, 4):
        if pid.isdecimal():
            yield GpuHold(
                address=shorten_address(address),
                pid=int(pid),
                name=path.rpartition("/")[2],
                used_bytes=_bytes(used),
            )


def _rows(text: str, count: int) -> Iterable[list[str]]:
    rows = ([word.strip() for word in line.split(",", count - 1)] for line in text.splitlines())
    return [row for row in rows if len(row) == count]


def _bytes(text: str) -> int | None:
    return int(text) * _MIB if text.isdecimal() else None


def shorten_address(text: str) -> str:
    """``0000:41:00.0`` for ``00000000:41:00.0``, as the kernel writes it."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if domain.startswith("0000") else f"{domain}:{rest}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
