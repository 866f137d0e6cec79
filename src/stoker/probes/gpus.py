"""The NVIDIA GPUs, their memory and who holds it, as NVIDIA's management library knows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.children import run_reader
from stoker.probes.control_groups import name_owner
from stoker.probes.listeners import parse_users
from stoker.probes.pci import read_devices
from stoker.probes.reading import read_if_any

_READER = "stoker.probes.nvml_reader"
_TIMEOUT_SECONDS = 20.0
#: NVIDIA's number among the makers of PCI devices (pci-ids).
_VENDOR = "0x10de"
#: The driver's control device. It is there wherever the driver is, in containers without a view
#: of the PCI bus and on boards that have their GPU elsewhere too.
_DRIVER = "/dev/nvidiactl"


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """What sits on the PCI bus, and what the library says in a child process.

    The library is not asked where there can be no GPU for it: the child costs a tenth of a second
    of every plan.
    """
    pci = _read_bus(host)
    raw = {} if pci is None else {"pci": pci}
    if not _may_have_gpus(host, pci):
        return {**raw, "nvml": json.dumps({"error": "no driver"})}
    raw["nvml"] = run_reader(
        host, _READER, timeout_seconds=_TIMEOUT_SECONDS, subject="NVIDIA's driver"
    )
    return {**raw, "passwd": read_if_any(host, "/etc/passwd") or ""}


def may_have_gpus(host: ReadableHost) -> bool:
    """Whether this machine may have a GPU of NVIDIA's: the bus or the driver shows one."""
    return _may_have_gpus(host, _read_bus(host))


def _may_have_gpus(host: ReadableHost, pci: str | None) -> bool:
    is_surely_none = pci is not None and not _nvidia_in(pci) and not host.stat(_DRIVER)
    return not is_surely_none


def _read_bus(host: ReadableHost) -> str | None:
    """The devices of the bus as JSON; None if nobody can say that there is no GPU."""
    try:
        return json.dumps(read_devices(host))
    except HostError:
        return None


def _nvidia_in(pci: str) -> list[str]:
    """The addresses of NVIDIA's devices among those of the bus."""
    return [device["address"] for device in json.loads(pci) if device["vendor"] == _VENDOR]


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """Versions and GPUs; ``reason`` where there surely is no GPU.

    Raises ValueError when the library gave no answer although there may be a GPU.
    """
    answer: dict[str, Any] = json.loads(raw["nvml"])
    if "error" in answer:
        return _explain_none(str(answer["error"]), raw.get("pci"))
    return {
        "driver_version": answer["driver_version"],
        "cuda_version": answer["cuda_version"],
        "gpus": [_parse_gpu(gpu, parse_users(raw.get("passwd", ""))) for gpu in answer["gpus"]],
    }


def _parse_gpu(gpu: Mapping[str, Any], users: Mapping[str, str]) -> dict[str, Any]:
    processes = gpu["processes"]
    told = processes and [name_owner(row, users) for row in processes]
    return {**gpu, "pci_bus_id": shorten_address(gpu["pci_bus_id"]), "processes": told}


def _explain_none(error: str, pci: str | None) -> dict[str, object]:
    if pci is None:
        raise ValueError(f"{error}, and the PCI bus could not be read")
    found = _nvidia_in(pci)
    if found:
        raise ValueError(f"{error}, although there is an NVIDIA device at {', '.join(found)}")
    reason = f"no NVIDIA device is on the PCI bus ({error})"
    return {"driver_version": None, "cuda_version": None, "gpus": [], "reason": reason}


def shorten_address(bus_id: str | None) -> str | None:
    """NVML's address as the kernel writes it: ``0000:1b:00.0`` for ``00000000:1B:00.0``."""
    if bus_id is None:
        return None
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


PROBE = Probe(id="gpus", source="NVML, /sys/bus/pci/devices", read=read, parse=parse)
