"""Which of NVIDIA's kernel drivers is loaded: its version, and whether it is the open flavour."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.errors import NotFound
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.reading import read_if_any

_VERSION_PATH = "/proc/driver/nvidia/version"
_MODULE_PATH = "/sys/module/nvidia/version"

#: The first line of the driver's own file; between the flavours its words differ and their order.
_LINE = re.compile(
    r"^NVRM version: +NVIDIA UNIX (?P<open>Open Kernel Module for )?(?P<arch>\w+)"
    r"(?: Kernel Module)? +(?P<version>\d+(?:\.\d+){1,2})",
    re.MULTILINE,
)


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The driver's own words. No file means that no driver is loaded."""
    try:
        return {"version": host.read_text(_VERSION_PATH)}
    except NotFound:
        return {"version": "", "module": read_if_any(host, _MODULE_PATH) or ""}


def parse(raw: Mapping[str, str]) -> dict[str, str | None]:
    """``version`` and ``flavour`` (open, proprietary); both None where no driver is loaded.

    A container that shows the module without the driver's folder leaves the flavour open.
    """
    if not raw["version"]:
        return {"version": raw.get("module", "").strip() or None, "flavour": None}
    found = _LINE.search(raw["version"])
    if found is None:
        raise ValueError(f"{_VERSION_PATH} begins with {raw['version'][:60]!r}")
    return {"version": found["version"], "flavour": "open" if found["open"] else "proprietary"}


PROBE = Probe(id="driver", source=_VERSION_PATH, read=read, parse=parse)
