"""Ask NVIDIA's management library how the GPUs are joined; print the answers as one line of JSON.

Run as a child process by the topology probe and never imported for its answers, for the reason
that :mod:`stoker.probes.nvml_reader` has. Prints ``{"gpus", "pairs"}`` with the library's own
numbers, or ``{"error"}``; what a GPU or a driver does not tell is null. It asks and sets nothing.
"""

from __future__ import annotations

import json
import sys
from ctypes import byref
from itertools import combinations
from typing import Any

from stoker.probes.nvml_reader import Handle, Library, ask, ask_library, to_text

#: What a pair of GPUs may do with each other's memory, by NVML's index (nvml.h,
#: nvmlGpuP2PCapsIndex_t). The binding's own name of the first is no number.
_ABILITIES = {"read": 0, "write": 1, "nvlink": 2}


def main() -> int:
    """Print the answers; the exit status is 0 also when the library says no."""
    sys.stdout.write(json.dumps(ask_library(read_all)) + "\n")
    return 0


def read_all(library: Library) -> dict[str, object]:
    """Every GPU, and every pair of them once."""
    count = library.nvmlDeviceGetCount()
    handles = [ask(library, library.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    return {
        "gpus": [_read_gpu(library, index, handle) for index, handle in enumerate(handles)],
        "pairs": [
            _read_pair(library, pair, (handles[pair[0]], handles[pair[1]]))
            for pair in combinations(range(count), 2)
        ],
    }


def _read_gpu(library: Library, index: int, handle: Handle) -> dict[str, object]:
    pci = ask(library, library.nvmlDeviceGetPciInfo, handle)
    mig = ask(library, library.nvmlDeviceGetMigMode, handle)
    return {
        "index": index,
        "pci_bus_id": None if pci is None else to_text(pci.busId),
        "persistence": ask(library, library.nvmlDeviceGetPersistenceMode, handle),
        "mig": None if mig is None else mig[0],
        "virtualization": ask(library, library.nvmlDeviceGetVirtualizationMode, handle),
        "fabric": _read_fabric(library, handle),
        "links": _read_links(library, handle),
    }


def _read_fabric(library: Library, handle: Handle) -> dict[str, int] | None:
    """How far the GPU has come in joining a fabric of NVLink switches."""
    fabric = library.c_nvmlGpuFabricInfo_v2_t()
    if ask(library, library.nvmlDeviceGetGpuFabricInfoV, handle, byref(fabric)) is None:
        return None
    return {"state": int(fabric.state), "status": int(fabric.status)}


def _read_links(library: Library, handle: Handle) -> list[dict[str, Any]] | None:
    """The NVLinks that are up, each with what is at its other end; None if nobody can say."""
    states = {
        link: ask(library, library.nvmlDeviceGetNvLinkState, handle, link)
        for link in range(library.NVML_NVLINK_MAX_LINKS)
    }
    if set(states.values()) == {None}:
        return None
    return [_read_link(library, handle, link) for link, state in states.items() if state]


def _read_link(library: Library, handle: Handle, link: int) -> dict[str, Any]:
    peer = ask(library, library.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    return {
        "link": link,
        "peer_kind": ask(library, library.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link),
        "peer": None if peer is None else to_text(peer.busId),
    }


def _read_pair(
    library: Library, pair: tuple[int, int], handles: tuple[Handle, Handle]
) -> dict[str, object]:
    one, other = handles
    abilities = {
        name: ask(library, library.nvmlDeviceGetP2PStatus, one, other, index)
        for name, index in _ABILITIES.items()
    }
    ancestor = ask(library, library.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return {"gpus": list(pair), "ancestor": ancestor, **abilities}


if __name__ == "__main__":
    sys.exit(main())
