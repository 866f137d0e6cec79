"""`stoker explain` on a machine in memory: who chose a setting, against whom, and what else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.commands.explain import explain_file
from stoker.errors import UsageError
from stoker.model.document import parse_document, render_document
from stoker.model.explanation import Explained, Explanation
from stoker.model.launch import Origin, Setting
from stoker.report.explained_text import render_explained
from tests.commands.boxes import ENGINE, MODEL, Box

FILE = f"""
name: smol
model: path:{MODEL}
engine:
  kind: llamacpp
  environment: path:{ENGINE}
  settings: {{ctx-size: 2048, jinja: true}}
  env: {{OMP_NUM_THREADS: "1"}}
gpus: none
service: {{supervisor: supervisord}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "smol.yaml"
    path.write_text(FILE)
    return str(path)


def explain(file: str, flag: str | None = None) -> Explained:
    return explain_file(Box().world(), file, flag=flag)


def test_every_setting_of_the_launch_is_explained(file: str) -> None:
    explained = explain(file)
    by_name = {each.name: each for each in explained.explanations}
    assert len(by_name) == len(explained.explanations)
    assert all(each.setting is not None and each.without for each in explained.explanations)
    chosen = by_name["--ctx-size"].setting
    assert chosen is not None
    assert chosen.origin is Origin.USER
    assert by_name["OMP_NUM_THREADS"].kind == "env"


def test_the_age_of_what_is_known(file: str) -> None:
    (alias,) = explain(file, "alias").explanations
    assert alias.setting is not None
    assert alias.setting.source is not None
    # The clock of the machine in memory is years before the measurement.
    assert alias.age_days == 0


@pytest.mark.parametrize("spelled", ["--ctx-size", "ctx-size", "ctx_size", "c", "-c"])
def test_a_flag_by_any_spelling(file: str, spelled: str) -> None:
    (explanation,) = explain(file, spelled).explanations
    assert explanation.setting is not None
    assert explanation.setting.value == "2048"
    assert "default" in explanation.without


def test_a_flag_that_nobody_sets(file: str) -> None:
    (explanation,) = explain(file, "cache-type-k").explanations
    assert explanation.setting is None
    assert explanation.without == "the engine's own default: f16"
    assert "q8_0" in explanation.choices


def test_a_variable_by_its_name(file: str) -> None:
    for spelled in ("OMP_NUM_THREADS", "$OMP_NUM_THREADS"):
        (explanation,) = explain(file, spelled).explanations
        assert explanation.setting is not None
        assert explanation.setting.value == "1"


def test_a_flag_of_no_release(file: str) -> None:
    with pytest.raises(UsageError, match="no flag or variable named cache-typ-k") as caught:
        explain(file, "cache-typ-k")
    assert caught.value.hint == "did you mean --cache-type-k?"


def test_the_document_says_the_same(file: str) -> None:
    explained = explain(file)
    assert parse_document(render_document(explained), Explained) == explained


def test_the_text_says_who_why_and_against_whom() -> None:
    def make(value: str | None, origin: Origin, **more: Any) -> Setting:
        return Setting(name="--x", value=value, origin=origin, reason=f"by {origin}", **more)

    rule = make("2", Origin.RULE, rule="a.b")
    setting = make("1", Origin.RECIPE, rule="vllm/m", instead_of=(rule, make(None, Origin.RULE)))
    explanation = Explanation(name="--x", kind="flag", setting=setting, without="nothing works")
    text = render_explained(
        Explained(name="n", engine="sglang", build="1", explanations=(explanation,))
    )
    assert text.splitlines() == [
        "n: sglang 1",
        "",
        "--x 1",
        "    chosen by recipe vllm/m: by recipe",
        "    instead of 2 of rule a.b: by rule",
        "    instead of the bare flag of rule: by rule",
        "    without it: nothing works",
    ]
