"""The NVIDIA GPUs, their memory and who holds it, as NVIDIA's management library knows them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Command, Probe, ReadableHost
from stoker.probes.pci import read_devices

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
    raw = {}
    with suppress(HostError):  # without it nobody can say that there is no GPU
        raw["pci"] = json.dumps(read_devices(host))
    is_surely_none = "pci" in raw and not _nvidia_in(raw["pci"]) and not host.stat(_DRIVER)
    raw["nvml"] = json.dumps({"error": "no driver"}) if is_surely_none else _run_reader(host)
    return raw


def _nvidia_in(pci: str) -> list[str]:
    """The addresses of NVIDIA's devices among those of the bus."""
    return [device["address"] for device in json.loads(pci) if device["vendor"] == _VENDOR]


def _run_reader(host: ReadableHost) -> str:
    # Our own import path, so that the child finds the package wherever it is installed; -P keeps
    # the folder that the child starts in out of it.
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C.UTF-8"}
    if "LD_LIBRARY_PATH" in os.environ:
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]  # where some hosts keep the driver
    argv = (sys.executable, "-P", "-m", _READER)
    result = host.run(Command(argv=argv, timeout_seconds=_TIMEOUT_SECONDS, env=env))
    if result.timed_out:
        raise HostError(f"NVIDIA's driver did not answer within {_TIMEOUT_SECONDS:.0f} seconds")
    if result.exit_status != 0:
        last = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise HostError(f"NVIDIA's driver could not be asked (status {result.exit_status}): {last}")
    return result.stdout


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
        "gpus": [{**gpu, "pci_bus_id": _shorten(gpu["pci_bus_id"])} for gpu in answer["gpus"]],
    }


def _explain_none(error: str, pci: str | None) -> dict[str, object]:
    if pci is None:
        raise ValueError(f"{error}, and the PCI bus could not be read")
    found = _nvidia_in(pci)
    if found:
        raise ValueError(f"{error}, although there is an NVIDIA device at {', '.join(found)}")
    reason = f"no NVIDIA device is on the PCI bus ({error})"
    return {"driver_version": None, "cuda_version": None, "gpus": [], "reason": reason}


def _shorten(bus_id: str | None) -> str | None:
    """The address as the kernel writes it: ``0000:1b:00.0`` for ``00000000:1B:00.0``."""
    if bus_id is None:
        return None
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


PROBE = Probe(id="gpus", source="NVML, /sys/bus/pci/devices", read=read, parse=parse)
