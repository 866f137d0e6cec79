"""Families of models and their parsers: recognised by name, type or template; per release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.derived.parsers import Match, Release, read_parsers, recognise
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.lifetimes import load_lifetimes
from stoker.knowledge.parsers import USES, load_parsers
from stoker.model.facts import Unknown
from stoker.probes.tokenizer import load_markers

ENGINES = ("sglang", "vllm")
#: The one catalogue whose parsers could not be read; the table says what was in its source.
UNREAD = ("vllm", "0.11.0")


def releases() -> Iterator[Release]:
    for engine in ENGINES:
        for build in load_lifetimes(engine).releases:
            yield Release(engine=engine, catalogue=load_catalogue(engine, build))


def read(
    engine: str,
    build: str,
    *names: str,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Mapping[str, Any]:
    catalogue = load_catalogue(engine, build)
    return read_parsers(
        engine, catalogue, checkpoint={"names": list(names), **more}, settings=settings or {}
    )


def family_of(**checkpoint: Any) -> str | None:
    found = recognise(checkpoint)
    assert not isinstance(found, Unknown)
    return found.family.id if found else None


@pytest.mark.parametrize(
    "release", list(releases()), ids=lambda each: f"{each.engine}-{each.catalogue.build}"
)
def test_the_table_has_each_parser_of_each_release(release: Release) -> None:
    for use in USES:
        option = release.catalogue.find(release.flag(use))
        assert option is not None
        by_table = {name for name in release.rows(use) if is_within(release, use, name)}
        if (release.engine, release.catalogue.build) == UNREAD:
            assert not option.choices
            assert len(by_table) == {"tool_call": 24, "reasoning": 9}[use]
            continue
        assert by_table == set(option.choices)
        assert {name for name in release.rows(use) if release.knows(name, use)} == by_table


def is_within(release: Release, use: str, name: str) -> bool:
    """By the table alone."""
    order = load_lifetimes(release.engine).releases
    row = release.rows(use)[name]
    last = row.until or order[-1]
    build = release.catalogue.build
    return order.index(row.since) <= order.index(build) <= order.index(last)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("use", USES)
def test_each_parser_is_chosen_for_somebody_or_says_why_not(engine: str, use: str) -> None:
    table = load_parsers()
    chosen: set[str] = set()
    for family in table.families:
        row = family.engines.get(engine)
        if row is not None:
            chosen |= {*(row.tool_call if use == "tool_call" else row.reasoning), *row.also}
    idle = {
        name
        for name, parser in table.parsers[engine][use].items()
        if name not in chosen and not parser.same and not parser.unused
    }
    assert idle == set()


def test_markers_are_those_that_the_probe_looks_for() -> None:
    sought = {marker for markers in load_markers().values() for marker in markers}
    named = {marker for family in load_parsers().families for marker in family.markers}
    assert named - sought == set()


def test_ids_are_unique() -> None:
    ids = [family.id for family in load_parsers().families]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("name", "engine", "build", "tool_call", "reasoning"),
    [
        ("Qwen/Qwen3-32B-FP8", "sglang", "0.5.9", "qwen", "qwen3"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "sglang", "0.5.9", "qwen", None),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", "vllm", "0.33.0", "hermes", "qwen3"),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "vllm", "0.33.0", "qwen3_coder", None),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", "sglang", "0.5.23", "qwen3_coder", "qwen3"),
        ("moonshotai/Kimi-K2.5", "sglang", "0.5.9", "kimi_k2", "kimi_k2"),
        ("moonshotai/Kimi-K2-Instruct-0905", "vllm", "0.33.0", "kimi_k2", None),
        ("openai/gpt-oss-120b", "vllm", "0.11.0", "openai", "openai_gptoss"),
        ("lmsys/gpt-oss-20b-bf16", "sglang", "0.5.6", "gpt-oss", "gpt-oss"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "vllm", "0.33.0", None, "deepseek_r1"),
        ("nvidia/DeepSeek-R1-0528-FP4-v2", "sglang", "0.5.23", "deepseekv3", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-V3-0324", "sglang", "0.5.23", "deepseekv3", None),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "vllm", "0.33.0", "hermes", None),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "sglang", "0.5.6", "qwen", None),
        ("zai-org/GLM-4.6-FP8", "sglang", "0.5.23", "glm", "glm45"),
        ("nvidia/Nemotron-3-Nano-30B-A3B", "sglang", "0.5.9", "qwen3_coder", "nano_v3"),
        ("nvidia/Nemotron-3-Nano-30B-A3B", "sglang", "0.5.10", "qwen3_coder", "nemotron_3"),
        ("XiaomiMiMo/MiMo-V2-Flash", "vllm", "0.11.0", "qwen3_xml", "qwen3"),
        ("XiaomiMiMo/MiMo-V2-Flash", "vllm", "0.20.0", "mimo", "mimo"),
        ("Qwen/Qwen2.5-32B", "vllm", "0.33.0", "hermes", None),
        ("Qwen/Qwen3-Embedding-8B", "vllm", "0.33.0", None, None),
        ("Qwen/Qwen3-8B-Base", "vllm", "0.33.0", None, None),
        ("somebody/Something-New-7B", "vllm", "0.33.0", None, None),
    ],
)  # fmt: skip
def test_parsers_by_name(
    name: str, engine: str, build: str, tool_call: str | None, reasoning: str | None
) -> None:
    said = read(engine, build, name)
    assert (said["tool_call"], said["reasoning"]) == (tool_call, reasoning)


def test_a_parser_that_comes_later_is_told_and_not_chosen() -> None:
    said = read("sglang", "0.5.9", "moonshotai/Kimi-K3")
    assert (said["tool_call"], said["reasoning"]) == (None, None)
    assert said["lacking"] == [
        "the tool-call parser kimi_k3 comes with 0.5.17, and this is 0.5.9",
        "the reasoning parser kimi_k3 comes with 0.5.17, and this is 0.5.9",
    ]
    gone = read("vllm", "0.33.0", "MiniMaxAI/MiniMax-M1-80k")
    assert gone["lacking"] == [
        "the tool-call parser minimax was there until 0.23.0, and this is 0.33.0"
    ]


def test_type_and_template_tell_where_the_name_does_not() -> None:
    nameless: dict[str, Any] = {"names": ["srv/model"], "model_type": "qwen3_moe"}
    assert family_of(**nameless) == "qwen3"
    coder = {"tool_markers": ["<function=", "<parameter="], "reasoning_markers": []}
    assert family_of(**{**nameless, "class": "Qwen3MoeForCausalLM"}, **coder) == "qwen3-coder"
    template = {"names": ["x"], "model_type": "llama", "tool_markers": ["<tool_call>"]}
    assert family_of(**template) == "writes-like-hermes"
    assert family_of(
        **{**template, "tool_markers": ["<tool_call>", "<arg_key>", "<arg_value>"]}
    ) == ("writes-like-glm")
    assert family_of(names=["x"], model_type="llama", tool_markers=[]) is None
    assert family_of(names=["x"], base_names=["Qwen/Qwen3-4B-Instruct-2507"]) == "qwen3"


def test_models_of_one_class_are_told_apart_by_their_template() -> None:
    deepseek = {"names": ["x"], "class": "DeepseekV3ForCausalLM", "model_type": "deepseek_v3"}
    thoughts = {"reasoning_markers": ["<think>", "</think>"]}
    assert family_of(**deepseek) == "deepseek-v3"
    assert family_of(**deepseek, **thoughts) == "deepseek-r1"
    assert family_of(**deepseek, **thoughts, template_variables=["thinking"]) == "deepseek-v3.1"
    assert family_of(**{**deepseek, "model_type": "kimi_k2"}, **thoughts) == "kimi-k2"


def test_whether_a_nameless_model_thinks_stands_in_its_template() -> None:
    files: dict[str, Any] = {"model_type": "qwen3", "has_chat_template": True}
    silent = read("vllm", "0.33.0", "x", **files, reasoning_markers=[])
    assert (silent["thinks"], silent["reasoning"]) == (False, None)
    thinking = read("vllm", "0.33.0", "x", **files, reasoning_markers=["<think>"])
    assert (thinking["thinks"], thinking["reasoning"]) == (True, "qwen3")


def test_nothing_is_known_without_names_and_files() -> None:
    unread = Unknown(reason="not here")
    found = recognise({"names": unread, "model_type": unread, "class": unread})
    assert isinstance(found, Unknown)
    catalogue = load_catalogue("vllm", "0.33.0")
    said = read_parsers("vllm", catalogue, checkpoint={"names": unread}, settings={})
    assert isinstance(said["tool_call"], Unknown)


def test_a_name_that_the_config_contradicts_is_told() -> None:
    said = read("vllm", "0.33.0", "me/Kimi-K3-mini", model_type="llama")
    assert said["conflict"] == "the name Kimi-K3-mini says Kimi K3, and config.json says llama"
    agreed = read("vllm", "0.33.0", "me/Kimi-K3-mini", model_type="kimi_k3")
    assert agreed["conflict"] is None


def test_what_is_set_is_judged() -> None:
    wrong = {"tool-call-parser": "qwen25", "reasoning-parser": "gpt-oss"}
    said = read("sglang", "0.5.23", "Qwen/Qwen3.5-27B", settings=wrong)
    assert (said["wrong_tool_call"], said["wrong_reasoning"]) == ("qwen25", "gpt-oss")
    alias = {"tool-call-parser": "qwen25", "reasoning-parser": "qwen3-thinking"}
    said = read("sglang", "0.5.23", "Qwen/Qwen3-8B", settings=alias)
    assert (said["wrong_tool_call"], said["wrong_reasoning"]) == (None, None)
    automatic = {"tool-call-parser": "auto", "reasoning-parser": "auto"}
    said = read("sglang", "0.5.23", "Qwen/Qwen3-8B", settings=automatic)
    assert (said["wrong_tool_call"], said["swallows"]) == (None, False)
    plugin = {"tool-call-parser": "my_own"}
    assert read("vllm", "0.33.0", "Qwen/Qwen3-8B", settings=plugin)["wrong_tool_call"] is None


def test_a_parser_that_presumes_thoughts_swallows_answers_of_others() -> None:
    presuming = {"reasoning-parser": "kimi_k2"}
    name = "moonshotai/Kimi-K2-Instruct"
    assert read("sglang", "0.5.8", name, settings=presuming)["swallows"] is True
    assert read("sglang", "0.5.9", name, settings=presuming)["swallows"] is False
    assert read("sglang", "0.5.8", "moonshotai/Kimi-K2.5", settings=presuming)["swallows"] is False


def test_a_template_is_needed_where_the_own_one_writes_no_calls() -> None:
    name = "deepseek-ai/DeepSeek-R1"
    needed = read("vllm", "0.33.0", name, tool_markers=[])
    assert needed["template"] == "tool_chat_template_deepseekr1.jinja"
    assert read("vllm", "0.33.0", name, tool_markers=["<tool_call>"])["template"] is None
    unread = Unknown(reason="not here")
    assert read("vllm", "0.33.0", name, tool_markers=unread)["template"] is unread


@given(
    names=st.lists(st.text(max_size=40), max_size=3),
    markers=st.lists(
        st.sampled_from(["<think>", "<tool_call>", "[TOOL_CALLS]", "\x00"]), max_size=3
    ),
    model_type=st.none() | st.text(max_size=20) | st.sampled_from(["qwen3", "gpt_oss", "mamba"]),
    engine=st.sampled_from(ENGINES),
    set_now=st.none() | st.sampled_from(["qwen25", "deepseek_r1", "", "auto"]),
)
def test_whatever_a_model_says_only_known_parsers_are_chosen(
    names: list[str], markers: list[str], model_type: str | None, engine: str, set_now: str | None
) -> None:
    build = load_lifetimes(engine).releases[0]
    release = Release(engine=engine, catalogue=load_catalogue(engine, build))
    said = read(
        engine,
        build,
        *names,
        model_type=model_type,
        tool_markers=markers,
        settings={"tool-call-parser": set_now, "reasoning-parser": set_now},
    )
    for use in USES:
        assert isinstance(said[use], (Unknown, type(None))) or release.knows(said[use], use)


def test_a_match_says_how() -> None:
    found = recognise({"names": ["Qwen/Qwen3-8B"]})
    assert isinstance(found, Match)
    assert (found.by, found.sign) == ("name", "Qwen3-8B")


@pytest.mark.parametrize(
    "name",
    [
        "Qwen/Qwen3-235B-A22B-Thinking-2507",
        "Qwen/Qwen3-VL-30B-A3B-Thinking-FP8",
        "Qwen/Qwen3-Next-80B-A3B-Thinking",
    ],
)
def test_thoughts_that_the_template_opens_need_a_parser_that_is_content_with_their_end(
    name: str,
) -> None:
    """Until 0.16.0 one of vLLM's two wants both marks in the answer."""
    for build, parser in (
        ("0.11.0", "deepseek_r1"),
        ("0.16.0", "deepseek_r1"),
        ("0.17.0", "qwen3"),
    ):
        said = read("vllm", build, name)
        assert (said["tool_call"], said["reasoning"]) == ("hermes", parser)
    early = read("vllm", "0.15.0", name, settings={"reasoning-parser": "qwen3"})
    assert early["wrong_reasoning"] == "qwen3"
    for parser in ("qwen3", "deepseek_r1"):
        late = read("vllm", "0.33.0", name, settings={"reasoning-parser": parser})
        assert (late["wrong_reasoning"], late["swallows"]) == (None, False)
    assert read("sglang", "0.5.9", name)["reasoning"] == "qwen3"
    # So it is with GLM-4.7, until 0.13.0; GLM-4.6 opens its thoughts itself.
    for build, parser in (("0.13.0", "deepseek_r1"), ("0.14.0", "glm45")):
        assert read("vllm", build, "zai-org/GLM-4.7-FP8")["reasoning"] == parser
    assert read("vllm", "0.13.0", "zai-org/GLM-4.6")["reasoning"] == "glm45"
    assert read("vllm", "0.11.0", "Qwen/Qwen3-32B")["reasoning"] == "qwen3"
