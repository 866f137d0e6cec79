"""A recipe's settings as they fit a release and a deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.knowledge.lifetimes import load_lifetimes
from stoker.knowledge.releases import load_table_for
from stoker.model.deployment import Deployment
from stoker.model.launch import Origin, Setting
from stoker.model.recipe import Recipe
from stoker.recipes.fit import FittedRecipe, find_consent, fit_recipe
from tests.recipes.reading import recipes_of

TEP = "vllm:acme/Rocket-300B/default/h200/single_node_tep"
SGLANG = "sglang:acme/Rocket-300B/fp8/H200/speculative@0.5.9"


def deployment(engine: str = "vllm", **changes: Any) -> Deployment:
    settings, env = changes.pop("settings", {}), changes.pop("env", {})
    data = {"kind": engine, "settings": settings, "env": env}
    whole = {"name": "rocket", "model": "hf:acme/Rocket-300B", "engine": data, **changes}
    return Deployment.model_validate(whole)


def fit(
    recipe: Recipe,
    wish: Deployment | None = None,
    release: str = "0.33.0",
    features: tuple[str, ...] = (),
) -> FittedRecipe:
    table = load_table_for(recipe.engine, release)
    made = wish or deployment(recipe.engine)
    return fit_recipe(recipe, made, table, load_lifetimes(recipe.engine), features=features)


def with_flags(*flags: tuple[str, str | None], env: tuple[tuple[str, str], ...] = ()) -> Recipe:
    recipe = recipes_of("vllm")[TEP]
    like = recipe.settings[0]
    settings = [replace(like, name=name, value=value) for name, value in flags]
    settings += [replace(like, name=name, value=value, kind="env") for name, value in env]
    return replace(recipe, settings=tuple(settings))


def values(fitted: FittedRecipe) -> dict[str, str | None]:
    return {each.name: each.value for each in fitted.settings}


def reasons(fitted: FittedRecipe) -> dict[str, tuple[str, str]]:
    return {each.setting.name: (each.kind, each.reason) for each in fitted.withheld}


def test_settings_say_what_the_collection_says_of_the_hardware() -> None:
    fitted = fit(recipes_of("vllm")[TEP])
    told = {each.name: each for each in fitted.settings}
    setting = told["--max-num-batched-tokens"]
    assert setting.origin is Origin.RECIPE
    assert setting.reason == (
        "the recipe sets it in its strategy single_node_tep on hopper (verified on h200)"
    )
    assert setting.rule == TEP
    assert setting.source is not None
    assert setting.source.version == "a" * 40


def test_code_of_strangers_waits_for_its_owner() -> None:
    fitted = fit(recipes_of("vllm")[TEP])
    assert "--trust-remote-code" not in values(fitted)
    assert reasons(fitted)["--trust-remote-code"][0] == "consent"


def test_the_owner_consents_by_setting_it() -> None:
    fitted = fit(recipes_of("vllm")[TEP], deployment(settings={"trust-remote-code": True}))
    assert fitted.withheld == ()
    assert values(fitted)["--trust-remote-code"] is None


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--chat-template", "examples/x.jinja"),
        ("--chat-template", "/etc/passwd"),
        ("--download-dir", "~/models"),
        ("--tool-parser-plugin", "x.py"),
        ("--served-by", "0.0.0.0"),
        ("--speculative-config", '{"model":"/opt/draft"}'),
        ("--hf-overrides", '{"a":{"b":["../secret"]}}'),
        ("--revision", "$(id)"),
        ("--revision", "${HOME}"),
    ],
)
def test_paths_doors_and_shells_wait_for_their_owner(flag: str, value: str) -> None:
    setting = replace(recipes_of("vllm")[TEP].settings[0], name=flag, value=value)
    assert find_consent(setting)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "PATH", "PYTHONHASHSEED"])
def test_variables_that_change_what_runs_wait_for_their_owner(name: str) -> None:
    recipe = with_flags(env=((name, "1"), ("ROCKET_BOOST", "1")))
    assert values(fit(recipe)) == {"ROCKET_BOOST": "1"}
    agreed = fit(recipe, deployment(env={name: "1"}))
    assert name in values(agreed)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--speculative-config", '{"method":"eagle3","model":"acme/Draft"}'),
        ("--kv-cache-dtype", "fp8"),
        ("--tool-call-parser", "hermes"),
    ],
)
def test_names_of_a_hub_are_no_paths(flag: str, value: str) -> None:
    setting = replace(recipes_of("vllm")[TEP].settings[0], name=flag, value=value)
    assert find_consent(setting) == ""


@pytest.mark.parametrize("flag", ["--host", "--port", "--served-model-name", "--model"])
def test_what_the_deployment_says_is_never_overridden(flag: str) -> None:
    fitted = fit(with_flags((flag, "1")))
    assert fitted.settings == ()
    assert reasons(fitted)[flag][0] == "deployment"


def test_a_flag_that_went_is_named_with_its_lifetime() -> None:
    lifetimes = load_lifetimes("vllm")
    gone = next(
        name
        for name in lifetimes.flags
        if not lifetimes.has(name, "0.33.0") and not lifetimes.renamed_to(name)
    )
    kind, reason = reasons(fit(with_flags((gone, None))))[gone]
    assert kind == "release"
    assert reason.startswith(f"0.33.0 has no {gone}: it was there from ")


def test_a_flag_of_no_release_is_named() -> None:
    fitted = fit(with_flags(("--no-such-flag", "1")))
    assert reasons(fitted)["--no-such-flag"][1] == "0.33.0 has no --no-such-flag, nor any release"


def test_a_flag_that_is_newer_than_the_engine_is_named() -> None:
    lifetimes = load_lifetimes("vllm")
    newer = next(
        name
        for name in lifetimes.flags
        if lifetimes.has(name, "0.33.0") and not lifetimes.has(name, "0.11.0")
    )
    fitted = fit(with_flags((newer, "1")), release="0.11.0")
    assert reasons(fitted)[newer][0] == "release"


@pytest.mark.parametrize(
    ("old", "value", "new", "becomes"),
    [
        ("--cuda-graph-max-bs", "16", "--cuda-graph-max-bs-decode", "16"),
        ("--stream-output", None, "--incremental-streaming-output", None),
        ("--disable-piecewise-cuda-graph", None, "--cuda-graph-backend-prefill", "disabled"),
    ],
)
def test_a_renamed_flag_is_translated(
    old: str, value: str | None, new: str, becomes: str | None
) -> None:
    recipe = recipes_of("sglang")[SGLANG]
    setting = replace(recipe.settings[0], name=old, value=value)
    fitted = fit(replace(recipe, settings=(setting,)), release="0.5.23")
    (made,) = fitted.settings
    assert (made.name, made.value) == (new, becomes)
    assert f"it is {old} there, {new}" in made.reason


def test_a_value_that_the_release_does_not_take() -> None:
    recipe = recipes_of("sglang")[SGLANG]
    setting = replace(recipe.settings[0], name="--tool-call-parser", value="never-heard")
    fitted = fit(replace(recipe, settings=(setting,)), release="0.5.23")
    assert fitted.settings == ()
    assert reasons(fitted)["--tool-call-parser"] == (
        "release",
        "0.5.23 takes no 'never-heard' for --tool-call-parser",
    )


def test_drafting_without_the_model_that_drafts_is_withheld_as_a_whole() -> None:
    recipe = recipes_of("sglang")[SGLANG]
    fitted = fit(recipe, release="0.5.23")
    assert not [name for name in values(fitted) if name.startswith("--speculative")]
    told = reasons(fitted)
    assert told["--speculative-draft-model-path"][0] == "deployment"
    assert told["--speculative-algorithm"][0] == "without"


def test_the_deployments_own_draft_lets_it_draft() -> None:
    wish = deployment("sglang", draft="hf:acme/Rocket-Draft")
    found = values(fit(recipes_of("sglang")[SGLANG], wish, release="0.5.23"))
    assert found["--speculative-algorithm"] == "EAGLE3"
    assert "--speculative-draft-model-path" not in found


def test_a_feature_is_added_where_it_is_asked_for() -> None:
    recipe = recipes_of("vllm")[TEP]
    assert "--speculative-config" not in values(fit(recipe))
    fitted = fit(recipe, features=("spec_decoding", "tep_only"))
    assert "mtp" in (values(fitted)["--speculative-config"] or "")
    assert values(fitted)["--async-scheduling"] is None
    assert fit(recipe, features=("warp",)).unknown_features == ("warp",)


def test_a_layout_by_data_alone_says_what_tensor_parallelism_is() -> None:
    recipe = recipes_of("vllm")["vllm:acme/Rocket-300B/default/h200/single_node_dep"]
    found = values(fit(recipe))
    assert (found["--data-parallel-size"], found["--tensor-parallel-size"]) == ("8", "1")


def test_a_bare_flag_that_is_given_a_value() -> None:
    assert values(fit(with_flags(("--async-scheduling", "true")))) == {"--async-scheduling": None}
    assert reasons(fit(with_flags(("--async-scheduling", "maybe"))))
    assert reasons(fit(with_flags(("--max-model-len", None))))


def test_nothing_is_lost_in_silence() -> None:
    for recipe in (*recipes_of("vllm").values(), *recipes_of("sglang").values()):
        release = "0.33.0" if recipe.engine == "vllm" else "0.5.23"
        fitted = fit(recipe, release=release)
        kept = [each for each in fitted.settings if each.source is not None]
        derived = [each for each in kept if "other sizes alone" in each.reason]
        assert len(kept) - len(derived) + len(fitted.withheld) == len(recipe.settings)
        assert all(isinstance(each, Setting) for each in kept)
