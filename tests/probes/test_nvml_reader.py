"""The child that asks NVIDIA's library: what is not supported is null, whatever it is."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from stoker.probes import nvml_reader


class NvmlError(Exception):
    """Stands for the library's own error."""


def refuse(*_: object) -> Any:
    raise NvmlError("Not Supported")


def make_library(**answers: Any) -> Any:
    """A library that supports nothing but what is given."""
    names = (
        "nvmlSystemGetCudaDriverVersion",
        "nvmlSystemGetDriverVersion",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
    )
    functions: dict[str, Any] = dict.fromkeys(names, refuse)
    functions.update({name: lambda *_, answer=answer: answer for name, answer in answers.items()})
    functions.setdefault("nvmlDeviceGetCount", lambda: 1)
    return SimpleNamespace(NVMLError=NvmlError, **functions)


def process(pid: int, used: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def test_a_gpu_that_supports_everything() -> None:
    library = make_library(
        nvmlSystemGetCudaDriverVersion=12080,
        nvmlSystemGetDriverVersion=b"580.1",
        nvmlDeviceGetHandleByIndex=object(),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=100, used=7),
        nvmlDeviceGetCudaComputeCapability=(9, 0),
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:00:06.0"),
        nvmlDeviceGetUUID="GPU-1",
        nvmlDeviceGetName=b"Some GPU",
        nvmlDeviceGetComputeRunningProcesses=[process(9, 5), process(3, None)],
        nvmlDeviceGetGraphicsRunningProcesses=[process(9, 5)],
    )
    assert nvml_reader.read_all(library) == {
        "driver_version": "580.1",
        "cuda_version": "12.8",
        "gpus": [
            {
                "index": 0,
                "uuid": "GPU-1",
                "name": "Some GPU",
                "memory_total_bytes": 100,
                "memory_used_bytes": 7,
                "compute_capability": "9.0",
                "pci_bus_id": "00000000:00:06.0",
                "processes": [
                    {"pid": 3, "used_bytes": None, "is_graphics": False},
                    {"pid": 9, "used_bytes": 5, "is_graphics": False},
                ],
            }
        ],
    }


def test_what_only_draws_is_told_from_what_computes() -> None:
    library = make_library(
        nvmlDeviceGetComputeRunningProcesses=[process(9, 5)],
        nvmlDeviceGetGraphicsRunningProcesses=[process(4, 1), process(9, 7)],
    )
    assert nvml_reader.read_processes(library, object()) == [
        {"pid": 4, "used_bytes": 1, "is_graphics": True},
        {"pid": 9, "used_bytes": 5, "is_graphics": False},
    ]


def test_what_is_not_supported_is_null() -> None:
    library = make_library(nvmlDeviceGetHandleByIndex=object(), nvmlDeviceGetName="Some GPU")
    gpu = nvml_reader.read_gpu(library, 0)
    assert gpu.pop("name") == "Some GPU"
    assert gpu.pop("index") == 0
    assert set(gpu.values()) == {None}


def test_a_lost_gpu_is_still_counted() -> None:
    answer: dict[str, Any] = nvml_reader.read_all(make_library(nvmlDeviceGetCount=2))
    assert [gpu["index"] for gpu in answer["gpus"]] == [0, 1]


def test_the_child_prints_json_and_ends_well_on_any_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stoker.probes.nvml_reader"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout).keys() & {"gpus", "error"}
