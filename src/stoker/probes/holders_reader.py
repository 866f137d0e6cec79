"""Find the processes that have NVIDIA's devices open or mapped and print them as one line of JSON.

Run as a child process by the gpu_holders probe and never imported for its answers: looking through
all processes may hang where one of them is stuck, and then only a process can be given up. Devices
are told by their numbers, since in a container their names are others. Prints ``{"gpus",
"holders", "unread_count"}``.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from stoker.probes.process_reader import (
    PROC,
    Held,
    Numbers,
    Seen,
    describe_process,
    find_held,
)

_DRIVER_FOLDER = "driver/nvidia/gpus"
_DISPLAYS = "/sys/class/drm"


def main() -> int:
    """Print what there is; the exit status is 0 also without a GPU."""
    sys.stdout.write(json.dumps(read_holders()) + "\n")
    return 0


def read_holders(proc: str = PROC, displays: str = _DISPLAYS) -> dict[str, Any]:
    """The GPUs that the driver lists, and who holds a device of the driver."""
    gpus = read_gpus(proc)
    numbers = {**_gpu_numbers(gpus, proc), **_display_numbers(gpus, displays)}
    majors = dict.fromkeys(read_majors(proc), "") | dict.fromkeys(major for major, _ in numbers)
    rows, unread_count = scan(majors, numbers, driver=frozenset(read_majors(proc)), proc=proc)
    return {"gpus": gpus, "holders": rows, "unread_count": unread_count}


def scan(
    majors: Mapping[int, object],
    numbers: Mapping[Numbers, str],
    *,
    driver: frozenset[int],
    proc: str = PROC,
) -> tuple[list[dict[str, Any]], int]:
    """The processes that hold a device with one of these majors, by pid, and how many hid theirs.

    ``numbers`` are the devices that belong to one GPU, with its address. ``driver`` are the majors
    whose other devices belong to the driver as a whole.
    """
    if not majors:
        return [], 0
    rows, unread_count, seen = [], 0, Seen()
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdecimal()):
        held = find_held(pid, majors, seen=seen, proc=proc)
        unread_count += held is not None and not held.is_whole
        row = _describe(pid, held, numbers=numbers, driver=driver, proc=proc)
        if row is not None:
            rows.append(row)
    return rows, unread_count


def _describe(
    pid: int,
    held: Held | None,
    *,
    numbers: Mapping[Numbers, str],
    driver: frozenset[int],
    proc: str,
) -> dict[str, Any] | None:
    devices = held.opened | held.mapped if held else frozenset[Numbers]()
    addresses = sorted({numbers[each] for each in devices if each in numbers})
    has_driver = any(each[0] in driver for each in devices)
    described = describe_process(pid, proc) if addresses or has_driver else None
    if held is None or described is None:
        return None
    is_mapped = not held.opened and bool(held.mapped)
    return {"pid": pid, "gpus": addresses, "is_mapped_only": is_mapped, **described}


def read_majors(proc: str = PROC) -> dict[int, frozenset[str]]:
    """The majors of NVIDIA's character devices with all their names; none without the driver."""
    text = _read(f"{proc}/devices").partition("Block devices")[0]
    prefix = _rules()["prefix"]
    majors: dict[int, frozenset[str]] = {}
    for line in text.splitlines():
        number, _, name = line.strip().partition(" ")
        if number.isdecimal() and name.startswith(prefix):
            majors[int(number)] = majors.get(int(number), frozenset()) | {name}
    return majors


def read_gpus(proc: str = PROC) -> list[dict[str, Any]]:
    """The GPUs that the driver lists: ``address``, ``minor`` and ``uuid``, by address."""
    folder = f"{proc}/{_DRIVER_FOLDER}"
    try:
        addresses = sorted(os.listdir(folder))
    except OSError:
        return []
    return [parse_gpu(address, _read(f"{folder}/{address}/information")) for address in addresses]


def parse_gpu(address: str, information: str) -> dict[str, Any]:
    """One GPU from the text of /proc/driver/nvidia/gpus/ADDRESS/information."""
    pairs = (line.partition(":") for line in information.splitlines())
    told = {name.strip(): value.strip() for name, _, value in pairs}
    minor, uuid = told.get("Device Minor", ""), told.get("GPU UUID", "")
    return {
        "address": told.get("Bus Location", address).lower(),
        "minor": int(minor) if minor.isdecimal() else None,
        # A GPU that was not started yet has question marks for its number.
        "uuid": uuid if uuid and "?" not in uuid else None,
    }


def _gpu_numbers(gpus: list[dict[str, Any]], proc: str) -> dict[Numbers, str]:
    """The numbers of the nodes /dev/nvidiaN, with the address of the GPU."""
    rules = _rules()
    wanted, control = set(rules["gpu_majors"]), set(rules["control_minors"])
    majors = [major for major, names in read_majors(proc).items() if names & wanted]
    return {
        (major, gpu["minor"]): gpu["address"]
        for major in majors
        for gpu in gpus
        if gpu["minor"] is not None and gpu["minor"] not in control
    }


def _display_numbers(gpus: list[dict[str, Any]], displays: str) -> dict[Numbers, str]:
    """The numbers of the graphics nodes (/dev/dri) of the same GPUs, with their address."""
    addresses = {gpu["address"] for gpu in gpus}
    found = dict(_read_displays(displays))
    return {numbers: address for numbers, address in found.items() if address in addresses}


def _read_displays(displays: str) -> Iterator[tuple[Numbers, str]]:
    try:
        names = sorted(os.listdir(displays))
    except OSError:
        return
    for name in names:
        major, _, minor = _read(f"{displays}/{name}/dev").strip().partition(":")
        if major.isdecimal() and minor.isdecimal():
            device = os.path.realpath(f"{displays}/{name}/device")
            yield (int(major), int(minor)), os.path.basename(device)


def _rules() -> dict[str, Any]:
    text = files("stoker.probes").joinpath("nvidia_devices.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
