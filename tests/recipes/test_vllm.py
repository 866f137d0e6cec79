"""vLLM's collection: every layer of an entry, in the order of its site."""

from __future__ import annotations

import json

import pytest

from stoker.model.recipe import RecipeStatus
from stoker.recipes import vllm
from tests.recipes.reading import FIXTURES, MADE, env_of, flags_of, paths_of, read_files, recipes_of

ROCKET = "vllm:acme/Rocket-300B"
FILE = "models/acme/Rocket-300B.yaml"


def flags(variant: str, word: str, strategy: str) -> dict[str, str | None]:
    return flags_of(recipes_of("vllm")[f"{ROCKET}/{variant}/{word}/{strategy}"])


def test_a_command_line_has_its_layers_in_order() -> None:
    assert flags("default", "h200", "single_node_tp") == {
        "--trust-remote-code": None,
        "--max-model-len": "65536",
        "--kernel-config": '{"enable_flashinfer_autotune":"False"}',
        "--tensor-parallel-size": "8",
        "--attention-backend": "FLASH_ATTN",
        "--reasoning-parser": "deepseek_r1",
    }


def test_a_feature_is_off_where_hardware_lets_people_choose_it() -> None:
    recipe = recipes_of("vllm")[f"{ROCKET}/default/h200/single_node_tp"]
    told = {feature.name: feature.is_on for feature in recipe.features}
    assert told == {"tool_calling": False, "reasoning": True, "spec_decoding": False}
    on = recipes_of("vllm")[f"{ROCKET}/default/b200/single_node_tp"]
    assert "--tool-call-parser" in flags_of(on)
    assert flags_of(on)["--reasoning-parser"] == "qwen3"


def test_a_feature_is_of_some_strategies_alone() -> None:
    recipe = recipes_of("vllm")[f"{ROCKET}/default/h200/single_node_tep"]
    assert "tep_only" in {feature.name for feature in recipe.features}


def test_a_strategy_replaces_what_hardware_says() -> None:
    found = flags("default", "h200", "single_node_tep")
    assert found["--max-num-batched-tokens"] == "8192"
    assert "--attention-backend" not in found
    assert found["--max-num-seqs"] == "64"


def test_the_brand_speaks_where_the_generation_is_silent() -> None:
    assert flags("default", "b200", "single_node_tp")["--attention-backend"] == "FLASHINFER"


def test_variables_follow_the_same_order() -> None:
    recipes = recipes_of("vllm")
    hopper = recipes[f"{ROCKET}/default/h200/single_node_tp"]
    pro = recipes[f"{ROCKET}/nvfp4/rtx_pro_6000_8x/single_node_tp"]
    assert env_of(hopper) == {"ROCKET_BOOST": "2"}
    assert env_of(pro) == {"ROCKET_BOOST": "1", "ROCKET_CARD": "pro"}


def test_a_variant_is_another_checkpoint_with_a_mode_of_its_own() -> None:
    recipe = recipes_of("vllm")[f"{ROCKET}/nvfp4/rtx_pro_6000_8x/single_node_tp"]
    assert recipe.models == ("acme/Rocket-300B-NVFP4", "acme/Rocket-300B")
    assert (recipe.precision, recipe.versions) == ("nvfp4", ">=0.25.0")
    found = flags_of(recipe)
    assert json.loads(found["--speculative-config"] or "") == {
        "method": "dspark",
        "num_speculative_tokens": 7,
    }
    assert found["--tensor-parallel-size"] == "4"
    assert found["--kv-cache-dtype"] == "fp8"


def test_the_machine_and_its_generation_both_speak_for_a_variant() -> None:
    pro = flags("nvfp4", "rtx_pro_6000_8x", "single_node_tp")
    assert pro["--moe-backend"] == "flashinfer_cutlass"
    assert pro["--gpu-memory-utilization"] == "0.90"
    assert flags("nvfp4", "b200", "single_node_tp")["--tensor-parallel-size"] == "2"


def test_a_precision_is_offered_where_the_hardware_has_it() -> None:
    assert not [name for name in recipes_of("vllm") if "/nvfp4/h200/" in name]


def test_a_machine_that_is_too_small_is_offered_nothing() -> None:
    words = {recipe.hardware.word for recipe in recipes_of("vllm").values()}
    assert "rtx_pro_6000" not in words


def test_sizes_of_strategies() -> None:
    assert flags("default", "h200", "single_node_dep")["--data-parallel-size"] == "8"
    several = recipes_of("vllm")[f"{ROCKET}/default/h200/multi_node_tp_pp"]
    found = flags_of(several)
    assert (found["--tensor-parallel-size"], found["--pipeline-parallel-size"]) == ("8", "2")
    assert (several.hardware.gpu_count, several.hardware.host_count) == (16, 2)


def test_a_cluster_has_two_kinds_of_servers() -> None:
    cluster = recipes_of("vllm")[f"{ROCKET}/default/h200/pd_cluster"]
    pools = {feature.name: feature for feature in cluster.features}
    assert cluster.hardware.host_count == 2
    assert [each.value for each in pools["prefill"].settings] == ["8"]
    assert {each.name: each.value for each in pools["decode"].settings} == {
        "--max-num-seqs": "1024",
        "ROCKET_SIDE": "1",
    }


