"""`stoker capacity`: the cache in host memory, before a start and beside what the start told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.capacity.inputs import NodeMemory
from stoker.commands import capacity as capacity_command
from stoker.commands.capacity import Question, find_capacity
from stoker.commands.capacity_inputs import describe_deployment
from stoker.commands.upgrade_check import resolve_file
from stoker.engines.resolved import read_resolved
from stoker.knowledge.engines import load_engine_table
from stoker.model.facts import Observation, Plain
from stoker.report.capacity_text import render_capacity
from tests.capacity.configs import GIB, LLAMA_8B
from tests.commands.test_capacity import (
    H200,
    LOGS,
    MEMORY,
    PRO,
    TEXT,
    find,
    gpus,
    observed,
    seen,
    world_of,
)
from tests.commands.test_upgrade_check import machine

NAME = "sglang-0.5.17-two-h200-host-cache"


def on_nodes(*available: int) -> Observation:
    nodes: list[Plain] = [
        {"node": n, "total_bytes": size, "free_bytes": 0, "available_bytes": size, "has_cpus": True}
        for n, size in enumerate(available)
    ]
    memory_of_gpu: Plain = {"node": 8, "available_bytes": 90 * GIB, "has_cpus": False}
    value = MEMORY.value
    assert isinstance(value, dict)
    return seen("memory", {**value, "nodes": [*nodes, memory_of_gpu]})


def joined(*nodes: int) -> Observation:
    rest = {"fabric": None, "is_persistent": True, "is_divided": False}
    rows: list[Plain] = [{"index": n, "numa_node": node, **rest} for n, node in enumerate(nodes)]
    return seen("topology", {"gpus": rows, "pairs": []})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "x.yaml"
    cache = "    enable-hierarchical-cache: true\n    hicache-ratio: 4\n"
    path.write_text(
        TEXT.replace("    tp: 8\n", f"    tp: 8\n    numa-node: [0, 0, 0, 0, 1, 1, 1, 1]\n{cache}")
    )
    return str(path)


def test_nodes_and_shared_memory_of_the_machine(file: str) -> None:
    machine_told = (on_nodes(200 * GIB, 150 * GIB), joined(*[0] * 4, *[1] * 4))
    shared = seen("shm", {"size_bytes": 64 << 20, "free_bytes": 60 << 20, "is_own": True})
    resolved = observed(resolve_file(world_of(), file), gpus(*[PRO] * 8), *machine_told, shared)
    inputs = describe_deployment(resolved).inputs
    assert [gpu.node for gpu in inputs.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert inputs.host.shared_bytes == 60 << 20
    assert inputs.host.nodes == (
        NodeMemory(node=0, available_bytes=200 * GIB),
        NodeMemory(node=1, available_bytes=150 * GIB),
    )


def test_a_node_that_is_too_small_is_shown(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    found = find(
        monkeypatch,
        Question(file=file),
        gpus(*[PRO] * 8),
        on_nodes(200 * GIB, 150 * GIB),
        joined(*[0] * 4, *[1] * 4),
    )
    text = render_capacity(found.shown)
    assert "memory that is free on NUMA node 0, for 4 ranks" in text
    second = next(line for line in text.splitlines() if "NUMA node 1, for 4 ranks: " in line)
    assert "of 150.0 GiB: DOES NOT FIT" in second


def test_what_each_rank_told_of_its_cache_in_a_log_alone() -> None:
    made = machine("0.5.9")
    made.host.put("/log", (LOGS / f"{NAME}.log").read_text())
    world = replace(world_of(), host=made.host)
    shown = find_capacity(world, Question(log="/log")).shown
    host = shown.capacity.maps[-1]
    assert [(part.part, part.resolved_bytes) for part in host.parts] == [("host_cache", 10**10)]
    assert all(part.part != "host_cache" for part in shown.capacity.maps[0].parts)
    assert "cache of prompts in host memory" in render_capacity(shown)


def test_what_was_told_stands_beside_what_was_predicted(
    monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Two ranks told 10.00 GB each, of a size of 10 for each."""
    settings = "    tp: 2\n    enable-hierarchical-cache: true\n    hicache-size: 10\n"
    text = TEXT.replace("    tp: 8\n", settings).replace("    context-length: 262144\n", "")
    Path(file).write_text(text)
    log = (LOGS / f"{NAME}.log").read_text()
    told = read_resolved(log.splitlines(), load_engine_table("sglang"))
    monkeypatch.setattr(capacity_command, "read_log", lambda *_: told)
    model = seen("model", {"format": "safetensors", "config": dict(LLAMA_8B)})
    shown = find(
        monkeypatch, Question(file=file, log="/log"), gpus(H200, H200), MEMORY, model
    ).shown
    part = next(each for each in shown.capacity.maps[-1].parts if each.part == "host_cache")
    assert part.resolved_bytes == 2 * 10**10
    assert part.predicted_bytes is not None
    assert part.predicted_bytes.likely == pytest.approx(2 * 10**10, rel=1e-4)
    others = {each.part: each.resolved_bytes for each in shown.capacity.maps[-1].parts}
    assert others["unused"] is None
