"""What an engine that runs says of its features, and in which words."""

from __future__ import annotations

from stoker.knowledge.manners import load_manners, read_told
from stoker.model.contract import Feature, Offer


def test_what_only_shows_the_engine_is_told_in_the_words_of_its_row() -> None:
    known = load_manners()["llamacpp"]
    told = read_told(known.features, {"/props": {"default_generation_settings": {"n_ctx": 2048}}})
    offered = told[Feature.NAMED_TOOLS]
    assert offered.offer is Offer.ABSENT
    assert "goes on as with auto" in offered.reason
    assert "default_generation_settings" not in offered.reason


def test_a_switch_is_told_by_its_name() -> None:
    known = load_manners()["sglang"]
    told = read_told(known.features, {"/server_info": {"disable_radix_cache": True}})
    assert told[Feature.PREFIX_CACHE].reason == "/server_info says that disable_radix_cache is true"
