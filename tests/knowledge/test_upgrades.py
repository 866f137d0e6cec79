"""What another release means for settings: what breaks, what is renamed, which defaults move."""

from __future__ import annotations

from typing import Any

from stoker.knowledge.engines import load_catalogue, load_variables
from stoker.knowledge.upgrades import Standing, compare_releases
from stoker.model.deployment import Engine
from stoker.model.launch import Origin, Setting
from stoker.model.upgrade import UpgradeItem


def stand(kind: str, build: str, *settings: Setting) -> Standing:
    return Standing(
        catalogue=load_catalogue(kind, build),
        variables=load_variables(kind, build),
        settings=settings,
    )


def compare(
    settings: dict[str, Any], old: str, new: str, kind: str = "sglang", **env: str
) -> tuple[dict[str, UpgradeItem], dict[str, UpgradeItem]]:
    engine = Engine.model_validate({"kind": kind, "settings": settings, "env": env})
    items, defaults = compare_releases(engine, stand(kind, old), stand(kind, new))
    return {each.name: each for each in items}, {each.name: each for each in defaults}


def test_the_same_release_changes_nothing() -> None:
    settings = {"tp-size": 8, "attention-backend": "triton"}
    assert compare(settings, "0.5.23", "0.5.23") == ({}, {})


def test_flags_that_go_or_get_another_name() -> None:
    settings = {
        "torchao-config": "int4wo",
        "nsa-decode-backend": "fa3",
        "tp-size": 8,
        "log-requests": False,
    }
    items, _ = compare(settings, "0.5.9", "0.5.23")
    assert set(items) == {"torchao-config", "nsa-decode-backend"}
    gone, renamed = items["torchao-config"], items["nsa-decode-backend"]
    assert (gone.kind, gone.breaks, gone.instead) == ("removed", True, "")
    assert gone.says.startswith("torchao-config is gone (the engine has it from 0.5.6 to 0.5.")
    assert (renamed.kind, renamed.instead) == ("renamed", "dsa-decode-backend")
    assert renamed.breaks


def test_a_way_back_is_a_way_too() -> None:
    items, _ = compare({"boundary-reduction": "ar"}, "0.5.23", "0.5.9")
    assert items["boundary-reduction"].breaks
    assert "since 0.5.21" in items["boundary-reduction"].says


def test_flags_that_are_about_to_go_break_nothing() -> None:
    items, _ = compare({"grpc-mode": True}, "0.5.6", "0.5.23")
    assert (items["grpc-mode"].kind, items["grpc-mode"].breaks) == ("deprecated", False)


def test_values_that_are_taken_no_more() -> None:
    old, new = load_catalogue("sglang", "0.5.9"), load_catalogue("sglang", "0.5.23")
    lost = [
        (option.names[0].lstrip("-"), choice)
        for option in old.options
        if option.kind == "choice" and (there := new.find(option.names[0])) is not None
        for choice in option.choices
        if there.kind == "choice" and choice not in (*there.choices, *there.also)
    ]
    assert lost, "between these releases some choices went"
    name, choice = lost[0]
    items, _ = compare({name: choice}, "0.5.9", "0.5.23")
    assert (items[name].kind, items[name].before, items[name].breaks) == ("value", choice, True)
    assert f"no longer takes {choice}" in items[name].says


def test_variables_that_are_read_no_more() -> None:
    old, new = load_variables("sglang", "0.5.9"), load_variables("sglang", "0.5.23")
    gone = min(set(old) - set(new))
    items, _ = compare({}, "0.5.9", "0.5.23", **{gone: "1", "NCCL_P2P_DISABLE": "1"})
    assert set(items) == {gone}
    assert items[gone].breaks


def test_defaults_that_the_file_relies_on() -> None:
    _, defaults = compare({}, "0.5.9", "0.5.23")
    assert (defaults["fp4-gemm-backend"].before, defaults["fp4-gemm-backend"].after) == (
        "flashinfer_cutlass",
        "auto",
    )
    chosen = Setting(name="--fp4-gemm-backend", value="auto", origin=Origin.USER, reason="x")
    engine = Engine.model_validate({"kind": "sglang", "settings": {"fp4-gemm-backend": "auto"}})
    before, after = stand("sglang", "0.5.9", chosen), stand("sglang", "0.5.23", chosen)
    _, others = compare_releases(engine, before, after)
    assert {each.name for each in others} == set(defaults) - {"fp4-gemm-backend"}


def test_what_stoker_sets_otherwise_there() -> None:
    def rule(value: str) -> Setting:
        return Setting(name="--moe-runner-backend", value=value, origin=Origin.RULE, reason="why")

    engine = Engine.model_validate({"kind": "sglang"})
    before, after = (
        stand("sglang", "0.5.9", rule("triton")),
        stand("sglang", "0.5.23", rule("auto")),
    )
    (item,), _ = compare_releases(engine, before, after)
    assert (item.kind, item.breaks) == ("chosen", False)
    assert item.says == (
        "Stoker sets --moe-runner-backend auto there, --moe-runner-backend triton now: why"
    )
    lost = stand("sglang", "0.5.23")
    (item,), _ = compare_releases(engine, before, lost)
    assert item.after == "nothing"


def test_shapes() -> None:
    old, new = load_catalogue("vllm", "0.11.0"), load_catalogue("vllm", "0.33.0")
    turned = [
        option.names[0].lstrip("-")
        for option in old.options
        if option.argument is None
        and (there := new.find_whole(option.names[0])) is not None
        and there.argument is not None
        and not there.nargs
    ]
    for name in turned:
        items, _ = compare({name: True}, "0.11.0", "0.33.0", "vllm")
        assert items[name].kind == "shape"
    items, _ = compare({"lora-modules": ["a=b", "c=d"], "port": 1}, "0.11.0", "0.33.0", "vllm")
    assert items == {}
