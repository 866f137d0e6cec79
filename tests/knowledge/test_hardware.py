"""What a GPU is called, what it is, and what a deployment's GPUs are together."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derived.hardware import derive_hardware
from stoker.knowledge.gpus import find_gpu, find_gpu_by_word, load_gpus
from stoker.model.facts import Unknown
from tests.knowledge.cases import GIB, make_deployment, make_facts
from tests.knowledge.subjects import make_gpu, make_subject


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-blackwell"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A10G", "a10"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-ada"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA GeForce RTX 5070 Ti", "rtx-50"),
        ("NVIDIA GB10", "gb10"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("Tesla T4", "t4"),
        ("NVIDIA Nova 9000", None),
    ],
)
def test_names_of_the_driver(name: str, key: str | None) -> None:
    found = find_gpu(name)
    assert (found.key if found else None) == key


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("rtx_pro_6000_8x", "rtx-pro-6000-blackwell"),
        ("H200", "h200"),
        ("dgx_spark_gb10", "gb10"),
        ("DGX Spark", "gb10"),
        ("mi300x", None),
    ],
)
def test_words_of_the_recipe_collections(word: str, key: str | None) -> None:
    found = find_gpu_by_word(word)
    assert (found.key if found else None) == key


def test_rows_are_whole() -> None:
    for row in load_gpus():
        assert row.names
        assert row.words
        assert 50 <= row.capability <= 130
        assert row.memory_gb == tuple(sorted(row.memory_gb))


def derive(*gpus: Any, **changes: Any) -> dict[str, Any]:
    subject = make_subject("sglang", "0.5.23", None)
    found = {"gpus": list(gpus), "driver_version": "580.65.06", "cuda_version": "13.0"}
    facts = make_facts(gpus=found)
    values: Any = {"facts": facts, "deployment": subject.deployment, **changes}
    made = make_subject("sglang", "0.5.23", None)
    return derive_hardware(
        type(made)(
            deployment=values["deployment"],
            facts=values["facts"],
            table=made.table,
            build=made.build,
            settings=made.settings,
        )
    )


def test_gpus_of_one_kind() -> None:
    assert derive(*(make_gpu("12.0", index) for index in range(8))) == {
        "count": 8,
        "maker": "nvidia",
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "key": "rtx-pro-6000-blackwell",
        "words": ["rtx_pro_6000", "rtx_pro_6000_2x", "rtx_pro_6000_8x", "rtx-pro-6000"],
        "has_nvlink": False,
        "memory_bytes": 96 * GIB,
        "is_mixed": False,
        "arch": "sm_120",
        "capability": 120,
        "major": 12,
        "driver_cuda": "13.0",
    }


def test_a_gpu_that_nobody_listed_still_has_its_architecture() -> None:
    found = derive(make_gpu("13.0", name="NVIDIA Nova"))
    assert (found["key"], found["words"], found["arch"]) == (None, None, "sm_130")


def test_gpus_of_several_kinds() -> None:
    found = derive(make_gpu("12.0"), make_gpu("8.0", 1, memory_total_bytes=80 * GIB))
    assert (found["is_mixed"], found["memory_bytes"]) == (True, 80 * GIB)
    assert found["capability"].reason == "the chosen GPUs are of different kinds: 12.0, 8.0"
    same = derive(make_gpu("12.0"), make_gpu("12.0", 1, memory_total_bytes=16 * GIB))
    assert (same["is_mixed"], same["arch"]) == (True, "sm_120")


def test_what_the_driver_does_not_tell_is_unknown() -> None:
    lost = make_gpu("12.0", name=None, compute_capability=None, memory_total_bytes=None)
    found = derive(lost)
    for part in ("name", "key", "arch", "capability", "major", "memory_bytes"):
        assert isinstance(found[part], Unknown), part


def test_without_gpus() -> None:
    none = derive()
    assert none["count"] == 0
    assert {value for name, value in none.items() if name != "count"} == {None}
    unwanted = derive(make_gpu("9.0"), deployment=make_deployment(gpus="none"))
    assert unwanted["count"] == 0


def test_a_driver_that_does_not_answer() -> None:
    found = derive(facts=make_facts({"gpus": "the driver hangs"}))
    assert {value.reason for value in found.values()} == {"the driver hangs"}
