"""How the GPUs are joined: NVLink, the PCIe way between each two, and what each may read of the
other's memory, as NVIDIA's management library knows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.children import run_reader
from stoker.probes.gpus import may_have_gpus, shorten_address
from stoker.probes.reading import read_if_any

_READER = "stoker.probes.topology_reader"
_TIMEOUT_SECONDS = 20.0
_DEVICES_PATH = "/sys/bus/pci/devices"

#: nvml.h, nvmlGpuTopologyLevel_t; the words in brackets are those of ``nvidia-smi topo -m``.
_WAYS = {
    0: "same-board",
    10: "one-switch",  # PIX
    20: "switches",  # PXB
    30: "host-bridge",  # PHB
    40: "numa-node",  # NODE
    50: "system",  # SYS
}
#: nvml.h, nvmlGpuP2PStatus_t: why two GPUs cannot reach each other's memory.
_REFUSALS = {
    1: "the chipset does not support it",
    2: "the GPU does not support it",
    3: "the way between them does not support it",
    4: "it is disabled in the driver's settings",
    5: "it is not supported",
}
_OK = 0
_UNSURE = 6
_SWITCH = 2
#: nvml.h, NVML_GPU_FABRIC_STATE_*, and nvmlGpuVirtualizationMode_t.
_FABRIC = {0: "none", 1: "not-started", 2: "in-progress", 3: "completed"}
_VIRTUALIZATION = {0: "none", 1: "pass-through", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """What the library says in a child process, and the NUMA node of each of its GPUs."""
    if not may_have_gpus(host):
        return {"nvml": json.dumps({"gpus": [], "pairs": []})}
    answer = run_reader(host, _READER, timeout_seconds=_TIMEOUT_SECONDS, subject="NVIDIA's driver")
    return {"nvml": answer, "nodes": json.dumps(_read_nodes(host, answer))}


def _read_nodes(host: ReadableHost, answer: str) -> dict[str, str]:
    try:
        addresses = [shorten_address(gpu["pci_bus_id"]) for gpu in json.loads(answer)["gpus"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}  # the parser says what is wrong with the answer
    texts = {
        address: read_if_any(host, f"{_DEVICES_PATH}/{address}/numa_node")
        for address in addresses
        if address
    }
    return {address: text.strip() for address, text in texts.items() if text is not None}


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """``gpus``, ``pairs`` (each pair once, by index), and what holds for all GPUs together:

    ``links``: ``nvlink`` where every GPU reaches every other one over NVLink, else ``pcie``; None
    where there are fewer than two. ``can_peer``: every GPU may read and write every other one's
    memory, as far as the driver says; a driver may promise what the machine's IOMMU spoils.
    ``way``: the longest PCIe way of a pair. ``has_switch``: NVLink switches. Unknown parts are
    None. Raises ValueError when the library gave no answer.
    """
    answer: dict[str, Any] = json.loads(raw["nvml"])
    if "error" in answer:
        raise ValueError(str(answer["error"]))
    nodes: dict[str, str] = json.loads(raw.get("nodes", "{}"))
    gpus = [_parse_gpu(gpu, nodes) for gpu in answer["gpus"]]
    pairs = [_parse_pair(pair) for pair in answer["pairs"]]
    return {"gpus": gpus, "pairs": pairs, **_join(pairs), "has_switch": _find_switch(gpus)}


def _join(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not pairs:
        return {"links": None, "can_peer": None, "way": None}
    is_linked = _all_known([pair["nvlink"] for pair in pairs])
    ways = [pair["way"] for pair in pairs]
    order = list(_WAYS.values())
    return {
        "links": None if is_linked is None else "nvlink" if is_linked else "pcie",
        "can_peer": _all_known([pair["can_peer"] for pair in pairs]),
        "way": None if None in ways else max(ways, key=order.index),
    }


def _find_switch(gpus: Sequence[Mapping[str, Any]]) -> bool | None:
    """One that is seen settles it; otherwise one GPU that does not tell leaves it open."""
    known = [gpu["has_switch"] for gpu in gpus]
    return True if True in known else None if None in known else False


def _has_switch(peers: Sequence[int | None]) -> bool | None:
    return True if _SWITCH in peers else None if None in peers else False


def _parse_gpu(gpu: Mapping[str, Any], nodes: Mapping[str, str]) -> dict[str, Any]:
    address = shorten_address(gpu["pci_bus_id"])
    links = gpu["links"]
    node = nodes.get(address or "", "")
    return {
        "index": gpu["index"],
        "pci_bus_id": address,
        # The kernel writes -1 where the firmware does not say; that is no node.
        "numa_node": int(node) if node.isdigit() else None,
        "nvlink_count": None if links is None else len(links),
        "has_switch": None if links is None else _has_switch([each["peer_kind"] for each in links]),
        "fabric": None if gpu["fabric"] is None else _FABRIC.get(gpu["fabric"]["state"]),
        "is_persistent": _flag(gpu["persistence"]),
        "is_divided": _flag(gpu["mig"]),
        "virtualization": _VIRTUALIZATION.get(gpu["virtualization"]),
    }


def _parse_pair(pair: Mapping[str, Any]) -> dict[str, Any]:
    statuses = [pair["read"], pair["write"]]
    refusal = next((_REFUSALS[each] for each in statuses if each in _REFUSALS), None)
    return {
        "gpus": list(pair["gpus"]),
        "way": _WAYS.get(pair["ancestor"]),
        "nvlink": _allows(pair["nvlink"]),
        "can_peer": _all_known([_allows(status) for status in statuses]),
        "refusal": refusal,
    }


def _allows(status: int | None) -> bool | None:
    return None if status in (None, _UNSURE) else status == _OK


def _flag(value: int | None) -> bool | None:
    return None if value is None else value == 1


def _all_known(answers: Iterable[bool | None]) -> bool | None:
    """One no settles it; otherwise one unknown leaves it open."""
    known = list(answers)
    if False in known:
        return False
    return None if None in known else True


PROBE = Probe(id="topology", source="NVML, /sys/bus/pci/devices", read=read, parse=parse)
