"""The report that compares our parsers with those of recipes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from stoker.errors import UsageError
from stoker.evaluate import parsers
from stoker.evaluate.parsers import Case, judge, judge_all, read_cases, render

#: One entry in each format, written for this test.
VLLM = """
meta:
  title: A model
  tasks: [text]
model:
  model_id: Qwen/Qwen3-8B
  min_vllm_version: "0.11.0"
  base_args: []
features:
  tool_calling:
    description: calls
    args: ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
  reasoning:
    description: thoughts
    args: ["--reasoning-parser", "qwen3"]
variants:
  default:
    precision: bf16
    vram_minimum_gb: 20
compatible_strategies: [single_node_tp]
"""
TAXONOMY = """
hardware_profiles:
  h100:
    brand: NVIDIA
    gpu_count: 8
    vram_gb: 640
"""
STRATEGY = "name: single_node_tp\nparallelism: tp\n"
SGLANG = """
vendor: zai
families:
- name: GLM
  models:
  - name: GLM-4.6
    model_path: zai-org/GLM-4.6
    attributes:
      llm:
        thinking_capability: hybrid
        tool_parser: glm45
        reasoning_parser: glm45
        chat_template: null
    hardware:
      H200:
        configurations:
        - name: default
          attributes: {nodes: single, optimization: balanced, quantization: bf16}
          quantized_model_path: null
          engine: {env_vars: {}, tp: 8, dp: null, ep: null, extra_args: []}
          prefill: null
          decode: null
"""


def case(model: str, tool_call: str | None, reasoning: str | None, release: str = "0.33.0") -> Case:
    named = {"tool_call": tool_call, "reasoning": reasoning}
    return Case(engine="vllm", model=model, release=release, named=named)


@pytest.mark.parametrize(
    ("told", "verdicts"),
    [
        (case("Qwen/Qwen3-8B", "hermes", "qwen3"), ["same", "same"]),
        (case("Qwen/Qwen3.5-9B", "qwen3_xml", None), ["other name", "ours more"]),
        (case("Qwen/Qwen3-Embedding-8B", None, None), ["neither", "neither"]),
        (case("Qwen/Qwen3-8B", "mistral", "olmo3"), ["ours differs", "ours differs"]),
        (case("moonshotai/Kimi-K3", "kimi_k3", "kimi_k3", "0.19.1"), ["release lacks it"] * 2),
        (case("Qwen/Qwen3-4B-Instruct-2507", "hermes", "qwen3"),
         ["same", "ours none: does not think"]),
        (case("org/new-thing", "hermes", None), ["family not known", "neither"]),
        (case("Qwen/Qwen3-VL-Embedding-2B", "hermes", None),
         ["ours none: does not think", "neither"]),
    ],
)  # fmt: skip
def test_verdicts(told: Case, verdicts: list[str]) -> None:
    assert [judged.verdict for judged in judge(told)] == verdicts


def test_the_report_counts_and_explains() -> None:
    cases = [
        case("Qwen/Qwen3-8B", "hermes", "qwen3"),
        case("org/new-thing", "hermes", None),
        case("zai-org/GLM-4.6", "mistral", "glm45"),
    ]
    report = render(judge_all(cases))
    assert "models recognised by name: 2 of 3 (66.7%)" in report
    assert "not recognised: org/new-thing" in report
    assert "agreement: 4 of 6 (66.7%)" in report
    assert "zai-org/GLM-4.6: tool_call: the recipe names mistral, ours is glm45" in report


def make_collections(folder: Path) -> None:
    files = {
        "vllm/taxonomy.yaml": TAXONOMY,
        "vllm/strategies/single_node_tp.yaml": STRATEGY,
        "vllm/models/Qwen/Qwen3-8B.yaml": VLLM,
        "sglang/data/models/generated/v0.5.6/glm46.yaml": SGLANG,
    }
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def test_both_collections_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_collections(tmp_path)
    cases = {(each.engine, each.model): each for each in read_cases(tmp_path)}
    assert cases["vllm", "Qwen/Qwen3-8B"].named == {"tool_call": "hermes", "reasoning": "qwen3"}
    assert cases["sglang", "zai-org/GLM-4.6"].release == "0.5.6"
    monkeypatch.setenv("STOKER_RECIPES", str(tmp_path))
    assert parsers.main() == 0
    assert "agreement: 4 of 4 (100.0%)" in capsys.readouterr().out


def test_without_recipes_it_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError):
        read_cases(tmp_path)
    monkeypatch.setenv("STOKER_RECIPES", str(tmp_path))
    assert parsers.main() == 2
    assert "STOKER_RECIPES" in capsys.readouterr().err


@pytest.mark.skipif("STOKER_RECIPES" not in os.environ, reason="needs the public recipes")
def test_nearly_all_public_recipes_agree() -> None:
    judged = judge_all(read_cases(Path(os.environ["STOKER_RECIPES"])))
    verdicts = Counter(each.agrees for each in judged)
    assert verdicts[True] / len(judged) >= 0.97
    assert sum(each.is_known for each in judged) / len(judged) >= 0.97
