"""Settings that a search found say so, until somebody changes them."""

from __future__ import annotations

from stoker.engines.settings import layer_env, layer_settings
from stoker.knowledge.engines import load_engine_table
from stoker.model.deployment import Engine
from stoker.model.launch import Origin

_TUNED = {
    "evidence": "t1",
    "says": "1.34 times the output tokens/s at 8 requests at once",
    "settings": {"ubatch-size": 256, "batch-size": 512},
    "env": {"GGML_X": "1"},
}


def _origins(settings: dict[str, object], env: dict[str, str]) -> dict[str, Origin]:
    engine = Engine.model_validate(
        {"kind": "llamacpp", "settings": settings, "env": env, "tuned": _TUNED}
    )
    catalogue = load_engine_table("llamacpp").catalogue
    layers = (layer_settings(engine, catalogue), layer_env(engine, catalogue))
    return {
        each.name.lstrip("-"): each.origin
        for layer in layers
        for group in layer.values()
        for each in group
    }


def test_what_a_search_found_says_where_it_is_written_down() -> None:
    engine = Engine.model_validate(
        {"kind": "llamacpp", "settings": {"ubatch-size": 256}, "tuned": _TUNED}
    )
    layer = layer_settings(engine, load_engine_table("llamacpp").catalogue)
    ((setting,),) = layer.values()
    assert (setting.origin, setting.rule) == (Origin.TUNED, "t1")
    assert setting.reason.startswith("1.34 times")
    assert setting.source is not None
    assert setting.source.where == "the search t1"


def test_what_was_changed_since_is_the_owners_again() -> None:
    found = _origins({"ubatch-size": 128, "batch-size": 512, "threads": 2}, {"GGML_X": "1"})
    assert found == {
        "ubatch-size": Origin.USER,
        "batch-size": Origin.TUNED,
        "threads": Origin.USER,
        "GGML_X": Origin.TUNED,
    }
    assert _origins({}, {"GGML_X": "0"}) == {"GGML_X": Origin.USER}
