"""What fits, in a plan: a section, findings, and corrections by what earlier starts found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands import plan as plan_command
from stoker.commands.capacity_inputs import describe_deployment
from stoker.commands.capacity_starts import correct_described, name_starts
from stoker.commands.forecast import foresee
from stoker.commands.holders import judge_without
from stoker.commands.keep_start import keep_last_start, keep_told
from stoker.commands.plan import plan_file
from stoker.commands.resolve import Resolved
from stoker.commands.resolve import resolve as resolve_genuinely
from stoker.commands.upgrade_check import resolve_file
from stoker.commands.world import World
from stoker.errors import HostError
from stoker.model.document import parse_document, render_document
from stoker.model.facts import Observation, Plain
from stoker.model.layout import capacity_starts_path
from stoker.model.plan import Plan
from stoker.planning.plan import compare_plans
from stoker.report.plan_text import render_plan
from stoker.state.capacity_starts import find_key
from tests.capacity.configs import GIB, KIMI, LLAMA_8B
from tests.commands.test_capacity import H200, MEMORY, PRO, gpus, observed, seen, told_of
from tests.commands.test_upgrade_check import machine

KIMI_FILE = """\
name: kimi
model: path:/m
engine:
  kind: sglang
  environment: path:/opt/v
  settings: {tp: 8, mem-fraction-static: 0.88, context-length: 262144}
gpus: all
service: {supervisor: supervisord}
"""
LLAMA_FILE = """\
name: llama
model: path:/m
engine:
  kind: KIND
  environment: path:/opt/v
  settings: {SETTINGS}
gpus: all
service: {supervisor: supervisord}
"""


def world_of(config: Plain) -> World:
    made = machine("0.5.9")
    made.host.put("/m/config.json", json.dumps(dict(config)))
    world = made.world()
    return replace(world, supervisors={"supervisord": world.supervisor})


def llama(kind: str = "sglang", settings: str = "") -> str:
    return LLAMA_FILE.replace("KIND", kind).replace("SETTINGS", settings)


class Scene:
    """A machine on which a file is planned, with what its probes are said to have seen."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Plain) -> None:
        self.world = world_of(config)
        self._path = tmp_path / "a.yaml"
        self._patch = monkeypatch

    def resolve(self, text: str, *observations: Observation) -> Resolved:
        self._path.write_text(text)
        return observed(resolve_file(self.world, str(self._path)), *observations)

    def plan(self, text: str, *observations: Observation) -> Plan:
        self._path.write_text(text)

        def resolve(world: World, source: str, origin: str) -> Resolved:
            return observed(resolve_genuinely(world, source, origin), *observations)

        self._patch.setattr(plan_command, "resolve", resolve)
        return plan_file(self.world, str(self._path)).plan


@pytest.fixture
def kimi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch, KIMI)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch, LLAMA_8B)


def rules(plan: Plan) -> dict[str, str]:
    return {each.rule: each.severity.value for each in plan.findings if each.status == "fired"}


WEIGHTS = {"format": "safetensors", "reason": "", "context_length": 131072}


def model_of(config: Mapping[str, Plain], *, rank_gib: float) -> Observation:
    """A model whose headers were read: one tensor that every rank has whole."""
    size = int(rank_gib * GIB)
    forms = [["model.norm.weight", "BF16", 1, size]]
    return seen("model", {**WEIGHTS, "config": dict(config), "size_bytes": size, "forms": forms})


def test_a_plan_says_what_fits(kimi: Scene) -> None:
    plan = kimi.plan(KIMI_FILE, gpus(*[PRO] * 8), MEMORY)
    assert plan.served is not None
    assert plan.served.forecast is not None
    assert plan.served.forecast.capacity.options == ()
    text = render_plan(plan)
    assert "What fits (predicted" in text
    assert "requests of 262,144 tokens at the same time" in text
    assert "GPU 0 to 7 (rtx-pro-6000-blackwell), each, 95.59 GiB: keys and values" in text
    assert parse_document(render_document(plan), Plan) == plan


