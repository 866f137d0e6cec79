"""One GPU as a device: which one is meant, what is wrong with it, and whether there is room on it.

Plans judge by it, and so does the guard at every start of a service: a GPU may have been handed to
a virtual machine since, or be held by another program. Pure, and light enough for the guard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.model.units import format_bytes
from stoker.model.visible import visible

#: The name of NVIDIA's driver among those of the PCI bus, of both its flavours.
DRIVER = "nvidia"
#: Drivers that hand a device to a virtual machine (Linux, drivers/vfio/pci).
_VIRTUAL = "vfio"

#: Of a program's name nobody needs more.
_NAME_CHARACTERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A GPU that a service was given, by all the names that are known of it.

    ``address``: on the PCI bus as the kernel writes it (``0000:41:00.0``). ``uuid``: NVIDIA's,
    which stays with the board. ``minor``: the number of its node, ``/dev/nvidiaN``.
    """

    address: str
    uuid: str | None = None
    minor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSight:
    """What was seen of a GPU; None wherever nobody could look.

    ``is_present``: it is on the PCI bus. ``driver``: what is bound to it, empty for none.
    ``is_lost``: its configuration space reads as ones. ``is_known``: NVIDIA's driver lists it.
    ``node``: its device node, and ``node_error`` the name of the error that opening it gave
    (``EACCES``), empty for none.
    """

    address: str
    is_present: bool | None = None
    driver: str | None = None
    is_lost: bool | None = None
    is_known: bool | None = None
    node: str | None = None
    node_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFlaw:
    """Why a GPU cannot be used, and whether that may pass by itself: drivers come late at boot."""

    sentence: str
    may_pass: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRoom:
    """The memory of one GPU: all of it, and what is held by others than the service itself."""

    total_bytes: int
    held_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHold:
    """What one program uses of a GPU's memory, None where the driver does not say.

    ``name`` is its program's, empty where it is not seen.
    """

    address: str
    pid: int
    name: str = ""
    used_bytes: int | None = None


def find_flaw(sight: GpuSight) -> GpuFlaw | None:
    """What is wrong with a GPU, None for nothing that could be seen."""
    flaw = _find_bus_flaw(sight) or _find_driver_flaw(sight)
    if flaw is None:
        return None
    return GpuFlaw(sentence=f"GPU {sight.address}{flaw.sentence}", may_pass=flaw.may_pass)


def explain_driver(driver: str) -> str:
    """What it means that another driver than NVIDIA's is bound to a GPU, or none (empty)."""
    if not driver:
        return ": no driver is bound to it"
    if driver.startswith(_VIRTUAL) or driver.endswith(f"_{_VIRTUAL}_pci"):
        return f" is bound to {driver}: it is handed to a virtual machine"
    return f" is bound to {driver}, so NVIDIA's driver does not have it"


def _find_bus_flaw(sight: GpuSight) -> GpuFlaw | None:
    if sight.is_present is False:
        return GpuFlaw(sentence=" is not on the PCI bus", may_pass=False)
    if sight.is_lost:
        sentence = " has fallen off the bus: it answers nothing until it is reset, or the machine"
        return GpuFlaw(sentence=f"{sentence} restarted", may_pass=False)
    if sight.driver not in (None, DRIVER):
        return GpuFlaw(sentence=explain_driver(sight.driver or ""), may_pass=not sight.driver)
    return None


def _find_driver_flaw(sight: GpuSight) -> GpuFlaw | None:
    if sight.is_known is False:
        sentence = ": NVIDIA's driver does not list it; its kernel log says why"
        return GpuFlaw(sentence=sentence, may_pass=True)
    match sight.node_error:
        case None | "":
            return None
        case "ENOENT" | "ENXIO":
            sentence = f": there is no device {sight.node}; `nvidia-modprobe -c 0 -u` makes them"
            return GpuFlaw(sentence=sentence, may_pass=True)
        case "EACCES":
            # Its permissions may be set a moment after it is made.
            sentence = f": this user may not open {sight.node}; see its permissions"
            return GpuFlaw(sentence=sentence, may_pass=True)
        case "EPERM":
            sentence = f": {sight.node} is forbidden here; see the device rules of this container"
            return GpuFlaw(sentence=f"{sentence} or unit", may_pass=False)
        case error:
            sentence = f": {sight.node} cannot be opened ({error}); the kernel log says why"
            return GpuFlaw(sentence=sentence, may_pass=True)


def are_in_the_way(
    rooms: Sequence[GpuRoom], *, share: float, needed: tuple[int, int | None]
) -> bool | None:
    """Whether what others hold of these GPUs forbids a start; None where that is not known.

    Little is never in the way: at most ``share`` of each GPU. ``needed`` are the bytes that the
    service needs on all of them together, at least and at most (None: nobody knows).
    """
    if not any(room.held_bytes > share * room.total_bytes for room in rooms):
        return False
    free_bytes = count_free(rooms)
    least, most = needed
    if least > free_bytes:
        return True
    return None if most is None or most > free_bytes else False


def count_free(rooms: Sequence[GpuRoom]) -> int:
    """Bytes that nobody else holds, on all GPUs together."""
    return sum(max(room.total_bytes - room.held_bytes, 0) for room in rooms)


def say_holds(holds: Sequence[GpuHold], rooms: Mapping[str, GpuRoom]) -> str:
    """Who holds which GPU, in one sentence for a person."""
    told = [
        f"GPU {address} is held{_say_programs(address, holds)}: {format_bytes(room.held_bytes)} "
        f"of {format_bytes(room.total_bytes)} are in use"
        for address, room in rooms.items()
        if room.held_bytes
    ]
    return "; ".join(told)


def _say_programs(address: str, holds: Sequence[GpuHold]) -> str:
    names = [_say_program(hold) for hold in holds if hold.address == address]
    return f" by {', '.join(names)}" if names else ""


def _say_program(hold: GpuHold) -> str:
    name = visible(hold.name)[:_NAME_CHARACTERS]
    return f"{name} (process {hold.pid})" if name else f"process {hold.pid}"
