"""The report on capacity: how cases are read, and how near the predictions are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.evaluate.__main__ import REPORTS
from stoker.evaluate.capacity import main, render_answers, summarise
from stoker.evaluate.capacity_answers import answer_cases, find_percentile
from stoker.evaluate.capacity_cases import read_cases
from tests.capacity.configs import LLAMA_8B

CORPUS = Path(os.environ.get("STOKER_CORPUS") or "/nowhere")

CASE = """
id: '1'
source: somewhere/else@123 file.log
engine: sglang
version: 0.5.1x
gpu: H200
gpu_key: H200
gpu_mem_gb: 141
gpu_count: 1
tp: 1
dp: 1
pp: 1
ep: 1
model: Llama
config: llama
flags:
- --mem-fraction-static 0.903
inputs:
  mem_fraction_static: 0.903
  mem_fraction_explicit: true
logged:
  avail_before_weights_gib: 139.09
  avail_after_weights_gib: 124.07
  weights_gib: 15.02
  kv_tokens: 905795
partial: false
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cases, models = tmp_path / "capacity", tmp_path / "models"
    cases.mkdir()
    models.mkdir()
    (cases / "1.yaml").write_text(CASE, "utf-8")
    (cases / "2.yaml").write_text(CASE.replace("config: llama", "config: null"), "utf-8")
    (cases / "broken.yaml").write_text("{", "utf-8")
    (models / "llama.json").write_text(json.dumps(LLAMA_8B), "utf-8")
    return cases


def test_a_case_is_asked_three_questions(folder: Path) -> None:
    cases = read_cases(folder, folder.parent / "models")
    answers = answer_cases(cases)
    assert [case.id for case in cases] == ["1", "2"]
    assert [answer.question for answer in answers if not answer.is_refused] == ["a", "b", "c"]
    for answer in answers[:3]:
        assert answer.error is not None
        assert abs(answer.error) < 0.003
        assert answer.is_inside
    assert answers[3].is_refused


def test_the_summary_is_one_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(folder), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["refused"] == 1
    assert found["inside_interval"] == 1.0
    assert found["groups"]["sglang"]["a"]["n"] == 1
    assert found["groups"]["llamacpp"]["c"] == {
        "n": 0,
        "median": None,
        "p95": None,
        "per_source_median": None,
    }


def test_the_table_names_each_case(folder: Path) -> None:
    text = render_answers(answer_cases(read_cases(folder, folder.parent / "models")))
    assert "905795" in text
    assert "refused" in text


def test_an_empty_folder_has_no_figures(tmp_path: Path) -> None:
    found = summarise(answer_cases(read_cases(tmp_path, tmp_path)))
    assert found["refused"] == 0
    assert found["inside_interval"] is None


def test_percentiles_lie_between_ranks() -> None:
    assert find_percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert find_percentile([0.0, 1.0], 0.95) == pytest.approx(0.95)


def test_reports_are_run_by_name(folder: Path) -> None:
    command = [sys.executable, "-m", "stoker.evaluate", "capacity", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["groups"]["sglang"]["c"]["n"] == 1
    unnamed = subprocess.run(command[:3], capture_output=True, text=True, check=False)
    assert unnamed.returncode == 1
    assert all(name in unnamed.stderr for name in REPORTS)


@pytest.mark.skipif(not (CORPUS / "capacity").is_dir(), reason="STOKER_CORPUS names no cases")
class TestCorpus:
    """Targets, on all cases and on halves, so that nothing is fitted to single ones."""

    @pytest.mark.parametrize("half", [None, 0, 1])
    def test_targets(self, half: int | None) -> None:
        cases = read_cases(CORPUS / "capacity", CORPUS / "models")
        chosen = [case for case in cases if half is None or int(case.id) % 2 == half]
        found = summarise(answer_cases(chosen))
        groups = found["groups"]
        assert groups["sglang"]["a"]["median"] <= 0.001
        assert groups["sglang"]["b"]["median"] <= 0.05
        assert groups["sglang"]["c"]["median"] <= 0.004
        assert groups["sglang"]["c"]["p95"] <= 0.03
        assert groups["vllm"]["a"]["median"] <= 0.0001
        assert groups["vllm"]["c"]["median"] <= 0.005
        assert groups["vllm"]["c"]["p95"] <= 0.15
        assert found["inside_interval"] >= 0.95

    def test_the_tails_of_the_whole(self) -> None:
        groups = summarise(answer_cases(read_cases(CORPUS / "capacity", CORPUS / "models")))[
            "groups"
        ]
        assert groups["sglang"]["a"]["p95"] <= 0.009
        assert groups["sglang"]["b"]["p95"] <= 0.25
        assert groups["vllm"]["a"]["p95"] <= 0.001
