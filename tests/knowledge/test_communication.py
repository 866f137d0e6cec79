"""What our rules choose for GPUs by the way they are joined: whole machines, as recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.describe import describe
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.resolution import propose_settings
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.facts import Facts
from stoker.model.finding import Status
from tests.conftest import PROJECT
from tests.knowledge.cases import make_deployment, make_facts

RECORDED = PROJECT / "tests" / "recorded"
PCIE = "constructed-8x-pcie-on-two-sockets"
NVLINK = "2x-h200-as-its-nvidia-smi-tells"
TRANSLATING = "constructed-translating-below-root-ports"
PASSED_THROUGH = "constructed-pass-through-behind-quiet-bridges"
GUEST = "2x-h200-in-a-virtual-machine"

OFF = {"--disable-custom-all-reduce": None, "NCCL_P2P_DISABLE": "1"}


def recorded(probe: str, case: str) -> Any:
    path = RECORDED / probe / case / "expected.json"
    return json.loads(path.read_text(encoding="utf-8"))["value"]


def machine(topology: str, iommu: str, *, capability: str, name: str) -> Facts:
    joined = recorded("topology", topology)
    gpus = [
        {
            "index": gpu["index"],
            "uuid": f"GPU-{gpu['index']}",
            "name": name,
            "memory_total_bytes": 97_887 << 20,
            "memory_used_bytes": 0,
            "compute_capability": capability,
            "pci_bus_id": gpu["pci_bus_id"],
            "processes": [],
        }
        for gpu in joined["gpus"]
    ]
    return make_facts(
        gpus={"gpus": gpus, "driver_version": "590.48.01", "cuda_version": "13.1"},
        topology=joined,
        iommu=recorded("iommu", iommu),
    )


def pro_6000(iommu: str) -> Facts:
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    return machine(PCIE, iommu, capability="12.0", name=name)


def tree_of(kind: str, build: str, facts: Facts, gpus: Any = "all") -> dict[str, Any]:
    deployment = make_deployment(engine={"kind": kind}, gpus=gpus)
    subject = Subject(
        deployment=deployment,
        facts=facts,
        table=load_engine_table(kind),
        build=build,
        settings=(),
    )
    tree = {"deployment": deployment.model_dump(mode="json"), **describe(subject)}
    count = tree["hardware"]["count"]
    return {**tree, "parallel": {"tensor": count}}


def choose(kind: str, build: str, facts: Facts, gpus: Any = "all") -> dict[str, str | None]:
    tree = tree_of(kind, build, facts, gpus)
    found = propose_settings(load_rules(), tree, load_engine_table(kind).catalogue)
    return {
        each.name: each.value for each in found if (each.rule or "").startswith("communication.")
    }


@pytest.mark.parametrize("build", ["0.5.9", "0.5.23"])
def test_an_iommu_that_translates_keeps_gpus_from_reaching_each_other(build: str) -> None:
    facts = pro_6000(TRANSLATING)
    assert choose("sglang", build, facts) == OFF
    assert choose("sglang", build, facts, gpus=1) == {}
    told = evaluate_rules(load_rules(), tree_of("sglang", build, facts), stage="plan")
    assert "communication.iommu-translates" in {
        each.rule for each in told if each.status is Status.FIRED
    }


def tell(build: str, facts: Facts, gpus: Any = "all") -> set[str]:
    found = evaluate_rules(load_rules(), tree_of("sglang", build, facts, gpus), stage="plan")
    return {each.rule for each in found if each.status is Status.FIRED}


def test_gpus_that_reach_each_other_over_pcie_are_told_of_an_all_reduce_made_for_it() -> None:
    """It is opt-in upstream, so nobody but the owner switches it on."""
    facts, rule = pro_6000(PASSED_THROUGH), "communication.pcie-all-reduce"
    assert rule in tell("0.5.23", facts)
    assert rule not in tell("0.5.9", facts)
    assert rule in tell("0.5.23", facts, gpus=2)
    assert rule not in tell("0.5.23", facts, gpus=1)
    assert choose("sglang", "0.5.23", facts) == {}


def test_what_cuda_13_unlocks_and_what_is_left_idle_do_not_speak_against_each_other() -> None:
    """A plan may show all three: each says that it takes CUDA 13 and a patch, and which."""
    tree = {
        "deployment": {"engine": {"kind": "sglang"}},
        "stack": {"version": "0.5.9", "cuda": "12.8"},
        "hardware": {"count": 8, "arch": "sm_120", "capability": 120, "major": 12},
        "parallel": {"tensor": 8},
        "host": {"links": "pcie"},
        "settings": {
            "enable-flashinfer-allreduce-fusion": True,
            "flashinfer-allreduce-fusion-backend": None,
            "enable-torch-symm-mem": True,
        },
    }
    ids = {"stack.cuda13-unlocks-reductions", "communication.fusion-idle"}
    rules = [rule for rule in load_rules() if rule.id in ids]
    told = {each.rule: each for each in evaluate_rules(rules, tree, stage="plan")}
    assert set(told) == ids
    unlocks, idle = (told[each] for each in sorted(ids, reverse=True))
    assert "unless it is patched" in unlocks.summary
    assert "CUDA 13 alone changes nothing" in unlocks.remedy
    assert "unpatched" in idle.summary
    for place in ("CUDA 13", "apply_flashinfer_allreduce_fusion", "flashinfer_ar_fusion_applies"):
        assert place in unlocks.remedy
        assert place in idle.remedy
    assert "_WORLD_SIZES_MULTIMEM" in unlocks.remedy


def test_nvlink_needs_nothing_of_it_whatever_stands_between() -> None:
    facts = machine(NVLINK, GUEST, capability="9.0", name="NVIDIA H200")
    assert choose("sglang", "0.5.23", facts) == {}


def test_a_virtual_machine_of_gpus_on_pcie_is_left_alone_since_nobody_knows() -> None:
    assert choose("sglang", "0.5.23", pro_6000(GUEST)) == {}
