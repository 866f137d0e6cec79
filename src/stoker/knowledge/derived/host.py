"""The machine around the GPUs that a deployment is to have, in the words that rules use.

How those GPUs are joined, what stands between them, and what the machine grants an engine's
processes. Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker.knowledge.derived.devices import choose_gpus, may_use_gpus
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.driver_flavours import find_flavour
from stoker.model.facts import Facts, Plain, Unknown

#: NVIDIA's number among the makers of PCI devices (pci-ids).
_VENDOR = "0x10de"
_JOINED = ("links", "can_peer", "way", "refusals", "nodes", "fabric", "divided", "resting")
#: From the shortest to the longest, as the topology probe names them.
_WAYS = ("same-board", "one-switch", "switches", "host-bridge", "numa-node", "system")
_SETTLED_FABRICS = ("none", "completed")


def derive_host(subject: Subject) -> dict[str, Plain]:
    """Of the chosen GPUs: ``links`` (nvlink, pcie; None for fewer than two), ``can_peer``, ``way``
    (the longest between two), ``refusals`` (why they cannot reach each other), ``nodes`` (their
    NUMA nodes), ``fabric`` (GPUs that wait for their NVLink switches), ``divided`` (into MIG
    instances), ``resting`` (without persistence) and ``kinds`` (their names, each once).

    Of the machine: ``translates`` and ``redirects`` (see the iommu probe), ``is_guest``,
    ``shm_bytes``, ``ptrace_scope``, ``container``, ``memory_bytes`` (what may still be taken),
    ``flavour`` of the loaded driver, ``misfits`` (GPUs that this flavour does not drive) and
    ``wanted_flavour``. What a service may lock or open is the service_sandbox probe's answer under
    systemd, and that of the limits probe elsewhere.
    """
    facts = subject.facts
    return {
        **_derive_joined(subject),
        **_derive_flavour(facts),
        "translates": _read(facts, "iommu", "translates"),
        "redirects": _read(facts, "iommu", "redirects"),
        "is_guest": facts.read("iommu.is_guest"),
        "shm_bytes": facts.read("shm.size_bytes"),
        "ptrace_scope": facts.read("limits.ptrace_scope"),
        "container": facts.read("service_manager.container"),
        "memory_bytes": facts.read("memory.usable_bytes"),
    }


def _read(facts: Facts, probe: str, name: str) -> Plain | Unknown:
    """A value that is None where the probe could not see it, with the reason it gives."""
    value = facts.read(f"{probe}.{name}")
    if value is not None:
        return value
    reason = facts.read(f"{probe}.reason")
    return reason if isinstance(reason, Unknown) else Unknown(reason=str(reason))


def _derive_joined(subject: Subject) -> dict[str, Plain]:
    if not may_use_gpus(subject.deployment, subject.table):
        return _join([], []) | _name([])
    chosen = choose_gpus(subject.deployment.gpus, subject.facts)
    if isinstance(chosen, Unknown):
        return dict.fromkeys((*_JOINED, "kinds"), chosen)
    if not chosen:
        return _join([], []) | _name([])
    topology = subject.facts.read("topology")
    if not isinstance(topology, Unknown):
        indices = {gpu.get("index") for gpu in chosen}
        gpus = [gpu for gpu in topology["gpus"] if gpu["index"] in indices]
        pairs = [pair for pair in topology["pairs"] if set(pair["gpus"]) <= indices]
        if len(gpus) == len(chosen):
            return _join(gpus, pairs) | _name(chosen)
        topology = Unknown(reason="the driver told of other GPUs when it was asked how they join")
    unread = dict.fromkeys(_JOINED, topology) | _name(chosen)
    return unread if len(chosen) > 1 else unread | _join_pairs([])


def _name(gpus: Sequence[Mapping[str, Any]]) -> dict[str, Plain]:
    return {"kinds": list(dict.fromkeys(str(gpu["name"]) for gpu in gpus if gpu.get("name")))}


def _join(
    gpus: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]
) -> dict[str, Plain]:
    return {
        **_join_pairs(pairs),
        "nodes": sorted({gpu["numa_node"] for gpu in gpus if gpu["numa_node"] is not None}),
        "fabric": [
            str(gpu["index"])
            for gpu in gpus
            if gpu["fabric"] is not None and gpu["fabric"] not in _SETTLED_FABRICS
        ],
        "divided": [str(gpu["index"]) for gpu in gpus if gpu["is_divided"]],
        "resting": [str(gpu["index"]) for gpu in gpus if gpu["is_persistent"] is False],
    }


def _join_pairs(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Plain]:
    if not pairs:
        return {"links": None, "can_peer": None, "way": None, "refusals": []}
    is_linked = _all_known([pair["nvlink"] for pair in pairs])
    silent = Unknown(reason="NVIDIA's driver does not tell")
    ways = [pair["way"] for pair in pairs]
    links: Plain = "nvlink" if is_linked is True else "pcie" if is_linked is False else silent
    can_peer = _all_known([pair["can_peer"] for pair in pairs])
    return {
        "links": links,
        "can_peer": silent if can_peer is None else can_peer,
        "way": silent if None in ways else max(ways, key=_WAYS.index),
        "refusals": list(dict.fromkeys(pair["refusal"] for pair in pairs if pair["refusal"])),
    }


def _all_known(answers: Iterable[bool | None]) -> bool | None:
    """One no settles it; otherwise one unknown leaves it open."""
    known = list(answers)
    if False in known:
        return False
    return None if None in known else True


def _derive_flavour(facts: Facts) -> dict[str, Plain]:
    flavour, devices = facts.read("driver.flavour"), facts.read("pci")
    if isinstance(flavour, Unknown) or isinstance(devices, Unknown):
        unread = flavour if isinstance(flavour, Unknown) else devices
        return {"flavour": flavour, "misfits": unread, "wanted_flavour": unread}
    if flavour is None and facts.read("driver.version") is not None:
        hidden = Unknown(reason="only the number of the driver's version is seen here")
        return {"flavour": hidden, "misfits": hidden, "wanted_flavour": hidden}
    ours = [each for each in devices if each["vendor"] == _VENDOR and each.get("device")]
    rows = {str(each["address"]): find_flavour(str(each["device"])) for each in ours}
    needs = {address: row.needs for address, row in rows.items() if row is not None}
    misfits = [address for address, need in needs.items() if flavour and need != flavour]
    wanted = needs[misfits[0]] if misfits else None
    return {"flavour": flavour, "misfits": misfits, "wanted_flavour": wanted}
