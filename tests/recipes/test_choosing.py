"""What a recipe sets for a deployment: matched, fitted, in the launch and in the findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands.recipe_sync import sync_recipes
from stoker.commands.recipes import OBSERVATION, RecipeChoice, choose_recipe, recipe_settings
from stoker.commands.resolve import resolve_launch
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.knowledge.releases import load_table_for
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.deployment import Deployment
from stoker.model.engine_table import Place
from stoker.model.facts import Facts, Observation, Plain
from stoker.model.finding import Finding
from stoker.model.launch import Launch, Origin, Setting
from tests.recipes.reading import FIXTURES
from tests.recipes.test_sync import world

__all__ = ["world"]

ROCKET = "vllm:acme/Rocket-300B/default/h200"
RELEASE = "0.33.0"


@pytest.fixture
def stocked(world: World) -> World:
    """A world that has read both collections of the fixtures."""
    sync_recipes(world, str(FIXTURES))
    return world


def gpus(name: str = "NVIDIA H200", capability: str = "9.0", count: int = 8) -> Facts:
    value: Plain = {
        "driver_version": "580.1",
        "cuda_version": "13.0",
        "gpus": [
            {
                "index": index,
                "name": name,
                "compute_capability": capability,
                "memory_total_bytes": 141 << 30,
                "memory_used_bytes": 0,
                "pci_bus_id": f"0000:0{index}:00.0",
                "uuid": f"GPU-{index}",
                "processes": [],
            }
            for index in range(count)
        ],
    }
    seen = Observation(probe="gpus", value=value)
    return Facts(host="test", stoker_version="0", observations={"gpus": seen})


def deployment(model: str = "acme/Rocket-300B", **changes: Any) -> Deployment:
    engine = {"kind": "vllm", "environment": "system", **changes.pop("engine", {})}
    data = {"name": "rocket", "model": f"hf:{model}", "engine": engine, **changes}
    return Deployment.model_validate(data)


PLACE = Place(command="/usr/bin/vllm", build=RELEASE, model_path="/models/rocket")


def choose(stocked: World, wish: Deployment, facts: Facts | None = None) -> RecipeChoice:
    table = load_table_for("vllm", RELEASE)
    return choose_recipe(stocked, wish, facts or gpus(), table, place=PLACE)


def launch(stocked: World, wish: Deployment, facts: Facts | None = None) -> Launch:
    table, seen = load_table_for("vllm", RELEASE), facts or gpus()
    proposed = recipe_settings(stocked, wish, seen, table, place=PLACE)
    return resolve_launch(wish, seen, table, PLACE, proposed=proposed)


def setting(made: Launch, name: str) -> Setting:
    return next(each for each in made.settings if each.name == name)


def findings(choice: RecipeChoice, accept: tuple[str, ...] = ()) -> dict[str, Finding]:
    rules = [rule for rule in load_rules() if rule.id.startswith("recipe.")]
    tree = {OBSERVATION: choice.observation.value}
    told = evaluate_rules(rules, tree, stage="plan", accept=frozenset(accept))
    return {each.rule: each for each in told if each.status == "fired"}


def test_the_recipe_that_fits_is_in_the_launch_with_its_source(stocked: World) -> None:
    made = setting(launch(stocked, deployment()), "--max-num-seqs")
    assert (made.value, made.origin) == ("64", Origin.RECIPE)
    assert made.rule == f"{ROCKET}/single_node_tep"
    assert made.reason == "the recipe sets it in its strategy single_node_tep (verified on h200)"
    assert made.source is not None
    assert made.source.where == f"{FIXTURES / 'vllm'}: models/acme/Rocket-300B.yaml"


def test_a_recipe_goes_before_a_rule_and_behind_the_user(stocked: World) -> None:
    wish = deployment(engine={"settings": {"max-num-seqs": 32, "reasoning-parser": "qwen3"}})
    made = launch(stocked, wish)
    mine = setting(made, "--max-num-seqs")
    assert (mine.value, mine.origin) == ("32", Origin.USER)
    assert [(each.origin, each.value) for each in mine.instead_of] == [(Origin.RECIPE, "64")]
    parser = setting(made, "--reasoning-parser")
    assert parser.instead_of[0].value == "deepseek_r1"
    size = setting(made, "--tensor-parallel-size")
    assert size.origin is Origin.RECIPE


def test_no_recipe_where_the_owner_wants_none(stocked: World) -> None:
    choice = choose(stocked, deployment(recipe="none"))
    assert choice.settings == ()
    assert choice.observation.value["id"] is None
    origins = {each.origin for each in launch(stocked, deployment(recipe="none")).settings}
    assert Origin.RECIPE not in origins


def test_what_needs_consent_is_withheld_and_found(stocked: World) -> None:
    choice = choose(stocked, deployment())
    assert "--trust-remote-code" not in {each.name for each in choice.settings}
    finding = findings(choice)["recipe.needs-consent"]
    assert "--trust-remote-code" in finding.summary
    assert not finding.blocks
    assert findings(choice, accept=("recipe.needs-consent",))["recipe.needs-consent"].accepted


def test_consent_is_given_by_setting_it(stocked: World) -> None:
    wish = deployment(engine={"settings": {"trust-remote-code": True}})
    assert "recipe.needs-consent" not in findings(choose(stocked, wish))
    assert setting(launch(stocked, wish), "--trust-remote-code").origin is Origin.USER


def test_a_refusal_of_the_owner_stands(stocked: World) -> None:
    wish = deployment(engine={"settings": {"trust-remote-code": False}})
    assert "--trust-remote-code" not in launch(stocked, wish).argv


def test_an_untested_recipe_applies_and_says_so(stocked: World) -> None:
    choice = choose(stocked, deployment(), gpus("NVIDIA B200", "10.0"))
    assert all("(untested on b200)" in each.reason for each in choice.settings)
    assert "untested on b200" in findings(choice)["recipe.untested"].summary


def test_another_gpu_of_the_same_architecture_is_only_told(stocked: World) -> None:
    choice = choose(stocked, deployment(), gpus("NVIDIA H100 80GB HBM3"))
    assert choice.settings == ()
    summary = findings(choice)["recipe.almost"].summary
    assert "only has the same architecture (sm_90)" in summary


def test_a_recipe_by_name_applies_whatever_differs(stocked: World) -> None:
    wish = deployment(recipe=f"{ROCKET}/single_node_dep")
    choice = choose(stocked, wish, gpus(count=2))
    assert {each.name for each in choice.settings} > {"--data-parallel-size"}
    assert "it takes 8 GPUs, and there are 2" in findings(choice)["recipe.differs"].summary


def test_a_recipe_of_another_model_by_name(stocked: World) -> None:
    choice = choose(stocked, deployment("me/Own", recipe=f"{ROCKET}/single_node_tp"))
    assert choice.settings
    summary = findings(choice)["recipe.differs"].summary
    assert "it is for acme/Rocket-300B, which the deployment does not serve" in summary


def test_a_layout_by_data_is_not_divided_once_more(stocked: World) -> None:
    made = launch(stocked, deployment(recipe=f"{ROCKET}/single_node_dep"))
    assert setting(made, "--tensor-parallel-size").value == "1"


def test_features_are_added_by_name(stocked: World) -> None:
    wish = deployment(recipe="auto+spec_decoding")
    assert "mtp" in (setting(launch(stocked, wish), "--speculative-config").value or "")
    with pytest.raises(UsageError, match="has no feature warp"):
        choose(stocked, deployment(recipe="auto+warp"))


@pytest.mark.parametrize("wish", ["vllm:acme/Rocket-300B/default/h200/nothing", "vllm:no/body/x"])
def test_a_recipe_that_is_not_there(stocked: World, wish: str) -> None:
    with pytest.raises(UsageError, match="there is no recipe"):
        choose(stocked, deployment(recipe=wish))


def test_a_recipe_for_another_engine(stocked: World) -> None:
    wish = deployment(recipe="sglang:acme/Rocket-300B/fp8/H200/default@0.5.9")
    with pytest.raises(UsageError, match="is for sglang, and this is vllm"):
        choose(stocked, wish)


def test_without_a_collection_nothing_is_chosen(world: World) -> None:
    choice = choose(world, deployment())
    assert (choice.settings, choice.observation.unknown) == ((), "")
    assert findings(choice) == {}


def test_a_damaged_collection_chooses_nothing_and_says_why(stocked: World) -> None:
    path = Path(stocked.folders.state) / "recipes" / "vllm-recipes.json"
    path.write_text("{}", encoding="utf-8")
    choice = choose(stocked, deployment())
    assert choice.settings == ()
    assert "vllm-recipes.json" in choice.observation.unknown


def test_facts_carry_what_was_chosen(stocked: World) -> None:
    noted = choose(stocked, deployment()).noted(gpus())
    assert noted.read("recipe.id") == f"{ROCKET}/single_node_tep"
    assert noted.read("recipe.notes") == ["it wants installed: the fuel pump"]


def test_another_engine_has_no_recipe_of_this_one(stocked: World) -> None:
    table = load_table_for("sglang", "0.5.23")
    wish = deployment(engine={"kind": "sglang"})
    place = replace(PLACE, build="0.5.23")
    found = choose_recipe(stocked, wish, gpus(), table, place=place)
    assert found.observation.value["id"] == "sglang:acme/Rocket-300B/fp8/H200/default@0.5.9"
    told = {each.name: each.value for each in found.settings}
    assert told["--tp-size"] == "8"
    assert "--chat-template" not in told
