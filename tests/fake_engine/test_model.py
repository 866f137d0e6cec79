"""The scripted model is clever enough to be judged as a good one."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.instances import make_instance, make_match
from stoker.fake_engine.pictures import read_picture
from stoker.fake_engine.script import (
    ALL_FEATURES,
    MANNERS,
    SGLANG,
    VLLM,
    Limits,
    Script,
    parse_wits,
)
from stoker.fake_engine.tokens import join_tokens, split_tokens, whole_pieces
from stoker.model.contract import Request
from stoker.model.facts import Plain

CHAT = "/v1/chat/completions"
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["c", "f"]},
            },
            "required": ["city"],
        },
    },
}


def ask(
    turns: str | list[dict[str, Plain]], script: Script | None = None, **body: Any
) -> dict[str, Any]:
    """The first choice of the reply."""
    messages = [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
    question = {"model": "smollm2", "messages": messages, "temperature": 0, **body}
    core = Core(script or Script(limits=Limits(context_tokens=1 << 20)))
    request = Request(method="POST", path=CHAT, body=question)
    exchange = DirectEndpoint(core).exchange(request)
    reply = json.loads(exchange.body)
    assert exchange.status == 200, reply
    choice: dict[str, Any] = reply["choices"][0]
    return choice


def say(turns: str | list[dict[str, Plain]], script: Script | None = None, **body: Any) -> str:
    text: str = ask(turns, script, **body)["message"]["content"]
    return text


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("What is 2+2?", "2 + 2 = 4."),
        ("What is 17 + 25? Answer with just the number.", "42"),
        ("What is 9 divided by 2? Only the number.", "4.5"),
        ("What is the capital of France?", "Paris"),
        ("Repeat exactly: gr\u00fc\u00df \U0001f600 dich", "gr\u00fc\u00df \U0001f600 dich"),
        ("Repeat the following text word for word: a b c", "a b c"),
        ('Say "hello" and nothing else.', "hello"),
        ("Count from 1 to 5.", "1 2 3 4 5"),
        ("Which number is larger, 9.11 or 9.9?", "9.9"),
        ("The code word of Ann is rose. What is the code word of Ann?", "rose"),
    ],
)
def test_it_knows_a_little(asked: str, answered: str) -> None:
    assert say(asked) == answered


def test_a_code_word_is_found_in_many_words() -> None:
    filler = "Nothing of this matters at all. " * 3000
    text = f"{filler}The code word of Bo is tulip. {filler}What is the code word of Bo?"
    assert say(text) == "tulip"


def test_what_nobody_said_is_not_known() -> None:
    assert "tulip" not in say("The code word of Bo is tulip. What is the code word of Cy?")


def test_it_remembers_what_it_was_told() -> None:
    turns: list[dict[str, Plain]] = [
        {"role": "user", "content": "My name is Zora."},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "What is my name?"},
    ]
    assert "Zora" in say(turns)


@pytest.mark.parametrize(
    ("order", "answered"),
    [
        ("Answer every question with the one word BANANA.", "BANANA"),
        ("End every answer with the word OVER.", "2 + 2 = 4. OVER"),
        ("Begin every answer with the word WELL.", "WELL 2 + 2 = 4."),
    ],
)
def test_it_obeys_a_system_prompt(order: str, answered: str) -> None:
    turns: list[dict[str, Plain]] = [
        {"role": "system", "content": order},
        {"role": "user", "content": "What is 2+2?"},
    ]
    assert say(turns) == answered


# --- tools ---


def calls(text: str, **body: Any) -> list[tuple[str, Any]]:
    message = ask(text, tools=[WEATHER], **body)["message"]
    found = [call["function"] for call in message.get("tool_calls") or ()]
    return [(call["name"], json.loads(call["arguments"])) for call in found]


@pytest.mark.parametrize(
    ("text", "body", "cities"),
    [
        ("What is the weather in Paris?", {}, ["Paris"]),
        ("Get the weather in Paris and in Tokyo.", {}, ["Paris", "Tokyo"]),
        ("The weather in Paris and Tokyo?", {"parallel_tool_calls": False}, ["Paris"]),
        ("What is 2+2?", {}, []),
        ("What is the weather in Paris? Do not use any tool.", {}, []),
        ("What is the weather in Paris?", {"tool_choice": "none"}, []),
        ("Tell me something about Lisbon.", {"tool_choice": "required"}, ["Lisbon"]),
    ],
)
def test_it_calls_what_it_should(text: str, body: dict[str, Any], cities: list[str]) -> None:
    assert calls(text, **body) == [("get_weather", {"city": city}) for city in cities]


def test_after_the_result_it_answers_with_it() -> None:
    call: dict[str, Plain] = {"id": "1", "type": "function"}
    call |= {"function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    turns: list[dict[str, Plain]] = [
        {"role": "user", "content": "The weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": '{"temp_c": 18, "sky": "clear"}'},
    ]
    choice = ask(turns, tools=[WEATHER])
    assert "18" in choice["message"]["content"]
    assert "clear" in choice["message"]["content"]
    assert choice["finish_reason"] == "stop"


# --- shapes ---


@pytest.mark.parametrize(
    "pattern",
    ["[a-f]{3}-[0-9]{4}", r"\d+", "(yes|no)", "[^a]b*c?", r"(\w)-\1", "a{2,3}|z", r"\S+\s", "^x$"],
)
def test_a_text_for_a_pattern_matches_it(pattern: str) -> None:
    assert re.fullmatch(pattern, make_match(pattern))


def test_it_says_what_it_knows_where_the_pattern_allows() -> None:
    script = Script(manners=SGLANG)
    assert say("What is the capital of France?", script, regex="(London|Paris)") == "Paris"


SCHEMAS: list[tuple[Any, Any]] = [
    ({"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}, {"a": "x"}),
    ({"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2}, [3, 3]),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"const": 7}}}, 7),
    ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
    ({"type": ["null", "number"], "exclusiveMinimum": 4}, 5),
    ({"type": "string", "maxLength": 2}, "te"),
]


@pytest.mark.parametrize(("schema", "instance"), SCHEMAS)
def test_an_instance_is_the_simplest_that_is_allowed(schema: Any, instance: Any) -> None:
    assert make_instance(schema) == instance


def test_json_is_what_comes_where_json_is_wanted() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    text = say("What is the capital of France?", response_format=wanted)
    assert json.loads(text) == {"answer": "Paris"}


# --- pictures ---


def draw(red: int, green: int, blue: int) -> str:
    """A square of one colour as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    rows = b"".join(b"\0" + bytes((red, green, blue)) * 8 for _ in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
    return "data:image/png;base64," + base64.b64encode(png + chunk(b"IEND", b"")).decode()


@pytest.mark.parametrize(
    ("colour", "name"), [((255, 0, 0), "red"), ((0, 0, 255), "blue"), ((255, 255, 255), "white")]
)
def test_it_sees_a_colour(colour: tuple[int, int, int], name: str) -> None:
    parts: list[Plain] = [
        {"type": "text", "text": "What colour is it?"},
        {"type": "image_url", "image_url": {"url": draw(*colour)}},
    ]
    script = Script(manners=VLLM, features=ALL_FEATURES)
    assert name in say([{"role": "user", "content": parts}], script)


def test_what_is_no_picture_is_none() -> None:
    assert read_picture("data:image/png;base64,AAAA") is None
    assert read_picture("https://example.com/a.png") is None


# --- limits ---


def test_a_limit_cuts_and_says_so() -> None:
    choice = ask("Count from 1 to 50.", max_tokens=5)
    assert choice["message"]["content"] == "1 2 3 4 5 "
    assert choice["finish_reason"] == "length"


def test_a_stop_text_ends_it_wherever_tokens_are_cut() -> None:
    choice = ask("Count from 1 to 50.", stop=["1 12"])
    assert choice["message"]["content"] == "1 2 3 4 5 6 7 8 9 10 1"
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("manners", MANNERS)
def test_it_goes_on_where_the_end_is_not_to_be_heeded(manners: str) -> None:
    script = Script(manners=manners)
    wanted: dict[str, Any] = {"max_tokens": 40, "ignore_eos": True, "logprobs": True}
    choice = ask("What is 2+2?", script, **wanted)
    assert choice["finish_reason"] == "length"
    assert len(choice["logprobs"]["content"]) == 40


def test_a_seed_decides_the_words() -> None:
    def wordings(seed: int | None) -> set[str]:
        sampled: dict[str, Any] = {"temperature": 1.0, **({} if seed is None else {"seed": seed})}
        asked = "Write a long story."
        return {say(asked, replace(Script(), seed=n), **sampled) for n in range(4)}

    assert len(wordings(7)) == 1
    assert len(wordings(None)) > 1


def test_thoughts_come_first_and_can_be_switched_off() -> None:
    script = Script(features=ALL_FEATURES)
    assert ask("What is 2+2?", script)["message"]["reasoning_content"]
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    assert "reasoning_content" not in ask("What is 2+2?", script, **off)["message"]


# --- tokens ---


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_tokens_join_to_their_text(text: str) -> None:
    tokens = split_tokens(text)
    assert join_tokens(tokens) == text
    pieces = list(whole_pieces(tokens, iter(lambda: 1, 0)))
    assert "".join(piece for piece, _ in pieces) == text
    assert sum(count for _, count in pieces) == len(tokens)
    assert "\ufffd" not in "".join(piece for piece, _ in pieces) or "\ufffd" in text


# --- tables ---


def test_a_table_of_ones_own_goes_first() -> None:
    wits = parse_wits("[[rules]]\npattern = 'france'\nreply = 'Lyon'", where="here")
    script = Script(wits=replace(wits, sentences=("Well.",)))
    assert say("What is the capital of France?", script) == "Lyon"
