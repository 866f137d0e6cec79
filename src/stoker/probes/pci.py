"""Which display and 3D controllers sit on the PCI bus, of whatever vendor and driver."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.reading import read_if_any, read_link_if_any

_BUS_PATH = "/sys/bus"
_DEVICES_PATH = "/sys/bus/pci/devices"
#: The base class of display controllers, 3D controllers included (PCI Code and ID Assignment).
_DISPLAY_CLASS = "0x03"

Device = dict[str, str | None]


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The devices of the display class as JSON, by address."""
    return {"devices": json.dumps(read_devices(host))}


def read_devices(host: ReadableHost) -> list[Device]:
    """The display controllers; none where the kernel knows no PCI bus. Raises HostError."""
    if "pci" not in host.list_folder(_BUS_PATH):
        return []
    classes = {
        address: read_if_any(host, f"{_DEVICES_PATH}/{address}/class") or ""
        for address in host.list_folder(_DEVICES_PATH)
    }
    return [
        _read_device(host, address, class_.strip())
        for address, class_ in classes.items()
        if class_.startswith(_DISPLAY_CLASS)
    ]


def _read_device(host: ReadableHost, address: str, class_: str) -> Device:
    folder = f"{_DEVICES_PATH}/{address}"
    driver = read_link_if_any(host, f"{folder}/driver")
    return {
        "address": address,
        "vendor": (read_if_any(host, f"{folder}/vendor") or "").strip() or None,
        "device": (read_if_any(host, f"{folder}/device") or "").strip() or None,
        "class": class_,
        "driver": posixpath.basename(driver) if driver else None,
    }


def parse(raw: Mapping[str, str]) -> list[Device]:
    """One row a controller; numbers as the kernel writes them (``0x10de``)."""
    devices: list[Device] = json.loads(raw["devices"])
    return devices


PROBE = Probe(id="pci", source=_DEVICES_PATH, read=read, parse=parse)
