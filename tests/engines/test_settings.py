"""Merging and rendering settings: laws over any settings of a deployment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines.settings import (
    layer_env,
    layer_proposed,
    layer_settings,
    merge_layers,
    render_argv,
    render_env,
    render_setting,
)
from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.model.deployment import Engine
from stoker.model.deployment_fields import is_secret_name
from stoker.model.launch import Launch, Origin, Setting
from tests.engines.test_llamacpp import COMMAND, make_launch

CATALOGUE = load_engine_table("llamacpp").catalogue

KNOWN = [name.lstrip("-") for option in CATALOGUE.options for name in option.names]
NAMES = st.one_of(
    st.sampled_from(KNOWN), st.from_regex(r"[a-z][a-z_-]{1,8}[a-z]", fullmatch=True)
).filter(lambda name: not is_secret_name(name))
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-9999, 9999),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text("abc,=- é", max_size=6),
)
SETTINGS = st.dictionaries(
    NAMES, st.one_of(SCALARS, st.none(), st.lists(SCALARS, max_size=3)), max_size=6
)


def launch_with(settings: dict[str, Any], env: dict[str, str] | None = None) -> Launch:
    engine = {"kind": "llamacpp", "settings": settings, "env": env or {}}
    return make_launch(cpu={"physical_count": 4}, gpus=[0], engine=engine)


@given(SETTINGS)
def test_every_word_comes_from_a_setting(settings: dict[str, Any]) -> None:
    launch = launch_with(settings)
    words = [word for setting in launch.settings for word in render_setting(setting)]
    assert launch.argv == (COMMAND, *words)
    assert launch.env == render_env(launch.settings)
    assert all(setting.reason for setting in launch.settings)


@given(SETTINGS)
def test_rendering_is_deterministic(settings: dict[str, Any]) -> None:
    assert launch_with(settings) == launch_with(settings)


@given(SETTINGS)
def test_the_deployment_always_wins(settings: dict[str, Any]) -> None:
    launch = launch_with(settings)
    for name, value in settings.items():
        flag = CATALOGUE.spell(name)
        about = CATALOGUE.find(name)
        names = about.names if about else (flag,)
        chosen = [setting for setting in launch.settings if setting.name in names]
        assert all(setting.origin is Origin.USER for setting in chosen)
        items = value if isinstance(value, list) else [value]
        mine = [setting for setting in chosen if setting.name == flag]
        assert len(mine) >= len([item for item in items if item is not False])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_meaning(number: float) -> None:
    engine = Engine.model_validate({"kind": "llamacpp", "settings": {"temp": number}})
    ((setting,),) = layer_settings(engine, CATALOGUE).values()
    assert setting.value is not None
    assert float(setting.value) == number
    assert "e" not in setting.value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ["--temp"]),
        (None, ["--temp"]),
        (False, []),
        (1, ["--temp", "1"]),
        (0.1, ["--temp", "0.1"]),
        (4096.0, ["--temp", "4096"]),
        (0.00001, ["--temp", "0.00001"]),
        (1e22, ["--temp", "10000000000000000000000"]),
        (-1, ["--temp", "-1"]),
        ("", ["--temp", ""]),
        ("true", ["--temp", "true"]),
        ([1, 2.5, False, "x"], ["--temp", "1", "--temp", "2.5", "--temp", "x"]),
        ([], []),
    ],
)
def test_values(value: Any, words: list[str]) -> None:
    engine = Engine.model_validate({"kind": "llamacpp", "settings": {"temp": value}})
    settings = merge_layers([layer_settings(engine, CATALOGUE)])
    assert render_argv("x", settings) == ("x", *words)


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("ctx-size", "--ctx-size"),
        ("ctx_size", "--ctx-size"),
        ("c", "-c"),
        ("no-kvu", "-no-kvu"),
        ("nope", "--nope"),
        ("not_known", "--not_known"),
    ],
)
def test_flags_are_spelled_as_they_are_written(name: str, flag: str) -> None:
    assert CATALOGUE.spell(name) == flag


def make_setting(name: str, origin: Origin) -> Setting:
    return Setting(name=name, value=origin.value, origin=origin, reason="test")


@given(st.lists(st.sampled_from(list(Origin)), min_size=1))
def test_the_higher_origin_wins_and_the_later_of_two_equals(origins: list[Origin]) -> None:
    layers = [{"--x": (make_setting(f"--x{n}", origin),)} for n, origin in enumerate(origins)]
    (winner,) = merge_layers(layers)
    best = min(origins, key=list(Origin).index)
    last = max(n for n, origin in enumerate(origins) if origin is best)
    assert (winner.origin, winner.name) == (best, f"--x{last}")


def test_a_group_keeps_its_place() -> None:
    low = {name: (make_setting(name, Origin.STOKER),) for name in ("--a", "--b", "--c")}
    high = {name: (make_setting(name, Origin.USER),) for name in ("--b", "--d")}
    assert [setting.name for setting in merge_layers([low, high])] == ["--a", "--b", "--c", "--d"]


def test_a_variable_may_stand_for_a_flag() -> None:
    engine = Engine.model_validate(
        {"kind": "llamacpp", "env": {"LLAMA_ARG_PORT": "1"}, "settings": {"port": 2}}
    )
    layers = [layer_env(engine, CATALOGUE), layer_settings(engine, CATALOGUE)]
    settings = merge_layers(layers)
    assert render_env(settings) == {}
    assert render_argv("x", settings) == ("x", "--port", "2")


def proposal(value: str, origin: Origin, name: str = "--ctx-size") -> Setting:
    return Setting(name=name, value=value, origin=origin, reason=f"of {origin}")


@given(st.lists(st.sampled_from(list(Origin)), min_size=1, max_size=5, unique=True))
def test_the_highest_origin_wins_and_remembers_the_others(origins: list[Origin]) -> None:
    layers = [{"--ctx-size": (proposal(str(n), each),)} for n, each in enumerate(origins)]
    (setting,) = merge_layers(layers)
    order = list(Origin)
    assert setting.origin is min(origins, key=order.index)
    lost = [each.origin for each in setting.instead_of]
    assert lost == sorted(lost, key=order.index)
    told = {each for each in origins if each not in (setting.origin, Origin.STOKER)}
    assert set(lost) == told
    assert all(not each.instead_of for each in setting.instead_of)


def test_of_two_proposals_the_higher_is_kept_under_any_spelling() -> None:
    proposed = [
        proposal("1", Origin.RULE, "-c"),
        proposal("2", Origin.RECIPE),
        proposal("3", Origin.RULE),
    ]
    ((setting,),) = layer_proposed(proposed, CATALOGUE).values()
    assert (setting.value, setting.origin) == ("2", Origin.RECIPE)
    assert [each.value for each in setting.instead_of] == ["1", "3"]


def test_false_of_the_user_leaves_out_what_others_propose() -> None:
    engine = Engine.model_validate({"kind": "llamacpp", "settings": {"ctx-size": False}})
    proposed = layer_proposed([proposal("2", Origin.RULE)], CATALOGUE)
    assert merge_layers([proposed, layer_settings(engine, CATALOGUE)]) == ()


def test_a_flag_of_several_words_is_written_once() -> None:
    catalogue = load_catalogue("sglang", "0.5.9")
    engine = Engine.model_validate({"kind": "sglang", "settings": {"cuda-graph-bs": [1, 2, 4]}})
    (setting,) = merge_layers([layer_settings(engine, catalogue)])
    assert render_setting(setting) == ("--cuda-graph-bs", "1", "2", "4")
