"""Which recipe is about a deployment, and which one applies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.model.recipe import RecipeStatus
from stoker.recipes.match import (
    Match,
    Sought,
    choose_match,
    match_recipes,
    matches_gpu,
    say_status,
    split_wish,
)
from tests.recipes.reading import recipes_of

ROCKET = "vllm:acme/Rocket-300B"
H200 = Sought(
    engine="vllm",
    names=("acme/Rocket-300B",),
    quantization="fp8",
    gpu_name="NVIDIA H200",
    arch="sm_90",
    gpu_count=8,
    release="0.33.0",
)


def matched(sought: Sought) -> tuple[Match, ...]:
    return match_recipes(recipes_of("vllm").values(), sought)


def chosen(sought: Sought) -> str | None:
    match = choose_match(matched(sought), "auto")
    return match.recipe.id if match else None


def doubts(sought: Sought, recipe: str) -> tuple[str, ...]:
    return next(each.doubts for each in matched(sought) if each.recipe.id == recipe)


def test_the_one_that_fits_in_all_applies_with_the_default_strategy_first() -> None:
    assert chosen(H200) == f"{ROCKET}/default/h200/single_node_tep"
    best = matched(H200)[0]
    assert best.is_whole
    assert best.reasons == (
        "it is for acme/Rocket-300B",
        "it is for h200",
        "it takes 8 of 8 GPUs",
        "it is for releases >=0.19.0",
        "verified on h200",
    )


@pytest.mark.parametrize("name", ["ACME/rocket-300b", "Rocket-300B", "rocket-300b"])
def test_names_in_any_case_and_without_an_owner(name: str) -> None:
    assert chosen(replace(H200, names=(name,))) is not None


def test_another_owner_is_another_model() -> None:
    assert matched(replace(H200, names=("others/Rocket-300B",))) == ()


def test_a_quantized_checkpoint_has_its_own_recipes() -> None:
    pro = replace(
        H200,
        names=("acme/Rocket-300B-NVFP4",),
        base_names=("acme/Rocket-300B",),
        quantization="nvfp4",
        gpu_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        arch="sm_120",
    )
    assert chosen(pro) == f"{ROCKET}/nvfp4/rtx_pro_6000_8x/single_node_tep"
    assert "it is for the checkpoint acme/Rocket-300B" in doubts(
        pro, f"{ROCKET}/default/rtx_pro_6000_8x/single_node_tp"
    )


def test_a_checkpoint_made_from_the_model_is_only_shown() -> None:
    own = replace(H200, names=("me/Rocket-W4",), base_names=("acme/Rocket-300B",))
    assert chosen(own) is None
    assert matched(own)


def test_other_weights_than_the_recipe_names() -> None:
    other = replace(H200, quantization="awq")
    assert chosen(other) is None
    assert "it is for fp8 weights, and these are awq" in doubts(
        other, f"{ROCKET}/default/h200/single_node_tep"
    )


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"gpu_name": "NVIDIA H100 80GB HBM3"}, "which only has the same architecture (sm_90)"),
        ({"gpu_name": "NVIDIA L4", "arch": "sm_89"}, "it is for h200, and there is NVIDIA L4"),
        ({"gpu_name": "", "arch": ""}, "which GPUs there are is not known"),
        ({"gpu_name": "", "uses_none": True}, "it is for h200, and the deployment uses no GPU"),
        ({"gpu_count": 4}, "it takes 8 GPUs, and there are 4"),
        ({"release": "0.18.0"}, "it is for releases >=0.19.0, and this is 0.18.0"),
    ],
)
def test_what_differs_is_said_and_nothing_applies(changes: dict[str, object], doubt: str) -> None:
    sought = replace(H200, **changes)  # type: ignore[arg-type]
    assert chosen(sought) is None
    told = doubts(sought, f"{ROCKET}/default/h200/single_node_tep")
    assert any(doubt in each for each in told)


def test_an_unknown_release_is_no_other_release() -> None:
    assert chosen(replace(H200, release="")) is not None


def test_several_machines_never_apply_by_themselves() -> None:
    told = doubts(H200, f"{ROCKET}/default/h200/multi_node_tp_pp")
    assert told == ("it takes 2 machines",)


def test_what_is_said_not_to_work_never_applies() -> None:
    amd = replace(H200, gpu_name="AMD Instinct MI300X", arch="gfx942")
    assert chosen(amd) is None
    told = doubts(amd, f"{ROCKET}/default/mi300x/single_node_tep")
    assert told == ("the collection says that it does not work on mi300x",)


def test_an_untested_one_applies_and_says_so() -> None:
    blackwell = replace(H200, gpu_name="NVIDIA B200", arch="sm_100")
    match = choose_match(matched(blackwell), "auto")
    assert match is not None
    assert say_status(match.recipe) == "untested on b200"
    assert match.recipe.hardware.status is RecipeStatus.UNTESTED


def test_the_newest_of_a_collection_goes_first() -> None:
    recipe = recipes_of("vllm")[f"{ROCKET}/default/h200/single_node_tep"]
    older = replace(recipe, id="vllm:older", versions=">=0.12.0")
    found = match_recipes([older, recipe], H200)
    assert [each.recipe.id for each in found] == [recipe.id, "vllm:older"]


def test_wishes() -> None:
    found = matched(H200)
    assert choose_match(found, "none") is None
    named = f"{ROCKET}/default/b200/single_node_tp"
    match = choose_match(found, f"{named}+spec_decoding")
    assert match is not None
    assert match.recipe.id == named
    assert not match.is_whole
    assert choose_match(found, "vllm:nobody/knows/x/y/z") is None
    assert split_wish("auto+a+b") == ("auto", ("a", "b"))


def test_recipes_of_another_engine_are_none() -> None:
    assert match_recipes(recipes_of("sglang").values(), H200) == ()


@pytest.mark.parametrize(
    ("word", "is_meant"),
    [("h200", True), ("H200", True), ("NVIDIA H200", True), ("sm_90", True), ("b200", False)],
)
def test_a_gpu_by_what_people_call_it(word: str, is_meant: bool) -> None:
    recipe = recipes_of("vllm")[f"{ROCKET}/default/h200/single_node_tep"]
    assert matches_gpu(recipe, word) is is_meant
