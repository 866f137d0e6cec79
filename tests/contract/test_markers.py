"""The marks of calls and thoughts: complete by the table of parsers, and none in prose."""

# ruff: noqa: RUF001  The marks hold the characters that they hold.

from __future__ import annotations

import tomllib
from collections import Counter
from importlib.resources import files
from typing import Any

import pytest

from stoker.contract.markers import MARKERS, UNMARKED, Kind, Marker, find_markers

TABLE: dict[str, Any] = tomllib.loads(
    (files("stoker.knowledge") / "data" / "parsers.toml").read_text("utf-8")
)
FAMILIES = {family["id"]: family for family in TABLE["family"]}
ROLES = [("tool_call", Kind.TOOLS), ("reasoning", Kind.REASONING)]


def parsers_of(family: dict[str, Any], role: str) -> set[str]:
    return {name for row in family.get("engines", {}).values() for name in row.get(role, ())}


def read_by(kind: Kind) -> set[str]:
    return {parser for marker in MARKERS if marker.kind is kind for parser in marker.parsers}


@pytest.mark.parametrize(("role", "kind"), ROLES)
def test_every_family_has_a_mark_or_a_reason(role: str, kind: Kind) -> None:
    known = read_by(kind) | UNMARKED.keys()
    without = {
        name: parsers
        for name, family in FAMILIES.items()
        if (parsers := parsers_of(family, role)) and not parsers & known
    }
    assert without == {}


@pytest.mark.parametrize(("role", "kind"), ROLES)
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_every_parser_of_the_engines_has_a_mark_or_a_reason(
    engine: str, role: str, kind: Kind
) -> None:
    rows = TABLE["parsers"][engine][role]
    wanted = {name for name, row in rows.items() if "unused" not in row}
    assert wanted - read_by(kind) - UNMARKED.keys() == set()


@pytest.mark.parametrize("marker", MARKERS, ids=lambda marker: f"{marker.kind}-{marker.text}")
def test_every_mark_belongs_to_a_known_family_whose_parser_reads_it(marker: Marker) -> None:
    role = "tool_call" if marker.kind is Kind.TOOLS else "reasoning"
    assert parsers_of(FAMILIES[marker.family], role) & set(marker.parsers)
    assert marker.where


def test_every_named_parser_exists() -> None:
    known = {
        name
        for engine in ("sglang", "vllm")
        for role, _ in ROLES
        for name in TABLE["parsers"][engine][role]
    }
    assert {name for marker in MARKERS for name in marker.parsers} - known == set()
    assert UNMARKED.keys() <= known


def test_no_mark_stands_twice() -> None:
    count = Counter((marker.text, marker.kind) for marker in MARKERS)
    assert {mark for mark, times in count.items() if times > 1} == set()


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ('<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>', "writes-like-hermes"),
        ("<tool_call><function=a><parameter=b>\n1</parameter>", "writes-like-qwen3-coder"),
        ("<tool_call>a\n<arg_key>b</arg_key><arg_value>1</arg_value>", "writes-like-glm"),
        ("<｜DSML｜function_calls>", "deepseek-v3.2"),
        ("<｜DSML｜tool_calls>", "deepseek-v4"),
        (']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="a">', "minimax-m3"),
        ('<minimax:tool_call>\n<invoke name="a">', "minimax-m2"),
        ("<|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>{}", "kimi-k2"),
        ('functions.get_weather:0{"city": "Oslo"}', "kimi-k2"),
        ('[TOOL_CALLS] [{"name": "a"}]', "mistral"),
        ("<|channel|>commentary to=functions.a <|constrain|>json<|message|>{}", "gpt-oss"),
        ("<tool_calls><tool_call>a<tool_sep><arg_key>b</arg_key>", "hy-3"),
        ("<tool_call:opensource>a<tool_sep:opensource>", "hy-3"),
        ("<think>hm</think>4", "qwen3"),
        ("hm</think>4", "qwen3-thinking"),
        ("<seed:think>hm", "seed-oss"),
        ("◁think▷", "kimi-vl-thinking"),
    ],
)
def test_the_first_mark_names_the_family(text: str, family: str) -> None:
    assert find_markers(text)[0].family == family


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Call functions.get with [ARGS], or a list like functools.partial and [THINKING].",
        "if a < b and c > d: print([x for x in y]) # <b>bold</b> <function> <tool>",
        "The <|im_end|> of it. I think so. Here is my thought process: 2+2=4.",
        "usage: tool [OPTIONS] [TOOLS] <parameter> <name>",
        "| a | b |\n|---|---|\n| <1> | [2] |",
    ],
)
def test_prose_holds_no_mark(text: str) -> None:
    assert find_markers(text) == ()


def test_one_kind_can_be_asked_for() -> None:
    text = "<think>hm</think><tool_call>"
    assert {marker.kind for marker in find_markers(text, Kind.REASONING)} == {Kind.REASONING}
    assert [marker.text for marker in find_markers(text, Kind.TOOLS)] == ["<tool_call>"]
