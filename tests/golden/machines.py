"""The facts of a pair: a machine, an engine's environment and a model, as the probes tell them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from stoker.model.facts import Facts, Observation
from tests.knowledge.cases import HEALTHY

HERE = Path(__file__).parent
GIB = 1 << 30
Row = Mapping[str, Any]


def read_facts(*, machine: str, stack: str, model: str, draft: str | None = None) -> Facts:
    """Everything that was observed for a pair."""
    machines = tomllib.loads((HERE / "machines.toml").read_text())
    packages = tomllib.loads((HERE / "stacks.toml").read_text())[stack]
    probes = {
        **{probe: HEALTHY[probe] for probe in ("listeners", "interpreters")},
        "reach": {"user": "nobody", "exists": True, "folders": {}},
        **describe_machine(machines[machine]),
        "engine_packages": describe_packages(packages),
        "engine": {"state": "answered", "version_text": "Python 3.12.3", "exit_status": 0},
        "model": read_model(model),
        **({"draft": read_model(draft)} if draft else {}),
    }
    seen = {probe: Observation(probe=probe, value=value) for probe, value in probes.items()}
    return Facts(host=machine, stoker_version="0", observations=seen)


def read_model(name: str) -> Any:
    """What the model probe said of a model; `record.py` asked it."""
    return json.loads((HERE / "models" / f"{name}.json").read_text())


def describe_packages(packages: Row) -> dict[str, Any]:
    """An environment with these distributions."""
    cuda = packages["torch"].partition("+cu")[2]
    return {
        "state": "read",
        "interpreter": "/opt/engine/bin/python3",
        "prefix": "/opt/engine",
        "packages": dict(packages),
        "doubled": {},
        "origins": {},
        "torch_cuda": f"{cuda[:-1]}.{cuda[-1]}",
    }


def describe_machine(row: Row) -> dict[str, Any]:
    """The facts of the machine itself."""
    addresses = [f"0000:{index + 1:02x}:00.0" for index in range(row["count"])]
    return {
        "gpus": {
            "driver_version": row["driver"],
            "cuda_version": row["cuda"],
            "gpus": [_gpu(row, index, address) for index, address in enumerate(addresses)],
        },
        "topology": _topology(row, addresses),
        "driver": {"version": row["driver"], "flavour": row.get("flavour", "open")},
        "pci": [
            {"address": address, "vendor": "0x10de", "device": row["device"], "driver": "nvidia"}
            for address in addresses
        ],
        "gpu_holders": {"gpus": [], "holders": [], "is_whole": True, "reason": None},
        "iommu": _iommu(addresses),
        "limits": {"memory_lock_bytes": None, "open_files": 1048576, "ptrace_scope": 1},
        "shm": {
            "size_bytes": row["host_gib"] * GIB // 2,
            "free_bytes": row["host_gib"] * GIB // 2,
            "is_own": True,
        },
        "memory": {
            "total_bytes": row["host_gib"] * GIB,
            "available_bytes": row["host_gib"] * GIB * 9 // 10,
            "limit_bytes": row["host_gib"] * GIB,
            "usable_bytes": row["host_gib"] * GIB * 9 // 10,
        },
        "cpu": {"physical_count": 64, "usable_cores": 64},
    }


def _gpu(row: Row, index: int, address: str) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index:08}",
        "name": row["gpu"],
        "memory_total_bytes": int(row["memory_gib"] * GIB),
        "memory_used_bytes": GIB // 2,
        "compute_capability": row["capability"],
        "pci_bus_id": address,
        "processes": [],
    }


def _topology(row: Row, addresses: list[str]) -> dict[str, Any]:
    is_linked = row.get("links") == "nvlink"
    pairs = [
        {
            "gpus": list(pair),
            "way": row["way"],
            "nvlink": is_linked,
            "can_peer": row["can_peer"],
            "refusal": None if row["can_peer"] else "the chipset does not support it",
        }
        for pair in combinations(range(len(addresses)), 2)
    ]
    gpus = [
        {
            "index": index,
            "pci_bus_id": address,
            "numa_node": 0,
            "nvlink_count": 18 if is_linked else 0,
            "has_switch": is_linked,
            "fabric": "completed" if is_linked else "none",
            "is_persistent": True,
            "is_divided": False,
            "virtualization": "none",
        }
        for index, address in enumerate(addresses)
    ]
    return {
        "gpus": gpus,
        "pairs": pairs,
        "links": row.get("links"),
        "can_peer": row.get("can_peer"),
        "way": row.get("way"),
        "has_switch": is_linked,
    }


def _iommu(addresses: list[str]) -> dict[str, Any]:
    gpus = [
        {"address": address, "group": None, "type": None, "translates": False, "redirects": False}
        for address in addresses
    ]
    return {
        "is_on": False,
        "option": None,
        "is_guest": False,
        "gpus": gpus,
        "translates": False,
        "redirects": False,
        "reason": None,
    }
