"""SGLang's cookbook: generated files, and sources written out as its compiler does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.model.recipe import RecipeStatus
from stoker.recipes import sglang
from tests.recipes.reading import MADE, env_of, flags_of, paths_of, read_files, recipes_of

ROCKET = "sglang:acme/Rocket-300B"
GENERATED = "data/models/generated/v0.5.9/rocket.yaml"
#: A configuration whose values are all of the wrong kind.
ENGINE = """
families:
- models:
  - model_path: a/b
    attributes: {llm: 3}
    hardware:
      H200: {configurations: [{engine: {tp: many, dp: -1, extra_args: x, env_vars: []}}]}
"""
SOURCE = "data/models/src/v0.5.12/glider.yaml"


def test_fields_become_flags() -> None:
    recipe = recipes_of("sglang")[f"{ROCKET}/fp8/H200/default@0.5.9"]
    assert flags_of(recipe) == {
        "--tp-size": "8",
        "--tool-call-parser": "qwen25",
        "--reasoning-parser": "qwen3",
        "--chat-template": "./examples/rocket.jinja",
        "--mem-fraction-static": "0.85",
        "--trust-remote-code": None,
    }
    assert (recipe.precision, recipe.versions, recipe.strategy) == ("fp8", ">=0.5.9", "default")
    assert recipe.hardware.status is RecipeStatus.STATED
    assert (recipe.hardware.gpu, recipe.hardware.said) == ("h200", "")


def test_attention_that_is_divided_by_data_takes_no_more_gpus() -> None:
    recipe = recipes_of("sglang")[f"{ROCKET}/fp8/H200/high-throughput-dp@0.5.9"]
    assert flags_of(recipe)["--enable-dp-attention"] is None
    assert (recipe.hardware.gpu_count, recipe.hardware.host_count) == (8, 1)


def test_the_model_that_drafts_is_for_configurations_that_draft() -> None:
    recipes = recipes_of("sglang")
    drafting = recipes[f"{ROCKET}/fp8/H200/speculative@0.5.9"]
    assert flags_of(drafting)["--speculative-draft-model-path"] == "acme/Rocket-Draft"
    assert flags_of(drafting)["--speculative-algorithm"] == "EAGLE3"
    assert env_of(drafting) == {"ROCKET_SPEC": "1"}
    assert "--speculative-draft-model-path" not in flags_of(
        recipes[f"{ROCKET}/fp8/H200/default@0.5.9"]
    )


def test_more_gpus_than_a_machine_has_are_several_machines() -> None:
    recipe = recipes_of("sglang")[f"{ROCKET}/bf16/H100/default@0.5.9"]
    assert (recipe.hardware.gpu_count, recipe.hardware.host_count) == (16, 2)
    assert "it takes 2 machines, though the cookbook calls it a single one" in recipe.notes


def test_the_default_configuration_comes_first() -> None:
    names = [each.strategy for each in recipes_of("sglang").values() if "/fp8/H200/" in each.id]
    assert names[:3] == ["default", "high-throughput-dp", "speculative"]


def test_pictures_are_no_text() -> None:
    tasks = {each.model: each.task for each in recipes_of("sglang").values()}
    assert tasks["acme/Rocket-Image"] == "diffusion"
    assert tasks["acme/Rocket-300B"] == "text"


def test_keys_that_nobody_knows_are_told() -> None:
    told = [(each.place, each.sentence) for each in read_files("sglang")[GENERATED].complaints]
    assert told == [("models.Rocket-300B.payload", "this key is not understood")]


def test_a_source_is_read_where_nothing_was_generated() -> None:
    assert set(read_files("sglang")) == {GENERATED, SOURCE}


def test_a_series_is_written_out() -> None:
    glider = {each.id: each for each in read_files("sglang")[SOURCE].recipes}
    names = {each.model for each in glider.values()}
    assert names == {
        "acme/Glider-9B",
        "acme/Glider-9B-FP8",
        "acme/Glider-9B-Thinking",
        "acme/Glider-9B-Thinking-FP8",
        "other-org/Glider-Lite",
    }
    wide = flags_of(glider["sglang:acme/Glider-9B-Thinking-FP8/fp8/H200/wide@0.5.12"])
    assert wide == {
        "--tp-size": "4",
        "--ep-size": "2",
        "--tool-call-parser": "qwen25",
        "--reasoning-parser": "qwen3",
        "--kv-cache-dtype": "fp8_e4m3",
        "--mem-fraction-static": "0.8",
    }
    plain = flags_of(glider["sglang:acme/Glider-9B/bf16/B200/default@0.5.12"])
    assert plain == {"--tp-size": "1", "--tool-call-parser": "qwen25"}
    lite = flags_of(glider["sglang:other-org/Glider-Lite/nvfp4/H200/default@0.5.12"])
    assert lite["--tp-size"] == "1"


def test_what_the_compiler_does_not_read_is_told() -> None:
    told = {each.place: each.sentence for each in read_files("sglang")[SOURCE].complaints}
    assert told == {
        "models.Glider-Lite": "arguments of a model are not read, nor by its compiler",
        "families.Nothing": "it has no models",
    }


@pytest.mark.parametrize(
    "content",
    [
        "families: 3",
        "- 1",
        "families: [3, {models: [4, {name: x}]}]",
        "families: [{models: [{name: x, model_path: a/b, attributes: 4, hardware: {H200: 4}}]}]",
        "families: [{models: [{model_path: a/b, attributes: {llm: 3}, hardware: {H200: {}}}]}]",
        ENGINE,
        "defaults: 3\nfamilies: [{models: [{base_name: [1], quantizations: 3, hardware: []}]}]",
    ],
)
def test_values_of_the_wrong_kind_break_nothing(content: str) -> None:
    made = sglang.read(GENERATED, content, {}, MADE)
    assert all(recipe.hardware.gpu_count >= 1 for recipe in made.recipes)
    assert made.recipes or made.complaints


def test_sources_of_the_public_cookbook_give_what_was_generated() -> None:
    told = os.environ.get("STOKER_RECIPES", "")
    root = Path(told) / "sglang"
    if not told or not root.is_dir():
        pytest.skip("STOKER_RECIPES is not set")
    shared, entries = sglang.choose(paths_of(root))
    texts = {path: (root / path).read_text("utf-8") for path in shared}
    for entry in entries:
        source = entry.replace("/generated/", "/src/")
        if entry == source or not (root / source).is_file():
            continue
        one, other = (
            sglang.read(entry, (root / path).read_text("utf-8"), texts, MADE)
            for path in (entry, source)
        )
        signs = [
            {each.id: (each.models, flags_of(each), env_of(each)) for each in file.recipes}
            for file in (one, other)
        ]
        assert signs[0] == signs[1], entry
