"""Other estimators beside Stoker: how they are asked, summed up, and left out where they fail."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.evaluate import capacity_rivals_ask as asking
from stoker.evaluate.capacity_answers import Answer, answer_cases
from stoker.evaluate.capacity_cases import read_cases
from stoker.evaluate.capacity_rivals import (
    Compared,
    ask_all,
    describe,
    load_rivals,
    make_ask,
    read_config,
    render,
    sum_up,
)
from stoker.evaluate.rivals import Package, install
from stoker.model.facts import Plain

PROJECT = Path(__file__).resolve().parents[2]
CASE = """
id: '1'
source: somewhere/else@123 file.log
engine: vllm
version: 0.12.0
gpu: H100 80GB
gpu_key: H100
gpu_mem_gb: 80
gpu_count: 2
tp: 2
dp: 1
pp: 1
ep: 1
model: Llama
config: meta-llama__Llama
inputs:
  mem_fraction_static: 0.9
  mem_fraction_explicit: true
  kv_dtype: fp8
  quant: int4
logged:
  available_kv_gib: 60.0
  weights_gib: 7.6
  kv_tokens: 1966080
partial: false
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "_source": "a collection's own word",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cases, models = tmp_path / "capacity", tmp_path / "models"
    cases.mkdir()
    models.mkdir()
    (cases / "1.yaml").write_text(CASE, "utf-8")
    (models / "meta-llama__Llama.json").write_text(json.dumps(CONFIG), "utf-8")
    return cases


@pytest.fixture
def answers(folder: Path) -> dict[str, Answer]:
    found = answer_cases(read_cases(folder, folder.parent / "models"))
    return {answer.question: answer for answer in found}


def _config(folder: Path) -> dict[str, Plain]:
    found = read_config(folder, "1", folder.parent / "models")
    assert found is not None
    return found


def test_every_rival_can_be_asked_what_it_says() -> None:
    rivals = load_rivals()
    assert {rival.name for rival in rivals} == set(asking.TOOLS)
    for rival in rivals:
        assert set(rival.questions) <= set("abc")
        assert rival.asked
        assert rival.version[0].isdigit()


def test_a_config_is_as_the_hub_has_it(folder: Path) -> None:
    config = _config(folder)
    assert config["model_type"] == "llama"
    assert config["torch_dtype"] == "bfloat16"
    assert config["quantization_config"]["bits"] == 4
    assert config["_name_or_path"] == "meta-llama/Llama"
    assert "_source" not in config


def test_questions_grant_what_they_grant(folder: Path, answers: dict[str, Answer]) -> None:
    asks = {name: make_ask(answer, _config(folder)) for name, answer in answers.items()}
    assert asks["a"]["pool_bytes"] == 60 << 30
    assert asks["b"]["pool_bytes"] is None
    assert asks["b"]["weight_bytes"] is None
    assert asks["c"]["weight_bytes"] == int(7.6 * (1 << 30))
    for ask in asks.values():
        assert ask["total_bytes"] == 81559 << 20
        assert (ask["share"], ask["ranks"]["tp"], ask["kv_type"]) == (0.9, 2, "fp8")
        assert "1966080" not in json.dumps(ask)


def test_errors_are_those_of_the_same_cases(answers: dict[str, Answer]) -> None:
    rival = next(each for each in load_rivals() if each.name == "vramscout")
    given = [answers["b"], answers["c"]]
    found: list[dict[str, Plain]] = [{"refused": "it cannot"}, {"tokens": 1966080 * 1.25}]
    rows = {row.question: row for row in sum_up(rival, given, found)}
    assert set(rows) == {"b", "c"}
    assert (rows["b"].answered, rows["b"].refused, rows["b"].median) == (0, 1, None)
    assert (rows["c"].answered, rows["c"].refused) == (1, 0)
    assert rows["c"].median == pytest.approx(0.25)
    error = answers["c"].error
    assert error is not None
    assert rows["c"].ours_median == pytest.approx(abs(error))


def test_what_was_not_run_is_printed() -> None:
    compared = Compared(rows=(), refusals={}, not_run=("kvfit: not run (no room)",))
    text = render(compared)
    assert "kvfit: not run (no room)" in text
    assert "hf-mem" in text
    assert "kvfit: not run (no room)" in describe(compared)["not_run"]


def _raise(_: dict[str, object]) -> float:
    raise KeyError("hidden_size")


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (lambda _: 12.0, {"tokens": 12.0}),
        (lambda _: 0.0, {"refused": "it says that nothing fits"}),
        (lambda _: math.inf, {"refused": "it says that nothing fits"}),
        (_raise, {"refused": "'hidden_size'"}),
    ],
)
def test_a_refusal_is_an_answer(
    tool: Callable[[dict[str, object]], float], expected: dict[str, object]
) -> None:
    assert asking.answer(tool, {}) == expected


def test_reasons_name_no_folder_that_is_gone() -> None:
    def tool(_: dict[str, object]) -> float:
        raise ValueError(f"no weights in {tempfile.gettempdir()}/tmp1a2b. See the manual\nand more")

    assert asking.answer(tool, {}) == {"refused": "no weights in the folder"}


def test_the_asking_needs_nothing_of_stoker() -> None:
    """It runs in the environments of others."""
    ask = {"question": "b", "ranks": {"pp": 1, "groups": 1, "dcp": 1}}
    command = [sys.executable, "-I", "-S", asking.__file__, "kvfit"]
    done = subprocess.run(
        command, input=json.dumps([ask]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert "weights" in found["refused"]


def test_a_tool_that_is_not_in_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    python, reason = install(
        Package(name="vramscout", version="0.0.0", check=("-c", "import vramscout"))
    )
    assert python == ""
    assert reason.startswith("vramscout: not run (")


def test_a_real_one_answers(
    folder: Path, answers: dict[str, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = next(each for each in load_rivals() if each.name == "vramscout")
    if not (PROJECT / ".cache/rivals" / f"{rival.name}-{rival.version}").is_dir():
        pytest.skip("no report has installed the tool here")
    monkeypatch.chdir(PROJECT)
    asks = [make_ask(answers[question], _config(folder)) for question in "abc"]
    found, reason = ask_all(rival, asks)
    assert reason == ""
    assert found is not None
    # 16 heads of 128 in 8 bit, 32 layers, on each of two GPUs: 32 KiB a token.
    assert found[0]["tokens"] == pytest.approx((60 << 30) / (32 << 10))
    assert 1_500_000 < found[2]["tokens"] < 2_300_000
