"""How recorded start-ups are read: what is granted to a question, and what a broken file does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stoker.evaluate.capacity import main, summarise
from stoker.evaluate.capacity_answers import answer_cases
from stoker.evaluate.capacity_cases import (
    QUESTIONS,
    Case,
    read_cases,
    read_release,
)
from stoker.evaluate.capacity_precision import list_precisions, read_quantization
from tests.capacity.configs import LATENT_16B, LLAMA_8B

GIB = 1 << 30
SGLANG: dict[str, Any] = {
    "source": "a/b@c d",
    "engine": "sglang",
    "version": "0.5.12",
    "gpu_key": "H100",
    "gpu_mem_gb": 80,
    "gpu_count": 1,
    "tp": 1,
    "model": "m",
    "config": "llama",
    "flags": ["--mem-fraction-static 0.85", "--speculative-algorithm EAGLE"],
    "inputs": {"mem_fraction_static": 0.85, "mem_fraction_explicit": True, "spec": "EAGLE"},
    "logged": {
        "avail_before_weights_gib": 78.4,
        "avail_after_weights_gib": 63.3,
        "weights_gib": 15.02,
        "draft_weights_gib": 0.9,
        "kv_tokens": 400000,
    },
    "partial": False,
}
VLLM: dict[str, Any] = {
    "source": "a/b",
    "engine": "vllm",
    "version": "0.19.0",
    "gpu_key": "NVIDIA H100 80GB HBM3",
    "tp": 1,
    "model": "m",
    "config": "llama",
    "flags": ["max_model_len=8192 gpu_memory_utilization=0.95 enable_prefix_caching=False"],
    "inputs": {"mem_fraction_explicit": True},
    "logged": {"weights_gib": 14.99, "available_kv_gib": 57.0, "kv_tokens": 466944},
    "partial": False,
}
LLAMA_CPP: dict[str, Any] = {
    "source": "a/b",
    "engine": "llama.cpp",
    "version": "b6500",
    "model": "m",
    "config": "latent",
    "flags": ["-c 32768 -ctk q8_0 -ctv q8_0"],
    "logged": {"kv_mib": 516.38},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cases, models = tmp_path / "capacity", tmp_path / "models"
    cases.mkdir()
    models.mkdir()
    (models / "llama.json").write_text(json.dumps(LLAMA_8B), "utf-8")
    (models / "latent.json").write_text(json.dumps(LATENT_16B), "utf-8")
    return cases


def read(folder: Path, *cases: dict[str, Any]) -> tuple[Case, ...]:
    """Cases as they are read from files."""
    for number, case in enumerate(cases):
        YAML(typ="safe").dump(case, folder / f"{number}.yaml")
    return read_cases(folder, folder.parent / "models")


@pytest.mark.parametrize("case", [SGLANG, VLLM], ids=["sglang", "vllm"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_nothing_of_the_answer_is_an_input(
    folder: Path, case: dict[str, Any], question: str
) -> None:
    granted = {
        "a": {
            key for key in case["logged"] if key.startswith(("avail", "weights", "draft_weights"))
        },
        "b": set(),
        "c": {"weights_gib", "draft_weights_gib"},
    }
    other = {
        key: value if key in granted[question] else value * 3
        for key, value in case["logged"].items()
    }
    extra = {"context_len": 777, "max_running_requests": 3, "kv_gib": 1.0, "graph_gib": 9.0}
    first, second = read(folder, case, {**case, "logged": {**other, **extra}})
    asked = first.question(question), second.question(question)
    assert asked[0] is not None
    assert asked[1] is not None
    assert replace(asked[0], name="") == replace(asked[1], name="")


def test_weights_of_a_draft_are_granted_with_the_others(folder: Path) -> None:
    (case,) = read(folder, SGLANG)
    told = {}
    for name in QUESTIONS:
        inputs = case.question(name)
        assert inputs is not None
        assert inputs.settings.parts.speculation is not None
        told[name] = inputs.settings.parts.speculation.weight_bytes
    assert told == {"a": int(0.9 * GIB), "b": None, "c": int(0.9 * GIB)}


def test_a_share_that_nobody_told_is_not_guessed(folder: Path) -> None:
    untold = {**VLLM, "flags": [], "inputs": {"mem_fraction_explicit": None}}
    (case,) = read(folder, untold)
    assert case.question("a") is not None
    assert case.question("b") is None
    assert case.question("c") is None


def test_flags_count_where_the_case_says_nothing_by_meaning(folder: Path) -> None:
    (case,) = read(
        folder,
        {**VLLM, "tp": None, "gpu_count": None, "flags": ["-tp 2", "--gpu-memory-utilization=0.8"]},
    )
    assert case.inputs.ranks.tensor == 2
    assert case.inputs.settings.memory_share == 0.8
    assert case.inputs.settings.has_prefix_reuse
    assert len(case.gpus) == 2


def test_each_group_of_ranks_logs_its_own_tokens(folder: Path) -> None:
    alone = {
        **SGLANG,
        "inputs": {"mem_fraction_static": 0.85, "mem_fraction_explicit": True},
        "flags": [],
    }
    grouped = {**alone, "tp": 4, "dp": 4, "gpu_count": 4}
    first, second = answer_cases(read(folder, alone, grouped))[::3]
    assert first.span is not None
    assert second.span is not None
    assert second.case.inputs.ranks.attention_groups == 4
    assert second.span.likely == pytest.approx(first.span.likely, rel=0.01)


@pytest.mark.parametrize("flags", ["-c 32768 -ctk q8_0 -ctv q8_0", "--ctx-size=32768 -ctk q8_0"])
def test_llama_cpp_is_measured_in_the_bytes_of_its_cache(folder: Path, flags: str) -> None:
    (case,) = read(folder, {**LLAMA_CPP, "flags": [flags]})
    (answer,) = answer_cases([case])
    assert answer.question == "a"
    assert answer.is_inside
    assert answer.error == pytest.approx(0.0, abs=1e-4)


def test_llama_cpp_is_told_its_context(folder: Path) -> None:
    logged = {"context_len": 32768, "k_mib": 258.19, "v_mib": 258.19}
    case = {**LLAMA_CPP, "flags": [], "inputs": {"kv_dtype": "q8_0"}, "logged": logged}
    (answer,) = answer_cases(read(folder, case))
    assert answer.is_inside


def test_an_engine_that_nobody_knows_is_refused_and_counted(folder: Path) -> None:
    answers = answer_cases(read(folder, {**VLLM, "engine": "tgi"}))
    assert [answer.is_refused for answer in answers] == [True]
    assert summarise(answers)["refused"] == 1


def test_what_is_missing_or_absurd_stops_nothing(folder: Path) -> None:
    strange: list[dict[str, Any]] = [
        {"logged": {}},
        {"logged": {"kv_tokens": 5}, "engine": "vllm"},
        {**VLLM, "inputs": 3, "flags": 7, "tp": "two", "gpu_key": 9, "config": "../llama"},
        {
            **VLLM,
            "inputs": {"mem_fraction_static": "0.9", "quant": 4},
            "version": 0.19,
            "source": None,
        },
        {**SGLANG, "logged": {**SGLANG["logged"], "avail_after_weights_gib": "much"}},
        {**SGLANG, "tp": 0, "pp": -3, "gpu_count": 0},
        {**VLLM, "config": "9" * 5000},
        {**VLLM, "config": "a\u0000b"},
    ]
    found = summarise(answer_cases(read(folder, *strange)))
    assert set(found) == {"groups", "refused", "inside_interval"}


def test_a_release_that_lost_its_zero_is_not_guessed(folder: Path) -> None:
    text = json.dumps({**VLLM, "version": "@"}).replace('"@"', "0.20")
    (folder / "case.yaml").write_text(text, "utf-8")
    (case,) = read_cases(folder, folder.parent / "models")
    assert case.inputs.release == ""
    case = read(folder, {**VLLM, "version": 0.19})[0]
    assert case.inputs.release == "0.19"


def test_a_broken_file_is_told_and_the_others_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.yaml").write_text("{", "utf-8")
    (folder / "binary.yaml").write_bytes(b"\xff\xfe")
    (folder.parent / "models" / "bad.json").write_text("{no", "utf-8")
    read(folder, VLLM, {**VLLM, "config": "bad"})
    capsys.readouterr()
    main([str(folder), "--json"])
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["groups"]["vllm"]["a"]["n"] == 1
    assert found["refused"] == 1
    told = printed.err.splitlines()
    assert sorted(line.split()[0] for line in told) == ["bad.json", "binary.yaml", "broken.yaml"]


def test_the_shape_of_the_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(folder), "--models", str(folder.parent / "models"), "--json"])
    found = json.loads(capsys.readouterr().out)
    nothing = {"n": 0, "median": None, "p95": None, "per_source_median": None}
    group = dict.fromkeys(QUESTIONS, nothing)
    groups = dict.fromkeys(("sglang", "vllm", "llamacpp"), group)
    assert found == {"groups": groups, "refused": 0, "inside_interval": None}


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.5.4.post1", "0.5.4"),
        ("v0.11.0rc2", "0.11.0"),
        ("0.5.10..0.5.12 (by log format)", "0.5.10"),
        ("0.5.2x", "0.5.25"),
        ("0.1x", "0.15"),
        ("0.5.x fork", ""),
        ("main 2026-09", ""),
        ("dev (2026-06)", ""),
        ("0.11.1.dev12+gabc123", "0.11.1"),
        ("lmsysorg/sglang:v0.5.6-cu129", "0.5.6"),
        ("vLLM v0.8.5.post1", "0.8.5"),
        ("a1b2c3d", ""),
        ("build b4567", "b4567"),
        ("", ""),
    ],
)
def test_releases(text: str, release: str) -> None:
    assert read_release(text) == release


@pytest.mark.parametrize(
    ("word", "bits", "group"),
    [
        ("int4g32", 4, 32),
        ("nvfp4", 4, 0),
        ("fp8", 8, 0),
        ("bf16", 16, 0),
        ("awq", 4, 0),
        ("fp32", 32, 0),
    ],
)
def test_words_for_stored_weights(word: str, bits: int, group: int) -> None:
    found = read_quantization(word)
    assert (found.bits, found.group) == (bits, group)


def test_ranks_on_several_machines_have_a_gpu_each(folder: Path) -> None:
    (case,) = read(folder, {**VLLM, "tp": 16, "gpu_count": 8})
    assert len(case.gpus) == 16
    answers = answer_cases([case])
    assert [answer.question for answer in answers] == ["a", "b", "c"]
    assert not answers[0].is_refused


@pytest.mark.parametrize(
    ("model", "config", "own", "flags", "words"),
    [
        ("a/Big (FP8 dynamic)", "a__Big", "", {}, ["fp8"]),
        ("a/Big", "a__Big", "", {}, ["bf16"]),
        ("a/Big", "a__Big", "", {"quantization": "fp8"}, ["fp8"]),
        ("a/Big", "a__Big", "", {"dtype": "float32"}, ["fp32"]),
        ("a/Big", "a__Big", "fp8", {}, ["fp8"]),
        ("a/Big-it", "a__Big", "fp8", {}, ["fp8", "bf16"]),
        ("a/Big", "b__Big-NVFP4", "nvfp4", {}, ["bf16", "nvfp4"]),
        ("b/Big-FP8", "b__Big-FP8", "", {}, ["fp8", "bf16"]),
        ("Big in FP8, beside AWQ", "a__Big", "", {}, ["fp8", "awq"]),
        ("unnamed", "a__Big", "", {}, ["bf16", "fp8", "int4"]),
    ],
)
def test_precisions_that_a_name_and_a_file_allow(
    model: str, config: str, own: str, flags: dict[str, Any], words: list[str]
) -> None:
    case = {"model": model, "config": config, "inputs": {}}
    found = list_precisions(case, flags, read_quantization(own))
    assert found == tuple(map(read_quantization, words))
    told = {**case, "inputs": {"quant": "int8"}}
    assert list_precisions(told, flags, read_quantization(own)) == (read_quantization("int8"),)


def test_an_untold_precision_widens_the_interval(folder: Path) -> None:
    """Question b alone: the others grant the weights."""
    spans = {}
    for model in ("llama", "unnamed"):
        cases = read(folder, {**VLLM, "model": model})
        spans[model] = {each.question: each.span for each in answer_cases(cases)}
    told, untold = spans["llama"]["b"], spans["unnamed"]["b"]
    assert told is not None
    assert untold is not None
    assert untold.low <= told.low
    assert untold.high > 1.1 * told.high
    assert untold.likely == told.likely
    assert spans["llama"]["a"] == spans["unnamed"]["a"]
    assert spans["llama"]["c"] == spans["unnamed"]["c"]


def test_a_precision_that_does_not_fit_was_not_run(folder: Path) -> None:
    """92 GB of weights in full do not fit on one GPU of 80 GB beside anything; in 8 bit they do."""
    big = {**LLAMA_8B, "num_hidden_layers": 200}
    (folder.parent / "models" / "llama.json").write_text(json.dumps(big))
    (case,) = read(folder, {**VLLM, "model": "unnamed"})
    spans = {each.question: each.span for each in answer_cases((case,))}
    assert case.precisions
    assert spans["b"] is not None