def test_layouts_over_several_machines_are_kept_for_listed_hardware_alone() -> None:
    assert not [name for name in recipes_of("vllm") if "/b200/multi_node" in name]


@pytest.mark.parametrize(
    ("word", "status", "said"),
    [
        ("h200", RecipeStatus.VERIFIED, "verified"),
        ("rtx_pro_6000_8x", RecipeStatus.STATED, "supported"),
        ("mi300x", RecipeStatus.UNSUPPORTED, "unsupported"),
        ("b200", RecipeStatus.UNTESTED, ""),
    ],
)
def test_each_hardware_keeps_its_own_word(word: str, status: RecipeStatus, said: str) -> None:
    found = [each for each in recipes_of("vllm").values() if each.id.startswith(ROCKET)]
    hardware = [each.hardware for each in found if each.hardware.word == word]
    assert hardware
    assert {(each.status, each.said) for each in hardware} == {(status, said)}


def test_what_hardware_it_is_in_our_words() -> None:
    hardware = recipes_of("vllm")[f"{ROCKET}/nvfp4/rtx_pro_6000_8x/single_node_tp"].hardware
    assert (hardware.gpu, hardware.arch) == ("rtx-pro-6000-blackwell", "sm_120")
    assert (hardware.gpu_count, hardware.host_count) == (4, 1)


def test_the_default_strategy_comes_first() -> None:
    strategies = [
        recipe.strategy
        for recipe in recipes_of("vllm").values()
        if recipe.id.startswith(f"{ROCKET}/default/h200/")
    ]
    assert strategies[0] == "single_node_tep"


def test_every_setting_says_where_it_is_from() -> None:
    for recipe in recipes_of("vllm").values():
        for setting in recipe.settings:
            assert setting.source == MADE.source(recipe.source.where.partition(": ")[2])
            assert setting.rule == recipe.id
            assert setting.reason.startswith("the recipe sets it in its ")


def test_notes_are_of_this_hardware() -> None:
    recipe = recipes_of("vllm")[f"{ROCKET}/default/h200/single_node_tp"]
    assert recipe.notes == ("it wants installed: the fuel pump",)
    feather = recipes_of("vllm")["vllm:acme/Feather-1B/default/h200/single_node_tp"]
    assert feather.notes == ("it names no release: nightly",)
    assert (feather.versions, feather.hardware.gpu_count) == ("", 1)


def test_keys_that_nobody_knows_are_told() -> None:
    told = [(each.place, each.sentence) for each in read_files("vllm")[FILE].complaints]
    assert told == [("model.rocket_stage", "this key is not understood")]


def test_a_broken_file_is_one_complaint() -> None:
    broken = read_files("vllm")["models/acme/Broken.yaml"]
    assert broken.recipes == ()
    (complaint,) = broken.complaints
    assert complaint.place.startswith("line ")
    assert complaint.sentence.startswith("it is not YAML")


def test_an_entry_without_a_strategy_says_so() -> None:
    painter = read_files("vllm")["models/acme/Painter.yaml"]
    assert painter.recipes == ()
    assert [each.sentence for each in painter.complaints] == [
        "it offers no command line: no strategy fits any of its hardware"
    ]


def test_a_folder_of_something_else_is_not_taken() -> None:
    assert vllm.choose(["models/acme/x.yaml", "README.md"]) == ((), ())
    shared, entries = vllm.choose(paths_of(FIXTURES / "vllm"))
    assert "taxonomy.yaml" in shared
    assert entries == tuple(sorted(entries))


ONE = "compatible_strategies: [single_node_tp]\n"
HOSTILE = [
    "meta: 7\nmodel: {model_id: a/b, base_args: {}}\nvariants: []\ncompatible_strategies: x",
    f"{ONE}model: {{model_id: a/b}}\nvariants: {{default: 3}}",
    f"{ONE}meta: {{hardware: [h200]}}\nmodel: {{model_id: a/b}}\nfeatures: [1]",
    "model: {model_id: a/b}\nvariants: {default: {tp: {}}}\ncompatible_strategies: [{}, 3]",
    f"{ONE}model: {{model_id: a/b}}\nvariants: {{default: {{vram_minimum_gb: 1e99, tp: -4}}}}",
    f"{ONE}model: {{model_id: a/b}}\nstrategy_min_gpus: [1]\nhardware_overrides: 4",
    f"{ONE}model: {{model_id: a/b}}\nstrategy_overrides: {{single_node_tp: []}}",
    f"{ONE}model: {{model_id: a/b}}\ndependencies: {{a: 1}}\nfeatures: {{a: {{modes: 3}}}}",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_values_of_the_wrong_kind_break_nothing(content: str) -> None:
    shared = {
        path: (FIXTURES / "vllm" / path).read_text("utf-8")
        for path in vllm.choose(paths_of(FIXTURES / "vllm"))[0]
    }
    made = vllm.read("models/a/b.yaml", content, shared, MADE)
    assert all(recipe.hardware.gpu_count >= 1 for recipe in made.recipes)


def test_a_broken_list_of_machines_is_told() -> None:
    content = (FIXTURES / "vllm" / FILE).read_text("utf-8")
    made = vllm.read(FILE, content, {"taxonomy.yaml": "a: [", "strategies/x.yaml": "- 1"}, MADE)
    assert made.recipes == ()
    assert "taxonomy.yaml" in {each.place for each in made.complaints}
