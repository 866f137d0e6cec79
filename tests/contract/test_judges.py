"""The judges alone: no false alarm for what is right, no exception for what is anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.contract.judgement import Judgement, quote
from stoker.contract.selection import discover_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.model.contract import Exchange, Request, Subject, Verdict
from stoker.ports import Check
from tests.contract.trying import NAME, Impatient, requests_of, try_contract
from tests.fakes.engine_replies import (
    Engine,
    complete,
    complete_in_chunks,
    list_models,
    write_events,
)
from tests.fakes.engine_server import EngineServer

CHECKS = {check.id: check for check in discover_checks()}

#: Any text that an engine may answer with; the words in front make it an answer at all.
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=60)
EMOJI = st.sampled_from(["\U0001f600", "\U0001f468\u200d\U0001f469", "e\u0301", "\u0645\u0631"])
ANSWER = st.builds("It is {}{}{}".format, WORDS, EMOJI, WORDS)
ENGINES = st.builds(Engine, text=ANSWER, reasoning=st.one_of(st.just(""), ANSWER))


def reply(request: Request, engine: Engine) -> Exchange:
    """What a correct engine makes of a request, without any server."""
    if request.path == "/v1/models":
        return Exchange(request=request, status=200, body=json.dumps(list_models(engine)))
    question: dict[str, Any] = dict(request.body or {})
    if request.stream:
        events = tuple(write_events(complete_in_chunks(engine, question)))
        return Exchange(request=request, status=200, events=events)
    return Exchange(request=request, status=200, body=json.dumps(complete(engine, question)))


def judge(check: Check, exchanges: list[Exchange]) -> Judgement:
    judgement = check.judge(Subject(published_name=NAME), exchanges)
    assert isinstance(judgement, Judgement)
    return judgement


@given(ENGINES)
@settings(max_examples=200)
def test_a_correct_answer_raises_no_alarm(engine: Engine) -> None:
    for check in CHECKS.values():
        judgement = judge(check, [reply(request, engine) for request in requests_of(check, NAME)])
        assert judgement.verdict is Verdict.PASSED, judgement


def test_a_correct_answer_over_the_wire_raises_no_alarm() -> None:
    """The stream is cut anywhere, also within a character, and sent in parts."""
    with EngineServer() as server:
        endpoint = Impatient(HttpEndpoint(server.host, server.port), timeout_seconds=30)

        @given(ENGINES, st.lists(st.integers(min_value=1, max_value=200), min_size=1, max_size=20))
        @settings(max_examples=100, deadline=None)
        def try_one(engine: Engine, sizes: list[int]) -> None:
            server.engine = engine
            server.cut = lambda stream: _cut(stream, sizes)
            verification = try_contract(endpoint)
            assert verification.has_passed, verification

        try_one()


def _cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    parts, start = [], 0
    for size in sizes:
        parts.append(stream[start : start + size])
        start += size
    return [*parts, stream[start:]]


FIELDS = st.sampled_from(
    [
        "data",
        "id",
        "aliases",
        "object",
        "choices",
        "message",
        "delta",
        "role",
        "content",
        "reasoning",
        "finish_reason",
        "matched_stop",
        "model",
        "error",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=12,
)
DEEP = st.integers(1, 1100).map(lambda depth: "[" * depth + "]" * depth)
ODD = st.sampled_from(["", "[DONE]", "[" * 100_000, "9" * 5000, "NaN", '"\\ud83d"'])
TEXTS = JSON.map(json.dumps) | st.text(max_size=20) | DEEP | ODD


@given(data=st.data(), status=st.sampled_from([0, 200, 200, 200, 302, 401, 404, 500]))
@settings(max_examples=150)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_no_reply_raises(check: Check, data: st.DataObject, status: int) -> None:
    exchanges = [
        Exchange(
            request=request,
            status=status,
            body=data.draw(TEXTS),
            events=tuple(data.draw(st.lists(TEXTS, max_size=4))),
            is_utf8=data.draw(st.booleans()),
        )
        for request in requests_of(CHECKS[check.id], NAME)
    ]
    judgement = judge(check, exchanges)
    f"{judgement.expected}{judgement.found}".encode()  # any file can hold it


def _change_anywhere(value: Any, change: st.SearchStrategy[Any], draw: Any) -> Any:
    """The same data with one thing in it replaced, wherever that is."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _change_anywhere(value[key], change, draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        changed = _change_anywhere(value[place], change, draw)
        return [*value[:place], changed, *value[place + 1 :]]
    return draw(change)


@given(data=st.data())
@settings(max_examples=150)
def test_no_change_to_a_correct_reply_raises(data: st.DataObject) -> None:
    for check in CHECKS.values():
        exchanges = [reply(request, Engine()) for request in requests_of(check, NAME)]
        changed = [_change_exchange(exchange, data.draw) for exchange in exchanges]
        judge(check, changed)


def _change_exchange(exchange: Exchange, draw: Any) -> Exchange:
    def change(text: str) -> str:
        return json.dumps(_change_anywhere(json.loads(text), JSON, draw))

    if not exchange.events:
        return Exchange(request=exchange.request, status=200, body=change(exchange.body))
    events = list(exchange.events)
    place = draw(st.integers(0, len(events) - 2))
    events[place] = change(events[place])
    return Exchange(request=exchange.request, status=200, events=tuple(events))


# --- single judgements that are easy to get wrong ---


