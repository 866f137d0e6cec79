"""Answers in a form: what keeps it, what breaks it, and what the token limit excuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.contract.json_schema import find_schema_flaw, is_json_beginning
from stoker.errors import DataError
from stoker.model.contract import Exchange, Feature, Offer, Offered, Request, Verdict
from tests.contract.hand_made import REFUSALS, Serve, answer, reply, subject_of, try_check

GOOD = {
    "sky": "clear",
    "degrees": 25,
    "winds": ["north"],
    "place": {"country": "France", "is_capital": True},
}
TEXT = json.dumps(GOOD)
PROMISED = {each: Offered(offer=Offer.PROMISED) for each in Feature}


def saying(plain: str, streamed: str | None = None, finish_reason: str = "stop") -> Serve:
    """A server that says this."""

    def serve(request: Request) -> Exchange:
        text = plain if streamed is None or not request.stream else streamed
        return answer(request, text, finish_reason=finish_reason)

    return serve


@pytest.mark.parametrize("text", [TEXT, json.dumps(GOOD, indent=4), f"\n{TEXT}  \n"])
def test_json_by_the_schema_keeps_the_promise(text: str) -> None:
    assert try_check("json_schema", saying(text)).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("text", "symptom"),
    [
        (f"```json\n{TEXT}\n```", "json_in_fence"),
        ("It is sunny.", "schema_ignored"),
        (f"Sure! {TEXT}", "schema_ignored"),
        (f"{TEXT} {TEXT}", "schema_ignored"),
        (TEXT[:-1], "schema_ignored"),
        ("", "no_content"),
        (json.dumps({**GOOD, "sky": "green"}), "schema_broken"),
        (json.dumps({**GOOD, "degrees": 140}), "schema_broken"),
        (json.dumps({**GOOD, "degrees": "25"}), "schema_broken"),
        (json.dumps({**GOOD, "degrees": 25.5}), "schema_broken"),
        (json.dumps({**GOOD, "winds": []}), "schema_broken"),
        (json.dumps({**GOOD, "winds": ["north"] * 3}), "schema_broken"),
        (json.dumps({**GOOD, "place": {"country": "France"}}), "schema_broken"),
        (json.dumps({**GOOD, "note": "x"}), "schema_broken"),
        (json.dumps([GOOD]), "schema_broken"),
        ("{}", "schema_broken"),
    ],
)
def test_anything_else_breaks_it_plain_or_streamed(text: str, symptom: str) -> None:
    for serve in (saying(text), saying(TEXT, text)):
        judgement = try_check("json_schema", serve)
        assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, symptom)


def test_what_the_limit_cuts_off_is_no_flaw_if_it_began_rightly() -> None:
    for text in (TEXT[:40], "{\n\n\n\n\n", TEXT[:-1]):
        assert try_check("json_schema", saying(text, finish_reason="length")).verdict is (
            Verdict.PASSED
        )
        assert try_check("json_object", saying(text, finish_reason="length")).verdict is (
            Verdict.PASSED
        )
    prose = saying("The weather in Paris is", finish_reason="length")
    assert try_check("json_schema", prose).symptom == "schema_ignored"
    assert try_check("json_object", prose).symptom == "no_json_object"


def test_a_schema_and_a_beginning_do_not_excuse_a_wrong_whole() -> None:
    whole = saying(json.dumps({**GOOD, "degrees": 99}), finish_reason="length")
    assert try_check("json_schema", whole).symptom == "schema_broken"


@pytest.mark.parametrize("check", ["json_schema", "json_object", "regex_followed"])
@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_server_that_refuses_is_skipped_unless_it_promised(check: str, status: int) -> None:
    def serve(request: Request) -> Exchange:
        return reply(request, REFUSALS[0], status)

    assert try_check(check, serve, subject_of("vllm")).verdict is Verdict.SKIPPED
    judgement = try_check(check, serve, subject_of("vllm", features=PROMISED))
    assert judgement.symptom == "structure_refused"


@pytest.mark.parametrize("check", ["json_schema", "json_object", "regex_followed"])
def test_a_server_error_is_never_excused(check: str) -> None:
    judgement = try_check(check, lambda each: reply(each, REFUSALS[0], 500), subject_of("vllm"))
    assert judgement.verdict is Verdict.FAILED


@pytest.mark.parametrize("check", ["json_schema", "json_object", "regex_followed"])
def test_a_model_lost_in_thoughts_is_asked_not_to_think(check: str) -> None:
    right = {"regex_followed": "abc-1234"}.get(check, TEXT)

    def serve(request: Request) -> Exchange:
        if "chat_template_kwargs" in (request.body or {}):
            return answer(request, right)
        return answer(request, "", finish_reason="length")

    assert try_check(check, serve, subject_of("sglang")).verdict is Verdict.PASSED
    for_ever = saying("", finish_reason="length")
    assert try_check(check, for_ever, subject_of("sglang")).verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("text", "symptom"),
    [
        ('{"answer": 4}', ""),
        ("{}", ""),
        ("4", "no_json_object"),
        ("[4]", "no_json_object"),
        ("The answer is 4.", "no_json_object"),
        ('```json\n{"answer": 4}\n```', "json_in_fence"),
        ('{"answer": 4} Done.', "no_json_object"),
        ('{"answer": NaN}', "no_json_object"),
        ("", "no_content"),
    ],
)
def test_json_objects(text: str, symptom: str) -> None:
    judgement = try_check("json_object", saying(text))
    assert judgement.symptom == symptom
    assert judgement.verdict is (Verdict.FAILED if symptom else Verdict.PASSED)


@pytest.mark.parametrize(
    ("text", "finish_reason", "verdict"),
    [
        ("abc-1234", "stop", Verdict.PASSED),
        ("abc-1234", "length", Verdict.PASSED),
        ("abc-1", "length", Verdict.PASSED),
        ("abc-1", "stop", Verdict.FAILED),
        ("abc-12345", "stop", Verdict.FAILED),
        ("abg-1234", "stop", Verdict.FAILED),
        ("The part is abc-1234.", "stop", Verdict.FAILED),
        ("The part", "length", Verdict.FAILED),
        ("abc-1234\n", "stop", Verdict.FAILED),
    ],
)
@pytest.mark.parametrize("kind", ["sglang", "vllm"])
def test_regular_expressions(text: str, finish_reason: str, verdict: Verdict, kind: str) -> None:
    judgement = try_check(
        "regex_followed", saying(text, finish_reason=finish_reason), subject_of(kind)
    )
    assert judgement.verdict is verdict, judgement


def test_the_expression_goes_where_the_engine_wants_it() -> None:
    seen: dict[str, Mapping[str, Any]] = {}
    for kind in ("sglang", "vllm", "llamacpp", ""):

        def serve(request: Request, kind: str = kind) -> Exchange:
            seen[kind] = request.body or {}
            return answer(request, "abc-1234")

        try_check("regex_followed", serve, subject_of(kind))
    assert seen["sglang"]["regex"] == seen["vllm"]["structured_outputs"]["regex"]
    assert set(seen) == {"sglang", "vllm"}


# --- the validator ---

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3)
)


@given(VALUES)
def test_any_value_is_judged(value: Any) -> None:
    find_schema_flaw(value, {"type": "object", "properties": {"a": {"enum": [1, "b"]}}})
    assert find_schema_flaw(value, {}) == ""


@given(VALUES.map(json.dumps), st.data())
def test_every_beginning_of_json_is_one(text: str, data: st.DataObject) -> None:
    assert is_json_beginning(text[: data.draw(st.integers(0, len(text)))])


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    is_json_beginning(text)


@pytest.mark.parametrize("text", ["Sure!", "{a", '{"a" 1', '{"a": 1} x', "[1,]", "```", '{"a": x'])
def test_what_never_becomes_json(text: str) -> None:
    assert not is_json_beginning(text)


@pytest.mark.parametrize(
    ("value", "schema", "flaw"),
    [
        (1, {"type": "integer"}, ""),
        (1.0, {"type": "integer"}, ""),
        (True, {"type": "integer"}, "the whole is true, not of the type integer"),
        (None, {"type": ["string", "null"]}, ""),
        (True, {"enum": [1]}, "the whole is true, not one of [1]"),
        ("a", {"const": "a"}, ""),
        ("abc", {"maxLength": 2}, 'the whole is "abc", against maxLength 2'),
        ("abc", {"pattern": "^b"}, 'the whole is "abc", against pattern ^b'),
        ("abc", {"minimum": 2}, ""),
        ({"a": {}}, {"properties": {"a": {"required": ["b"]}}}, "a.b is missing"),
        ([1, "x"], {"items": {"type": "integer"}}, '[1] is "x", not of the type integer'),
        ({"b": 1}, {"additionalProperties": False}, 'the whole has the unknown key "b"'),
        ({"b": 1}, {"properties": {}}, ""),
    ],
)
def test_the_words_of_the_validator(value: Any, schema: Mapping[str, Any], flaw: str) -> None:
    assert find_schema_flaw(value, schema) == flaw


def test_a_keyword_that_is_not_known_is_our_own_mistake() -> None:
    with pytest.raises(DataError):
        find_schema_flaw(1, {"multipleOf": 2})