def test_a_plan_is_not_stale_because_memory_moved(kimi: Scene) -> None:
    one = kimi.plan(KIMI_FILE, gpus(*[PRO] * 8), MEMORY)
    other = kimi.plan(KIMI_FILE, gpus(*[PRO] * 8, used_bytes=3 * GIB), MEMORY)
    assert one.served != other.served
    assert compare_plans(one, other) == ()
    assert one.id == other.id


def test_a_plan_of_an_earlier_stoker_is_read(kimi: Scene) -> None:
    plan = kimi.plan(KIMI_FILE, gpus(*[PRO] * 8), MEMORY)
    data = json.loads(render_document(plan))
    data["schema"] = "plan/2"
    data["deployment"] = data.pop("served")["deployment"]
    old = parse_document(json.dumps(data), Plan)
    assert old.served is not None
    assert plan.served is not None
    assert old.served.deployment == plan.served.deployment
    assert old.served.forecast is None
    assert compare_plans(old, plan) == ()


def test_where_the_model_is_not_described_there_is_one_sentence(kimi: Scene) -> None:
    plan = kimi.plan(KIMI_FILE, gpus(*[PRO] * 8), seen("model", {"format": "missing"}))
    (line,) = [line for line in render_plan(plan).splitlines() if "What fits" in line]
    assert line.startswith("What fits is not predicted: ")
    assert not [rule for rule in rules(plan) if rule.startswith("capacity.")]


def test_a_context_that_the_pool_does_not_hold_is_told(kimi: Scene, small: Scene) -> None:
    """SGLang starts and refuses longer requests, so it is a warning."""
    found = rules(kimi.plan(KIMI_FILE, gpus(*[PRO] * 8), MEMORY))
    assert found["capacity.context-not-held"] == "warning"
    held = llama(settings="tp: 1, mem-fraction-static: 0.85, context-length: 131072")
    assert "capacity.context-not-held" not in rules(small.plan(held, gpus(H200), MEMORY))


def test_weights_that_leave_no_room(small: Scene) -> None:
    text = llama(settings="tp: 1, mem-fraction-static: 0.3")
    full = small.plan(text, gpus(H200), MEMORY, model_of(LLAMA_8B, rank_gib=60))
    assert rules(full)["capacity.no-room"] == "block"
    (finding,) = [each for each in full.blocked_by if each.rule == "capacity.no-room"]
    assert "it begins at about 0.4" in finding.summary
    # Weights that were only estimated forbid nothing.
    nothing = llama(settings="tp: 1, mem-fraction-static: 0.05")
    estimated = rules(small.plan(nothing, gpus(H200), MEMORY))
    assert estimated["capacity.little-room"] == "warning"
    assert "capacity.no-room" not in estimated


def test_vllm_refuses_what_surely_does_not_fit(small: Scene) -> None:
    text = llama("vllm", "max-model-len: 131072")
    ada = {"name": "NVIDIA GeForce RTX 4090", "memory_total_bytes": 24564 << 20}
    tight = small.plan(text, gpus(ada), MEMORY, model_of(LLAMA_8B, rank_gib=15))
    assert rules(tight)["capacity.context-refused"] == "block"
    wide = rules(small.plan(text, gpus(H200), MEMORY, model_of(LLAMA_8B, rank_gib=15)))
    assert not [rule for rule in wide if rule.startswith("capacity.")]


def test_the_cache_in_host_memory_is_judged_by_the_prediction(kimi: Scene) -> None:
    """Bounds of weights and GPUs alone cannot tell; the interval of the pool can."""
    on = KIMI_FILE.replace(
        "tp: 8,", "tp: 8, enable-hierarchical-cache: true, hicache-ratio: RATIO,"
    )
    over = kimi.plan(on.replace("RATIO", "40"), gpus(*[PRO] * 8), MEMORY)
    assert rules(over)["cache.host-memory"] == "block"
    open_ = rules(kimi.plan(on.replace("RATIO", "6"), gpus(*[PRO] * 8), MEMORY))
    assert open_["capacity.host-cache"] == "warning"
    assert "cache.host-memory" not in open_
    fits = kimi.plan(on.replace("RATIO", "2"), gpus(*[PRO] * 8), MEMORY)
    assert "cache.host-memory" not in rules(fits)
    assert "of what is free then remain" in render_plan(fits)
    locked = seen("limits", {"memory_lock_bytes": 8 << 20})
    noted = kimi.plan(on.replace("RATIO", "2"), gpus(*[PRO] * 8), MEMORY, locked)
    assert rules(noted)["capacity.host-cache-lock"] == "note"