def chat(text: str, **engine: Any) -> Judgement:
    check = CHECKS["chat_answer"]
    request, *_ = requests_of(check, NAME)
    return judge(check, [reply(request, Engine(text=text, **engine))])


@pytest.mark.parametrize(
    "text", ["4", "4.", "...", "!!!", "444", "\U0001f600", "2+2=4\ufe0f\u20e3"]
)
def test_a_short_answer_is_an_answer(text: str) -> None:
    assert chat(text).verdict is Verdict.PASSED


@pytest.mark.parametrize("text", ["!!!!", "! ! ! !", "\n!!\n!!\n", "\u200b\u200b\u200b\u200b"])
def test_one_character_over_and_over_is_none(text: str) -> None:
    assert chat(text).verdict is Verdict.FAILED


def test_a_character_that_the_limit_cuts_is_no_alarm() -> None:
    assert chat("four \ufffd", finish_reason="length").verdict is Verdict.PASSED
    assert chat("four \ufffd", finish_reason="stop").verdict is Verdict.FAILED
    assert chat("fo\ufffdur", finish_reason="length").verdict is Verdict.FAILED
    assert chat("\ufffd", finish_reason="length").verdict is Verdict.FAILED


def test_reasoning_alone_is_an_answer_and_is_told() -> None:
    judgement = chat("", reasoning="Two and two are four.", finish_reason="length")
    assert judgement.verdict is Verdict.PASSED
    assert "reasoning" in judgement.found


def test_garbage_in_reasoning_is_noticed() -> None:
    assert chat("4", reasoning="!!!!!!!!").verdict is Verdict.FAILED


@pytest.mark.parametrize("note", ["NaN happened", "nan", "logits: NaN"])
def test_an_engine_that_notes_nan_is_believed(note: str) -> None:
    assert chat("4", extra={"matched_stop": note}).verdict is Verdict.FAILED


@pytest.mark.parametrize("note", ["<|im_end|>", "banana", 151645, None])
def test_an_ordinary_stop_is_no_nan(note: object) -> None:
    assert chat("4", extra={"stop_reason": note}).verdict is Verdict.PASSED


def test_a_timeout_is_a_broken_promise_and_a_refusal_an_error() -> None:
    check = CHECKS["chat_answer"]
    (request,) = requests_of(check, NAME)
    late = Exchange(request=request, error="no whole reply within 60 s", error_kind="timeout")
    refused = Exchange(request=request, error="no connection", error_kind="refused")
    assert judge(check, [late]).verdict is Verdict.FAILED
    assert judge(check, [refused]).verdict is Verdict.ERROR
    assert judge(check, [refused]).found == "no connection"


def test_a_stream_that_sends_growing_counts_is_judged_by_the_last() -> None:
    check = CHECKS["usage_adds_up"]
    plain, streamed = (reply(request, Engine()) for request in requests_of(check, NAME))
    growing = json.dumps(
        {"usage": {"prompt_tokens": 37, "completion_tokens": 0, "total_tokens": 37}}
    )
    events = (growing, *streamed.events)
    grown = Exchange(request=streamed.request, status=200, events=events)
    assert judge(check, [plain, grown]).verdict is Verdict.PASSED


def test_a_stream_without_counts_is_told_but_kept() -> None:
    check = CHECKS["usage_adds_up"]
    plain, streamed = (reply(request, Engine()) for request in requests_of(check, NAME))
    without = Exchange(
        request=streamed.request, status=200, events=(*streamed.events[:-2], "[DONE]")
    )
    judgement = judge(check, [plain, without])
    assert judgement.verdict is Verdict.PASSED
    assert "none in the stream" in judgement.found


def test_reasoning_that_only_one_form_keeps_apart_is_noticed() -> None:
    check = CHECKS["stream_ends_done"]
    plain, streamed = requests_of(check, NAME)
    thinking, flat = Engine(text="4.", reasoning="Hm."), Engine(text="Hm. 4.")
    for first, second in ((thinking, flat), (flat, thinking)):
        judgement = judge(check, [reply(plain, first), reply(streamed, second)])
        assert judgement.verdict is Verdict.FAILED
        assert "reasoning only" in judgement.found


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("org/model", Verdict.PASSED),
        ("smollm2@main", Verdict.PASSED),
        ("/models/x", Verdict.FAILED),
        ("./x", Verdict.FAILED),
        ("x.Q4_K_M.gguf", Verdict.FAILED),
    ],
)
def test_a_reply_may_name_anything_but_a_file(name: str, verdict: Verdict) -> None:
    check = CHECKS["published_name"]
    listing, question = requests_of(check, NAME)
    named = reply(question, Engine(names=(name,)))
    assert judge(check, [reply(listing, Engine()), named]).verdict is verdict


def test_a_published_name_that_is_a_path_is_the_owners_wish() -> None:
    check, name = CHECKS["published_name"], "/models/x.gguf"
    exchanges = [reply(request, Engine(names=(name,))) for request in requests_of(check, name)]
    judgement = check.judge(Subject(published_name=name), exchanges)
    assert isinstance(judgement, Judgement)
    assert judgement.verdict is Verdict.PASSED


def test_what_a_server_sent_is_quoted_harmlessly() -> None:
    assert quote('a\x1b[31m\u202e\ud83d\n"') == '"a\\x1b[31m\\u202e\\ud83d\\n""'
    assert quote("a" * 200) == '"' + "a" * 119 + "... and 82 characters more"
    assert quote(None) == "null"
    assert quote({"a": 1}) == '{"a": 1}'
