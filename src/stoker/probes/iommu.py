"""Whether this machine's IOMMU translates what GPUs read of each other, and whether PCIe switches
send such reads the long way, through the processor.

Both make transfers between GPUs over PCIe slow, or make them stall or fail although the driver
calls them possible. It reads and sets nothing.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.pci import read_devices
from stoker.probes.reading import read_if_any, read_link_if_any

_CLASSES_PATH = "/sys/class"
_CLASS_PATH = "/sys/class/iommu"
_GROUPS_PATH = "/sys/kernel/iommu_groups"
_DEVICES_PATH = "/sys/bus/pci/devices"
_CPUINFO_BYTES = 1 << 14
#: NVIDIA's number among the makers of PCI devices (pci-ids).
_VENDOR = "0x10de"
_OPTION = re.compile(r"(iommu|intel_iommu|amd_iommu)[.=]")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

#: The configuration space of a PCI Express device; of another user's reading the kernel gives the
#: first 64 bytes alone (Documentation/PCI, sysfs).
_CONFIG_BYTES = 4096
_EXTENDED_AT = 0x100
#: PCI Express Base Specification: extended capability of Access Control Services, and the bits of
#: its control register that redirect requests and their completions.
_ACS_ID = 0x000D
_ACS_CONTROL_AT = 6
_REDIRECTS = 0x000C
_MOST_CAPABILITIES = 96
#: PCI Express Base Specification: the capability that names the kind of a port, and the kind of
#: those of a switch that lead down. What goes from one root port to another goes through the
#: processor anyway.
_EXPRESS_ID = 0x10
_SWITCH_PORT = 6
_LIST_AT = 0x34

#: Documentation/ABI/testing/sysfs-kernel-iommu_groups: what a group's type means for addresses.
_TRANSLATES = {"DMA": True, "DMA-FQ": True, "identity": False}


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """What the kernel says of its IOMMUs, and for each GPU its group and the bridges above it."""
    raw = {
        "units": " ".join(_list_units(host)),
        "cmdline": read_if_any(host, "/proc/cmdline") or "",
        "is_guest": str(_is_guest(host)),
    }
    gpus = [each for each in read_devices(host) if each["vendor"] == _VENDOR]
    rows = [_read_gpu(host, str(each["address"])) for each in gpus]
    bridges = {address: _read_config(host, address) for address in _addresses(rows)}
    return {**raw, "gpus": json.dumps(rows), "bridges": json.dumps(bridges)}


def _list_units(host: ReadableHost) -> tuple[str, ...]:
    """The IOMMUs that the kernel uses; none where it has no such class. Raises HostError."""
    if "iommu" not in host.list_folder(_CLASSES_PATH):
        return ()
    return host.list_folder(_CLASS_PATH)


def _is_guest(host: ReadableHost) -> bool:
    """Whether a hypervisor runs this kernel, as processors of x86 tell."""
    try:
        text = host.read_text("/proc/cpuinfo", _CPUINFO_BYTES)
    except HostError:
        return False
    return any("hypervisor" in line.split() for line in text.splitlines())


def _read_gpu(host: ReadableHost, address: str) -> dict[str, Any]:
    folder = f"{_DEVICES_PATH}/{address}"
    group = posixpath.basename(read_link_if_any(host, f"{folder}/iommu_group") or "")
    kind = read_if_any(host, f"{_GROUPS_PATH}/{group}/type") if group else None
    path = read_link_if_any(host, folder) or ""
    above = [part for part in path.split("/") if _ADDRESS.fullmatch(part) and part != address]
    return {"address": address, "group": group or None, "type": kind, "bridges": above}


def _addresses(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from dict.fromkeys(address for row in rows for address in row["bridges"])


def _read_config(host: ReadableHost, address: str) -> str | None:
    """The configuration space in hexadecimal, as much of it as this user may see."""
    try:
        return host.read_bytes(f"{_DEVICES_PATH}/{address}/config", 0, _CONFIG_BYTES).hex()
    except HostError:
        return None


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """``is_on``; ``option``: what the kernel was started with; ``is_guest``; ``gpus`` with their
    groups, and for all of them:

    ``translates``: the addresses that GPUs use are translated (no pass-through). ``redirects``: a
    PCIe switch above a GPU sends transfers between GPUs up to the processor. None where that
    cannot be seen, with the ``reason``; in a virtual machine its host decides.
    """
    is_guest = raw["is_guest"] == "True"
    rows: list[dict[str, Any]] = json.loads(raw["gpus"])
    bridges: dict[str, str | None] = json.loads(raw["bridges"])
    is_on = bool(raw["units"].split())
    redirecting = {address: _redirects(config) for address, config in bridges.items()}
    gpus = [_parse_gpu(row, redirecting, is_on=is_on, is_guest=is_guest) for row in rows]
    return {
        "is_on": is_on,
        "option": _find_option(raw["cmdline"]),
        "is_guest": is_guest,
        "gpus": gpus,
        "translates": _any_of([gpu["translates"] for gpu in gpus]),
        "redirects": _any_of([gpu["redirects"] for gpu in gpus]),
        "reason": _explain(gpus, redirecting, is_guest=is_guest),
    }


def _parse_gpu(
    row: Mapping[str, Any],
    redirecting: Mapping[str, bool | None],
    *,
    is_on: bool,
    is_guest: bool,
) -> dict[str, Any]:
    kind = (row["type"] or "").strip() or None
    seen = _TRANSLATES.get(kind or "") if is_on else False
    return {
        "address": row["address"],
        "group": row["group"],
        "type": kind,
        # A guest's addresses are translated by its host, whatever the guest sees.
        "translates": seen or None if is_guest else seen,
        "redirects": None if is_guest else _any_of([redirecting[each] for each in row["bridges"]]),
    }


def _redirects(config: str | None) -> bool | None:
    """Whether this is a port of a switch that redirects transfers between devices below it.

    None if it is not seen. Raises ValueError for a text that is no configuration space.
    """
    data = bytes.fromhex(config or "")
    if len(data) < _CONFIG_BYTES or data[:4] == b"\xff\xff\xff\xff":
        return None
    if _find_port_kind(data) != _SWITCH_PORT:
        return False
    offset = _EXTENDED_AT
    for _ in range(_MOST_CAPABILITIES):
        header = _number(data, offset, 4)
        if header & 0xFFFF == _ACS_ID:
            return bool(_number(data, offset + _ACS_CONTROL_AT, 2) & _REDIRECTS)
        offset = header >> 20
        if not _EXTENDED_AT < offset <= _CONFIG_BYTES - 8:
            return False
    raise ValueError("the list of a bridge's capabilities has no end")


def _find_port_kind(data: bytes) -> int | None:
    """What kind of port a device is; None for one that is of another bus."""
    offset = data[_LIST_AT]
    for _ in range(_MOST_CAPABILITIES):
        if offset < _LIST_AT:
            return None
        if data[offset] == _EXPRESS_ID:
            return _number(data, offset + 2, 2) >> 4 & 0xF
        offset = data[offset + 1]
    raise ValueError("the list of a bridge's capabilities has no end")


def _number(data: bytes, offset: int, length: int) -> int:
    return int.from_bytes(data[offset : offset + length], "little")


def _find_option(cmdline: str) -> str | None:
    """What the kernel's command line says of the IOMMU."""
    return " ".join(word for word in cmdline.split() if _OPTION.match(word)) or None


def _explain(
    gpus: Sequence[Mapping[str, Any]],
    redirecting: Mapping[str, bool | None],
    *,
    is_guest: bool,
) -> str | None:
    if is_guest and gpus:
        return "this is a virtual machine, and its host decides"
    if any(gpu["translates"] is None for gpu in gpus):
        return "the kernel does not tell the type of the GPUs' groups"
    if None in redirecting.values():
        return "only root sees the whole configuration of PCIe switches"
    return None


def _any_of(answers: Iterable[bool | None]) -> bool | None:
    """One yes settles it; otherwise one unknown leaves it open."""
    known = list(answers)
    if True in known:
        return True
    return None if None in known else False


PROBE = Probe(
    id="iommu", source=f"{_CLASS_PATH}, {_GROUPS_PATH}, {_DEVICES_PATH}", read=read, parse=parse
)