def test_what_runs_gives_its_own_memory_back(kimi: Scene) -> None:
    held = {**PRO, "processes": [{"pid": 7, "used_bytes": 80 * GIB}]}
    busy = kimi.resolve(KIMI_FILE, gpus(*[held] * 8, used_bytes=81 * GIB), MEMORY)
    judged = judge_without(kimi.world, busy, ())
    kept = foresee(kimi.world, busy, judged).forecast.capacity
    given = foresee(kimi.world, busy, replace(judged, going=frozenset({7}))).forecast.capacity
    assert kept.kv_tokens is None
    assert given.kv_tokens is not None
    assert given.kv_tokens.likely > 100_000


def test_a_container_that_names_no_process_says_nothing_of_what_is_free(kimi: Scene) -> None:
    busy = kimi.resolve(KIMI_FILE, gpus(*[PRO] * 8, used_bytes=81 * GIB), MEMORY)
    assert describe_deployment(busy, frozenset({7})).inputs.gpus[0].free_bytes is None
    assert describe_deployment(busy).inputs.gpus[0].free_bytes == (97887 << 20) - 81 * GIB


def h200(scene: Scene, settings: str = "tp: 1, mem-fraction-static: 0.902") -> Resolved:
    model = seen("model", {"format": "safetensors", "config": dict(LLAMA_8B)})
    return scene.resolve(llama(settings=settings), gpus(H200), MEMORY, model)


def test_what_a_start_told_is_kept_and_corrects_the_next(small: Scene) -> None:
    told = told_of("sglang-0.5.17-h200-by-stoker")
    resolved = h200(small)
    assert keep_told(small.world, resolved, told)
    corrected = correct_described(small.world, resolved, describe_deployment(resolved))
    assert corrected.by is not None
    assert corrected.by.deployment == "llama"
    assert corrected.by.told_tokens == 5_840_644
    plan = small.plan(
        llama(settings="tp: 1, mem-fraction-static: 0.902"),
        gpus(H200),
        MEMORY,
        seen("model", {"format": "safetensors", "config": dict(LLAMA_8B)}),
    )
    assert "corrected by the start of llama (" in render_plan(plan)


@pytest.mark.parametrize("text", ["", "{", '{"schema": "capacity-starts/7"}'])
def test_a_document_that_somebody_edited_is_one_sentence(small: Scene, text: str) -> None:
    resolved = h200(small)
    described = describe_deployment(resolved)
    wanted = name_starts(resolved, described.inputs)
    assert wanted is not None
    path = capacity_starts_path(small.world.folders, find_key(wanted))
    small.world.host.write_file(path, text.encode(), 0o600)
    corrected = correct_described(small.world, resolved, described)
    assert corrected.inputs == described.inputs
    (doubt,) = corrected.doubts
    assert doubt.startswith("what earlier starts found is not used: ")
    # The next start makes it anew.
    assert keep_told(small.world, resolved, told_of("sglang-0.5.17-h200-by-stoker"))
    assert correct_described(small.world, resolved, described).by is not None


def test_a_start_that_cannot_be_kept_is_a_note(
    small: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise HostError("the disk is gone")

    monkeypatch.setattr("stoker.commands.keep_start.read_deployment", refuse)
    events: list[Any] = []
    monkeypatch.setattr(type(small.world.reporter), "emit", lambda _, event: events.append(event))
    keep_last_start(small.world, "llama")
    assert [event.text for event in events] == [
        "what the engine found was not kept: the disk is gone"
    ]


def test_another_number_format_is_loaded_in_another_way(small: Scene) -> None:
    """Also where the flag is written short: figures of bytes in memory do not hold then."""
    assert keep_told(small.world, h200(small), told_of("sglang-0.5.17-h200-by-stoker"))
    other = h200(small, "tp: 1, mem-fraction-static: 0.902, quantization: fp8")
    corrected = correct_described(small.world, other, describe_deployment(other))
    assert corrected.by is None
    assert "another number format" in corrected.doubts[0]
