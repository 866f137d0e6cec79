"""Recipes that contradict each other are found and told."""

from __future__ import annotations

from dataclasses import replace

from stoker.recipes.contradictions import find_contradictions
from tests.recipes.reading import recipes_of

TP = "vllm:acme/Rocket-300B/default/h200/single_node_tp"


def test_two_files_about_the_same_are_compared_setting_by_setting() -> None:
    one = recipes_of("vllm")[TP]
    source = replace(one.source, where="elsewhere: models/acme/Rocket-300B.yaml")
    changed = [
        replace(each, value="4") if each.name == "--tensor-parallel-size" else each
        for each in one.settings
        if each.name != "--trust-remote-code"
    ]
    other = replace(one, id="vllm:other", source=source, settings=tuple(changed))
    (found,) = find_contradictions([one, other])
    assert (found.one.id, found.other.id) == (TP, "vllm:other")
    assert found.differences == (
        "--trust-remote-code: set or not set",
        "--tensor-parallel-size: 8 or 4",
    )


def test_the_same_said_twice_is_no_contradiction() -> None:
    one = recipes_of("vllm")[TP]
    again = replace(one, id="vllm:again", source=replace(one.source, where="elsewhere"))
    assert find_contradictions([one, again]) == ()


def test_layouts_of_one_file_are_a_choice() -> None:
    assert find_contradictions(recipes_of("vllm").values()) == ()


def test_two_collections_are_compared_by_their_sizes() -> None:
    ours = recipes_of("vllm")[TP]
    theirs = recipes_of("sglang")["sglang:acme/Rocket-300B/fp8/H200/default@0.5.9"]
    assert find_contradictions([ours, theirs]) == ()
    half = [
        replace(each, value="4") if each.name == "--tp-size" else each for each in theirs.settings
    ]
    (found,) = find_contradictions([ours, replace(theirs, settings=tuple(half))])
    assert found.differences == ("tensor parallel: vllm 8, sglang 4",)
