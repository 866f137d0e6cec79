"""Which GPUs a deployment means, and which of this machine's another driver has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.knowledge.derived.case import EMBEDDED, Case
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Facts, Plain, Unknown
from stoker.model.gpu import DRIVER, GpuDevice, explain_driver

#: NVIDIA's number among the makers of PCI devices (pci-ids).
_VENDOR = "0x10de"

Gpu = Mapping[str, Plain]


def choose_devices(
    deployment: Deployment, facts: Facts, table: EngineTable
) -> tuple[GpuDevice, ...] | Unknown:
    """The GPUs that the service is to have; none where its engine uses none.

    A GPU that does not answer has no address and is left out; a rule says so.
    """
    if not may_use_gpus(deployment, table):
        return ()
    chosen = choose_gpus(deployment.gpus, facts)
    if isinstance(chosen, Unknown):
        return chosen
    minors = _read_minors(facts)
    return tuple(
        GpuDevice(address=address, uuid=gpu.get("uuid"), minor=minors.get(address))
        for gpu in chosen
        if (address := gpu.get("pci_bus_id"))
    )


def may_use_gpus(deployment: Deployment, table: EngineTable) -> bool:
    """Whether the engine could compute on a GPU: what we installed may have been built without."""
    if deployment.gpus == "none":
        return False
    is_of_ours = deployment.engine.environment == EMBEDDED and table.embedded is not None
    return table.embedded.uses_gpus if is_of_ours and table.embedded else True


def choose_gpus(gpus: str | int | Sequence[int | str], facts: Facts) -> list[Gpu] | Unknown:
    """The rows of the gpus probe that a deployment's ``gpus`` mean, as far as they are there."""
    present = facts.read("gpus.gpus")
    if isinstance(present, Unknown):
        return present
    if isinstance(gpus, str):
        return list(present) if gpus == "all" else []
    wanted = {str(name) for name in (range(gpus) if isinstance(gpus, int) else gpus)}
    return [gpu for gpu in present if {str(gpu.get("index")), str(gpu.get("uuid"))} & wanted]


def _read_minors(facts: Facts) -> dict[str, int]:
    """The numbers of device nodes by address, where the driver told them."""
    listed = facts.read("gpu_holders.gpus")
    if isinstance(listed, Unknown):
        return {}
    return {gpu["address"]: gpu["minor"] for gpu in listed if gpu["minor"] is not None}


def derive_elsewhere(case: Case) -> dict[str, Plain]:
    """``elsewhere``: a sentence for each GPU of NVIDIA's that another driver has, or none.

    ``is_short``: those that NVIDIA's driver has are fewer than the deployment asks for; judged by
    the bus alone, for the driver's library says nothing where it has no GPU. ``lost``: GPUs that
    were chosen and do not answer.
    """
    if not (case.wants_gpus and case.can_use_gpus):
        return {"elsewhere": [], "is_short": False, "lost": []}
    chosen = choose_gpus(case.deployment.gpus, case.facts)
    lost = chosen if isinstance(chosen, Unknown) else _find_lost(chosen)
    devices = case.facts.read("pci")
    if isinstance(devices, Unknown):
        return {"elsewhere": devices, "is_short": devices, "lost": lost}
    ours = [device for device in devices if device["vendor"] == _VENDOR]
    drivers = {str(device["address"]): device["driver"] or "" for device in ours}
    elsewhere = {address: name for address, name in drivers.items() if name != DRIVER}
    usable_count = len(drivers) - len(elsewhere)
    return {
        "elsewhere": [f"GPU {each}{explain_driver(name)}" for each, name in elsewhere.items()],
        "is_short": bool(elsewhere) and usable_count < _count_needed(case.deployment.gpus),
        "lost": lost,
    }


def _count_needed(gpus: str | int | Sequence[int | str]) -> int:
    """How many GPUs must be there at least for this wish."""
    if isinstance(gpus, str):
        return 1
    if isinstance(gpus, int):
        return gpus
    highest = max((gpu for gpu in gpus if isinstance(gpu, int)), default=-1)
    return max(len(gpus), highest + 1)


def _find_lost(chosen: Sequence[Gpu]) -> list[str]:
    """GPUs of which the driver knows the place in its list and nothing more."""
    known = ("uuid", "name", "memory_total_bytes", "pci_bus_id")
    return [
        str(gpu.get("index"))
        for gpu in chosen
        if "memory_total_bytes" in gpu and all(gpu.get(key) is None for key in known)
    ]
