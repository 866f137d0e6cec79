"""Two GPUs and who uses them, as the probes tell it; tests change one thing each."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from stoker.model.facts import Facts
from tests.knowledge.cases import ENVIRONMENT, GGUF, GIB, make_facts

ENGINE = {"kind": "llamacpp", "environment": f"path:{ENVIRONMENT}/bin/llama-server"}
A, B = "0000:41:00.0", "0000:61:00.0"


def user(pid: int, used: int | None, **changes: Any) -> dict[str, Any]:
    """A process that uses memory, as the gpus probe tells it."""
    row = {
        "pid": pid,
        "used_bytes": used,
        "is_graphics": False,
        "is_holder": True,
        "process": f"{pid}:77",
        "parent": 1,
        "group": pid,
        "command": "python3 /usr/bin/python3 train.py",
        "user": "alice",
        "unit": None,
        "manager": None,
        "container": None,
    }
    return {**row, **changes}


def gpu(index: int, used: int | None, *processes: Any, **changes: Any) -> dict[str, Any]:
    """A GPU of 80 GiB with its processes, as the gpus probe tells it."""
    row = {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H200",
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": used,
        "pci_bus_id": (A, B)[index],
        "processes": list(processes),
    }
    return {**row, **changes}


def opener(pid: int, *addresses: str) -> dict[str, Any]:
    """A process that has GPUs open, as the gpu_holders probe tells it."""
    row = user(pid, None)
    del row["used_bytes"], row["is_graphics"], row["is_holder"]
    return {**row, "gpus": list(addresses), "is_mapped_only": False}


def topology_of(*gpus: Any, **changes: Any) -> dict[str, Any]:
    """How these GPUs are joined, as the topology probe tells it: by PCIe, below one processor.

    ``changes`` are keys of every pair.
    """
    indices = [each["index"] for each in gpus]
    pair = {"way": "numa-node", "nvlink": False, "can_peer": True, "refusal": None, **changes}
    alone = {
        "numa_node": 0,
        "nvlink_count": None,
        "has_switch": None,
        "fabric": None,
        "is_persistent": True,
        "is_divided": False,
        "virtualization": "none",
    }
    return {
        "gpus": [
            {"index": each["index"], "pci_bus_id": each.get("pci_bus_id"), **alone} for each in gpus
        ],
        "pairs": [{"gpus": list(both), **pair} for both in combinations(indices, 2)],
    }


def facts_with(*gpus: Any, holders: Any = (), size: int = 10 * GIB, **changes: Any) -> Facts:
    """A host with these GPUs, and a model of this size."""
    probes = {
        "gpus": {"gpus": list(gpus)},
        "gpu_holders": {"gpus": [], "holders": list(holders), "is_whole": True, "reason": None},
        "pci": [
            {"address": each["pci_bus_id"], "vendor": "0x10de", "driver": "nvidia"} for each in gpus
        ],
        "topology": topology_of(*gpus),
        "model": {**GGUF, "size_bytes": size},
    }
    return make_facts(**{**probes, **changes})
