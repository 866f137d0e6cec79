"""The score of plans against collections, on the fixtures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.evaluate.recipe_cases import Outcome, judge_alone, judge_choice, judge_recipe
from stoker.evaluate.recipes import choose_own, main
from tests.recipes.reading import FIXTURES, recipes_of

TEP = "vllm:acme/Rocket-300B/default/h200/single_node_tep"


def test_a_recipe_that_is_followed_agrees() -> None:
    judged = judge_recipe(recipes_of("vllm")[TEP])
    assert judged.differences == ()
    assert judged.outcome is Outcome.AGREES
    assert judged.consents == ("--trust-remote-code",)


def test_a_flag_of_no_release_differs() -> None:
    recipe = recipes_of("vllm")[TEP]
    odd = replace(recipe.settings[0], name="--no-such-flag", value="1")
    judged = judge_recipe(replace(recipe, settings=(*recipe.settings, odd)))
    assert judged.outcome is Outcome.DIFFERS
    assert "nor any release" in judged.differences[0]


def test_a_size_that_cannot_be_differs() -> None:
    recipe = recipes_of("sglang")["sglang:acme/Rocket-300B/fp8/H200/high-throughput-dp@0.5.9"]
    four = [
        replace(each, value="4") if each.name == "--tp-size" else each for each in recipe.settings
    ]
    judged = judge_recipe(replace(recipe, settings=tuple(four)))
    assert judged.outcome is Outcome.DIFFERS
    assert "parallel.size-impossible" in judged.differences[0]


def test_what_a_newer_release_took_away_is_overridden() -> None:
    recipe = recipes_of("sglang")["sglang:acme/Rocket-300B/fp8/H200/default@0.5.9"]
    nano = [
        replace(each, value="nano_v3") if each.name == "--reasoning-parser" else each
        for each in recipe.settings
    ]
    judged = judge_recipe(replace(recipe, settings=tuple(nano)))
    assert judged.outcome is Outcome.OVERRIDDEN
    assert "takes no 'nano_v3'" in judged.overridden[0]


def test_a_model_that_nobody_can_deploy_is_a_difference() -> None:
    recipe = replace(recipes_of("vllm")[TEP], models=("../../etc",))
    judged = judge_recipe(recipe)
    assert judged.outcome is Outcome.DIFFERS
    assert judged.differences[0].startswith("no launch can be made")
    assert list(judge_alone(recipe)) == []


def test_what_rules_say_alone_is_told_apart() -> None:
    told = {what: word for what, word, _ in judge_alone(recipes_of("vllm")[TEP])}
    assert set(told) == {"reasoning parser", "tensor size"}
    assert set(told.values()) <= {"same", "other", "silent"}


def test_what_auto_takes() -> None:
    recipes = list(recipes_of("vllm").values())
    assert judge_choice(recipes_of("vllm")[TEP], recipes) == "this very recipe"
    other = recipes_of("vllm")["vllm:acme/Rocket-300B/default/h200/single_node_tp"]
    assert judge_choice(other, recipes) == "another one for the same checkpoint and GPU"
    assert judge_choice(other, []) == "none"


def test_its_own_hardware_is_what_an_entry_lists() -> None:
    skipped: Counter[str] = Counter()
    rocket = [each for each in recipes_of("vllm").values() if "Rocket" in each.id]
    words = {each.hardware.word for each in choose_own(rocket, skipped)}
    assert words == {"h200", "rtx_pro_6000_8x"}
    assert set(skipped) == {"not its own hardware", "several machines", "said not to work there"}


def test_an_entry_without_a_list_has_its_first_hardware() -> None:
    feather = [each for each in recipes_of("vllm").values() if "Feather" in each.id]
    assert {each.hardware.word for each in choose_own(feather, Counter())} == {"h200"}


def test_the_report_of_the_fixtures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", str(FIXTURES)]) == 0
    text = capsys.readouterr().out
    assert "sglang-cookbook" in text
    assert "what our rules say alone" in text
    assert "contradict each other" in text


def test_nothing_to_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_RECIPES", raising=False)
    assert main(["recipes"]) == 2
    assert main(["recipes", str(tmp_path)]) == 2
    assert main(["recipes", str(tmp_path / "nowhere")]) == 2


def test_a_collection_that_nobody_can_follow_misses_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (FIXTURES / "vllm").rglob("*.yaml"):
        target = tmp_path / path.relative_to(FIXTURES / "vllm")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text("utf-8").replace("--max-model-len", "--never-heard-of")
        target.write_text(text, encoding="utf-8")
    assert main(["recipes", str(tmp_path)]) == 1
    assert "nor any release" in capsys.readouterr().out
