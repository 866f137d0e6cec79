"""Ask NVIDIA's management library about all GPUs and print the answers as one line of JSON.

Run as a child process by the gpus probe and never imported for its answers (the other reader of
the library, :mod:`stoker.probes.topology_reader`, shares its way of asking): the library may hang
in a sick driver, and then only a process can be ended. Prints ``{"driver_version", "cuda_version",
"gpus"}`` or ``{"error"}``; what a GPU does not support is null. Each process that uses memory is
described as far as it is seen from here, for looking at one that is stuck may hang as well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from stoker.probes.holders_reader import read_majors
from stoker.probes.process_reader import Held, Seen, describe_process, find_held

# The library is C behind ctypes without types: what comes out of it is checked by the probe.
Library = Any
Handle = Any


def main() -> int:
    """Print the answers; the exit status is 0 also when the library says no."""
    sys.stdout.write(json.dumps(describe_all(ask_library(read_all))) + "\n")
    return 0


def ask_library(question: Callable[[Library], dict[str, object]]) -> dict[str, object]:
    """What the question answers with the library at hand, or ``{"error"}``."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as error:
        return {"error": f"the package nvidia-ml-py is missing: {error}"}
    try:
        pynvml.nvmlInit()
        return question(pynvml)
    except pynvml.NVMLError as error:
        return {"error": str(error)}


def read_all(library: Library) -> dict[str, object]:
    """Versions and all GPUs."""
    cuda = ask(library, library.nvmlSystemGetCudaDriverVersion)
    # The number is 1000 * major + 10 * minor (nvml.h, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR).
    cuda_version = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"
    count = library.nvmlDeviceGetCount()
    return {
        "driver_version": ask(library, library.nvmlSystemGetDriverVersion),
        "cuda_version": cuda_version,
        "gpus": [read_gpu(library, index) for index in range(count)],
    }


def read_gpu(library: Library, index: int) -> dict[str, object]:
    """One GPU; of one that is lost, nothing but its index."""
    handle = ask(library, library.nvmlDeviceGetHandleByIndex, index)
    memory = ask(library, library.nvmlDeviceGetMemoryInfo, handle)
    capability = ask(library, library.nvmlDeviceGetCudaComputeCapability, handle)
    pci = ask(library, library.nvmlDeviceGetPciInfo, handle)
    return {
        "index": index,
        "uuid": ask(library, library.nvmlDeviceGetUUID, handle),
        "name": ask(library, library.nvmlDeviceGetName, handle),
        "memory_total_bytes": None if memory is None else memory.total,
        "memory_used_bytes": None if memory is None else memory.used,
        "compute_capability": None if capability is None else "{}.{}".format(*capability),
        "pci_bus_id": None if pci is None else to_text(pci.busId),
        "processes": read_processes(library, handle),
    }


def read_processes(library: Library, handle: Handle) -> list[dict[str, Any]] | None:
    """The processes that hold memory of a GPU, each once, by pid; None if nobody can say.

    ``is_graphics``: it draws with it and does not compute.
    """
    computing = ask(library, library.nvmlDeviceGetComputeRunningProcesses, handle)
    drawing = ask(library, library.nvmlDeviceGetGraphicsRunningProcesses, handle)
    if computing is None and drawing is None:
        return None
    used = {each.pid: each.usedGpuMemory for each in (*(drawing or ()), *(computing or ()))}
    computes = {each.pid for each in computing or ()}
    return [
        {"pid": pid, "used_bytes": used[pid], "is_graphics": pid not in computes}
        for pid in sorted(used)
    ]


def describe_all(answer: dict[str, Any]) -> dict[str, Any]:
    """The same answer, its processes described as :func:`describe_process` does.

    ``is_holder``: whether the process of this pid has a device of the driver open at all; without
    that the pid means another process, of another pid namespace. None if that cannot be seen.
    """
    majors, seen = read_majors(), Seen()
    for row in _rows(answer):
        held = find_held(row["pid"], majors, seen=seen) if majors else None
        row["is_holder"] = None if held is None else _holds(held)
        row.update(describe_process(row["pid"]) or {})
    return answer


def _rows(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for gpu in answer.get("gpus", ()):
        yield from gpu["processes"] or ()


def _holds(held: Held) -> bool | None:
    if held.opened or held.mapped:
        return True
    return False if held.is_whole else None


def ask(library: Library, question: Callable[..., Any], *arguments: object) -> Any:
    """The answer, or None where this GPU, driver or user gets none."""
    if None in arguments:
        return None
    try:
        answer = question(*arguments)
    except library.NVMLError:
        return None
    return to_text(answer) if isinstance(answer, bytes) else answer


def to_text(value: str | bytes) -> str:
    """A name, which the library's older bindings give as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    sys.exit(main())
