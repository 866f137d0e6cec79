"""How the GPUs are joined, what stands between them, and what the machine grants: the reading."""

from __future__ import annotations

import json
import subprocess
import sys
from ctypes import Structure, c_uint
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.errors import HostError
from stoker.hosts.local import LocalHost
from stoker.model.facts import Target
from stoker.ports import Command, CommandResult
from stoker.probes import driver, iommu, limits, shm, topology, topology_reader
from tests.fakes.host import MemoryHost

GPU = "0000:01:00.0"
BRIDGE = "0000:00:01.0"


class NvmlError(Exception):
    """Stands for the library's own error."""


class FabricInfo(Structure):
    """As NVML fills it; a GPU without a fabric leaves it empty."""

    _fields_ = (("status", c_uint), ("state", c_uint))


def refuse(*_: object) -> Any:
    raise NvmlError("Not Supported")


def make_library(count: int = 2, **answers: Any) -> Any:
    """A library that supports nothing but what is given; a callable answers for itself."""
    names = (
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetVirtualizationMode",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetNvLinkRemotePciInfo",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
        "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetTopologyCommonAncestor",
    )
    functions: dict[str, Any] = dict.fromkeys(names, refuse)
    for name, answer in answers.items():
        functions[name] = answer if callable(answer) else lambda *_, answer=answer: answer
    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_NVLINK_MAX_LINKS=3,
        c_nvmlGpuFabricInfo_v2_t=FabricInfo,
        nvmlDeviceGetCount=lambda: count,
        **functions,
    )


def test_every_pair_is_asked_once_and_every_link_for_its_other_end() -> None:
    asked: list[tuple[object, ...]] = []

    def may(one: int, other: int, index: int) -> int:
        asked.append((one, other, index))
        return 0

    library = make_library(
        3,
        nvmlDeviceGetHandleByIndex=lambda index: index + 10,
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:1B:00.0"),
        nvmlDeviceGetMigMode=[0, 0],
        nvmlDeviceGetPersistenceMode=1,
        nvmlDeviceGetNvLinkState=lambda _, link: 1 if link == 1 else 0,
        nvmlDeviceGetNvLinkRemotePciInfo=SimpleNamespace(busId=b"00000000:C1:00.0"),
        nvmlDeviceGetNvLinkRemoteDeviceType=2,
        nvmlDeviceGetP2PStatus=may,
        nvmlDeviceGetTopologyCommonAncestor=30,
    )
    answer: dict[str, Any] = topology_reader.read_all(library)
    assert [pair["gpus"] for pair in answer["pairs"]] == [[0, 1], [0, 2], [1, 2]]
    assert asked[:3] == [(10, 11, 0), (10, 11, 1), (10, 11, 2)]
    assert answer["gpus"][0]["links"] == [{"link": 1, "peer_kind": 2, "peer": "00000000:C1:00.0"}]
    assert topology.parse({"nvml": json.dumps(answer)})["links"] == "nvlink"


def test_what_is_not_supported_is_null() -> None:
    answer: dict[str, Any] = topology_reader.read_all(make_library(2))
    assert answer["pairs"] == [
        {"gpus": [0, 1], "ancestor": None, "read": None, "write": None, "nvlink": None}
    ]
    assert set(answer["gpus"][0].values()) == {0, None}
    value = topology.parse({"nvml": json.dumps(answer)})
    assert (value["links"], value["can_peer"], value["has_switch"]) == (None, None, None)


def test_a_fabric_that_is_not_ready_is_told() -> None:
    def fill(_: object, reference: Any) -> int:
        reference._obj.state = 2
        return 0

    library = make_library(
        1, nvmlDeviceGetHandleByIndex=lambda index: index, nvmlDeviceGetGpuFabricInfoV=fill
    )
    answer: dict[str, Any] = topology_reader.read_all(library)
    assert answer["gpus"][0]["fabric"] == {"state": 2, "status": 0}


def test_the_child_prints_json_and_ends_well_on_any_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stoker.probes.topology_reader"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout).keys() & {"gpus", "error"}


def machine(answer: str, *, timed_out: bool = False) -> MemoryHost:
    """One GPU below one bridge, and a driver that says this."""

    def run(command: Command) -> CommandResult:
        status = -9 if timed_out else 0
        return CommandResult(
            argv=command.argv, exit_status=status, stdout=answer, stderr="", timed_out=timed_out
        )

    below = f"/sys/devices/pci0000:00/{BRIDGE}/{GPU}"
    host = MemoryHost(
        {
            f"{below}/class": "0x030200\n",
            f"{below}/vendor": "0x10de\n",
            f"{below}/device": "0x2bb1\n",
            f"{below}/numa_node": "1\n",
            f"/sys/devices/pci0000:00/{BRIDGE}/class": "0x060400\n",
            "/sys/kernel/iommu_groups/31/type": "DMA-FQ\n",
            "/sys/class/iommu/ivhd0/uevent": "",
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz quiet amd_iommu=on\n",
            "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu avx2\n",
        },
        commands=run,
    )
    host.put_link(f"/sys/bus/pci/devices/{GPU}", f"../../../devices/pci0000:00/{BRIDGE}/{GPU}")
    host.put_link(f"/sys/bus/pci/devices/{BRIDGE}", f"../../../devices/pci0000:00/{BRIDGE}")
    host.put_link(f"{below}/iommu_group", "../../../../kernel/iommu_groups/31")
    host.put(f"/sys/devices/pci0000:00/{BRIDGE}/config", bytes(64))
    return host


def test_the_numa_nodes_are_read_beside_what_the_library_says() -> None:
    rows = {"gpus": [{"index": 0, "pci_bus_id": "00000000:01:00.0"}], "pairs": []}
    raw = topology.read(machine(json.dumps(rows)), Target())
    assert json.loads(raw["nodes"]) == {GPU: "1"}


@pytest.mark.parametrize("answer", ["", "[]", '{"error": "no"}', '{"gpus": [7]}', "null"])
def test_nonsense_of_the_library_is_no_crash_while_reading(answer: str) -> None:
    assert topology.read(machine(answer), Target())["nodes"] == "{}"


def test_a_driver_that_hangs_says_so() -> None:
    with pytest.raises(HostError, match="did not answer within"):
        topology.read(machine("", timed_out=True), Target())


def test_the_iommu_is_read_down_to_each_gpu_and_up_its_bridges() -> None:
    raw = iommu.read(machine(""), Target())
    value = iommu.parse(raw)
    assert value["gpus"] == [
        {"address": GPU, "group": "31", "type": "DMA-FQ", "translates": True, "redirects": None}
    ]
    assert (value["is_on"], value["option"]) == (True, "amd_iommu=on")
    assert value["reason"] == "only root sees the whole configuration of PCIe switches"


def test_a_machine_without_a_view_of_its_devices_is_unknown_and_not_without_iommu() -> None:
    with pytest.raises(HostError):
        iommu.read(MemoryHost({"/proc/cmdline": ""}), Target())


def test_a_loaded_driver_that_may_not_be_asked_is_unknown() -> None:
    host = MemoryHost({"/proc/driver/nvidia/version": "x"})
    host.denied.add("/proc/driver")
    with pytest.raises(HostError):
        driver.read(host, Target())
    assert driver.parse(driver.read(MemoryHost(), Target())) == {"version": None, "flavour": None}


def test_this_very_machine_is_understood() -> None:
    host = LocalHost()
    for probe in (driver, shm, limits):
        probe.parse(probe.read(host, Target()))
