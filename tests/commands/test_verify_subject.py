"""What a server is taken for: by its settings, by what it says, and where both differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker.commands.subject import combine, parse_listing, told_subject
from stoker.model.contract import Exchange, Feature, Offer, Offered, Request, Subject


@dataclass
class Telling:
    """A server that answers JSON at some paths and 404 at the rest."""

    answers: Mapping[str, Any]
    asked: list[str] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"

    def exchange(self, request: Request) -> Exchange:
        self.asked.append(request.path)
        if request.path not in self.answers:
            return Exchange(request=request, status=404, body="{}")
        return Exchange(request=request, status=200, body=json.dumps(self.answers[request.path]))


def tell(
    models: list[dict[str, Any]], answers: Mapping[str, Any] | None = None, name: str = ""
) -> tuple[Subject, Telling]:
    listing = parse_listing(json.dumps({"object": "list", "data": models}))
    assert listing is not None
    server = Telling(answers or {})
    return told_subject(server, listing, name), server


def offers(subject: Subject) -> dict[str, Offer]:
    return {feature: offered.offer for feature, offered in subject.features.items()}


SGLANG = {"id": "qwen", "owned_by": "sglang", "root": "/models/q", "max_model_len": 4096}
SERVER_INFO = {
    "tool_call_parser": "qwen25",
    "reasoning_parser": None,
    "speculative_algorithm": None,
    "enable_hierarchical_cache": True,
    "disable_radix_cache": False,
    "max_total_num_tokens": 123456,
    "internal_states": [{"effective_max_running_requests_per_dp": 48}],
}


def test_sglang_tells_its_parsers_and_its_room() -> None:
    told = {"/server_info": SERVER_INFO, "/model_info": {"has_image_understanding": False}}
    subject, _ = tell([SGLANG], told)
    assert subject.manners.engine == "sglang"
    assert (subject.context_tokens, subject.kv_tokens) == (4096, 123456)
    assert subject.parallel_requests == 48
    assert (
        offers(subject).items()
        >= {
            Feature.TOOLS: Offer.PROMISED,
            Feature.SPECULATION: Offer.ABSENT,
            Feature.HOST_CACHE: Offer.PROMISED,
            Feature.VISION: Offer.ABSENT,
        }.items()
    )
    assert "qwen25" in subject.offered(Feature.TOOLS).reason
    # Without a parser thoughts would stand in the answer: that is for the checks to find.
    assert subject.offered(Feature.REASONING).offer is Offer.OPEN


def test_an_older_release_answers_under_its_older_name() -> None:
    subject, _ = tell([SGLANG], {"/get_server_info": {"tool_call_parser": "qwen25"}})
    assert subject.promises(Feature.TOOLS)


def test_a_switch_that_turns_a_feature_off_can_only_rule_it_out() -> None:
    off, _ = tell([SGLANG], {"/server_info": {**SERVER_INFO, "disable_radix_cache": True}})
    assert off.offered(Feature.PREFIX_CACHE).offer is Offer.ABSENT


@pytest.mark.parametrize("odd", [[], "text", {"tool_call_parser": {}}, {"internal_states": 7}, 3])
def test_what_a_server_says_oddly_harms_nothing(odd: object) -> None:
    subject, _ = tell([SGLANG], {"/server_info": odd})
    assert subject.published_name == "qwen"


LLAMA = {
    "id": "smol",
    "owned_by": "llamacpp",
    "aliases": ["smol", "small"],
    "meta": {"n_ctx_train": 8192},
}
PROPS = {
    "default_generation_settings": {"n_ctx": 2048, "params": {"speculative.types": "none"}},
    "total_slots": 2,
    "chat_template_caps": {"supports_tools": True},
    "modalities": {"vision": True},
}


def test_llamacpp_tells_its_template_and_its_slots() -> None:
    subject, _ = tell([LLAMA], {"/props": PROPS})
    assert (subject.published_name, subject.aliases) == ("smol", ("small",))
    assert (subject.context_tokens, subject.parallel_requests) == (2048, 2)
    assert (
        offers(subject).items()
        >= {
            Feature.TOOLS: Offer.PROMISED,
            Feature.VISION: Offer.PROMISED,
        }.items()
    )
    # It says "none" of its drafts even while it drafts.
    assert Feature.SPECULATION not in offers(subject)


def test_vllm_tells_its_context_and_its_other_names() -> None:
    models: list[dict[str, Any]] = [
        {"id": "a", "owned_by": "vllm", "root": "/m", "parent": None, "max_model_len": 512},
        {"id": "b", "owned_by": "vllm", "root": "/m", "parent": None, "max_model_len": 512},
        {"id": "adapter", "owned_by": "vllm", "root": "/m", "parent": "a"},
    ]
    subject, _ = tell(models)
    assert (subject.published_name, subject.aliases) == ("a", ("b",))
    assert (subject.manners.engine, subject.context_tokens) == ("vllm", 512)


def test_an_unknown_server_is_asked_nothing_more() -> None:
    subject, server = tell([{"id": "m", "owned_by": "somebody", "max_model_len": 99}])
    assert server.asked == []
    assert (subject.manners.engine, subject.context_tokens) == ("", 99)
    assert subject.features == {}


def test_the_named_model_is_the_one_that_is_meant() -> None:
    models: list[dict[str, Any]] = [
        {"id": "a", "max_model_len": 1},
        {"id": "b", "aliases": ["c"], "max_model_len": 2},
    ]
    by_name, _ = tell(models, name="c")
    assert (by_name.published_name, by_name.context_tokens) == ("c", 2)
    assert by_name.aliases == ("b",)
    stranger, _ = tell(models, name="z")
    assert stranger.published_name == "z"


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"data": 1}', '{"data": [{}, 1, {"id": ""}]}', "[" * 100_000]
)
def test_what_is_no_list_of_models(body: str) -> None:
    assert parse_listing(body) is None


# --- both ---


def subject(**features: Offer) -> Subject:
    return Subject(
        published_name="a",
        features={Feature(name): Offered(offer=offer) for name, offer in features.items()},
    )


def test_what_is_declared_wins_and_a_contradiction_is_told() -> None:
    both, notes = combine(subject(tools=Offer.PROMISED), subject(tools=Offer.ABSENT))
    assert both.promises(Feature.TOOLS)
    assert "tools is promised" in notes[0]


def test_what_is_open_is_what_the_server_says() -> None:
    both, notes = combine(
        subject(tools=Offer.OPEN), subject(tools=Offer.PROMISED, vision=Offer.ABSENT)
    )
    assert both.promises(Feature.TOOLS)
    assert both.offered(Feature.VISION).offer is Offer.ABSENT
    assert notes == ()


def test_a_server_that_holds_less_than_was_declared_is_told() -> None:
    declared = Subject(published_name="a", context_tokens=4096)
    said = Subject(published_name="a", context_tokens=2048, kv_tokens=9)
    both, notes = combine(declared, said)
    assert (both.context_tokens, both.kv_tokens) == (4096, 9)
    assert "2048" in notes[0]
    assert combine(said, declared)[1] == ()
