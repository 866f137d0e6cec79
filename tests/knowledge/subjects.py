"""A deployment of SGLang or vLLM on GPUs, as the description of it sees them; for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.describe import describe
from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.knowledge.resolution import propose_settings
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.finding import Finding
from stoker.model.launch import Origin, Setting
from tests.knowledge.cases import GIB, make_deployment, make_facts

NAMES = {
    "8.0": "NVIDIA A100-SXM4-80GB",
    "9.0": "NVIDIA H200",
    "10.0": "NVIDIA B200",
    "10.3": "NVIDIA B300 SXM6 AC",
    "12.0": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "12.1": "NVIDIA GB10",
}


def make_gpu(capability: str, index: int = 0, **changes: Any) -> dict[str, Any]:
    """One GPU as the gpus probe tells it."""
    row = {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": NAMES.get(capability, "NVIDIA Nova"),
        "compute_capability": capability,
        "memory_total_bytes": 96 * GIB,
        "memory_used_bytes": 0,
        "pci_bus_id": f"0000:{index + 1:02x}:00.0",
        "processes": [],
    }
    return {**row, **changes}


@cache
def make_table(engine: str, release: str) -> EngineTable:
    """The engine's table with the flags of one release."""
    return replace(load_engine_table(engine), catalogue=load_catalogue(engine, release))


def make_settings(**chosen: str) -> list[Setting]:
    """Settings of the user's: underscores stand for dashes, capitals make a variable."""
    return [
        Setting(
            name=name if name.isupper() else f"--{name.replace('_', '-')}",
            value=value,
            origin=Origin.USER,
            reason="the deployment file",
            kind="env" if name.isupper() else "flag",
        )
        for name, value in chosen.items()
    ]


def make_subject(
    engine: str,
    release: str,
    capability: str | None,
    config: Mapping[str, Any] | None = None,
    /,
    **chosen: str,
) -> Subject:
    """One GPU of this capability (none for None), a model with this config, these settings."""
    gpus = [] if capability is None else [make_gpu(capability)]
    model: Any = {"format": "safetensors", "path": "/m/q", "size_bytes": 1, "config": config}
    found = {"gpus": gpus, "driver_version": "580.65.06", "cuda_version": "13.0"}
    facts = make_facts(gpus=found, **({"model": model} if config is not None else {}))
    deployment = make_deployment(
        model="path:/m/q", engine={"kind": engine, "environment": "system"}, gpus="all"
    )
    return Subject(
        deployment=deployment,
        facts=facts,
        table=make_table(engine, release),
        build=release,
        settings=make_settings(**chosen),
    )


def make_tree(subject: Subject) -> dict[str, Plain]:
    """All that rules see of it beyond a launch."""
    return {"deployment": subject.deployment.model_dump(mode="json"), **describe(subject)}


def propose(subject: Subject) -> dict[str, str | None]:
    """What our rules choose for it, by flag or variable."""
    found = propose_settings(load_rules(), make_tree(subject), subject.table.catalogue)
    return {setting.name: setting.value for setting in found}


def judge(subject: Subject) -> dict[str, Finding]:
    """What the rules of the plan stage say of it, by rule."""
    findings = evaluate_rules(load_rules(), make_tree(subject), stage="plan")
    return {finding.rule: finding for finding in findings}
