"""The judges alone: no false alarm for what is right, no exception for what is anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.contract.judgement import Judgement, quote
from stoker.contract.selection import discover_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import Script
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import Exchange, Request, Subject, Verdict
from stoker.ports import Check
from tests.contract.trying import NAME, Impatient, requests_of, try_contract

CHECKS = {check.id: check for check in discover_checks()}

#: What a server keeps that says the same to everything, however long the question.
CANNED = (
    "chat_answer",
    "published_name",
    "question_reaches_model",
    "stream_ends_done",
    "usage_adds_up",
    "stream_equals_plain",
    "stream_usage",
)

#: The scripts that people write in, one to a text, with signs, spaces and figures between.
SCRIPTS = [
    (0x20, 0x7E),
    (0xA1, 0x24F),
    (0x391, 0x3C9),
    (0x410, 0x44F),
    (0x5D0, 0x5EA),
    (0x621, 0x652),
    (0x905, 0x94D),
    (0xE01, 0xE4E),
    (0x3041, 0x3096),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0x1F300, 0x1F64F),
]


def _letters(span: tuple[int, int]) -> st.SearchStrategy[str]:
    first, last = span
    others = st.sampled_from(" \n\t0123456789.,:;!?-*#|()[]{}\"'")
    return st.characters(min_codepoint=first, max_codepoint=last) | others


#: Any text that an engine may answer with; the words in front make it an answer at all.
WORDS = st.sampled_from(SCRIPTS).flatmap(lambda span: st.text(_letters(span), max_size=30))
EMOJI = st.sampled_from(["\U0001f600", "\U0001f468\u200d\U0001f469", "e\u0301", "\u0645\u0631"])
ANSWER = st.builds("It is {}{}{}".format, WORDS, EMOJI, WORDS)
ENGINES = st.builds(
    lambda text, reasoning: Script().saying(text, reasoning=reasoning),
    ANSWER,
    st.one_of(st.just(""), ANSWER),
)


def reply(request: Request, engine: Script) -> Exchange:
    """What a correct engine makes of a request, without any server."""
    return DirectEndpoint(Core(engine)).exchange(request)


#: Enough for every plan; what it may ask beyond is not needed to try its judge.
MOST_EXCHANGES = 60


def try_on(
    check: Check,
    answer: Callable[[Request], Exchange],
    subject: Subject | None = None,
) -> list[Exchange]:
    """Follow the plan of a check to its end with these answers."""
    subject, exchanges = subject or Subject(published_name=NAME), list[Exchange]()
    while len(exchanges) < MOST_EXCHANGES and (batch := check.plan(subject, exchanges)):
        exchanges += [answer(request) for request in batch]
    return exchanges


def judge(check: Check, exchanges: list[Exchange]) -> Judgement:
    judgement = check.judge(Subject(published_name=NAME), exchanges)
    assert isinstance(judgement, Judgement)
    return judgement


@given(ENGINES)
@settings(max_examples=200, deadline=None)
def test_a_correct_answer_raises_no_alarm(engine: Script) -> None:
    for name in CANNED:
        check = CHECKS[name]
        judgement = judge(check, try_on(check, lambda request: reply(request, engine)))
        assert judgement.verdict is Verdict.PASSED, judgement


def test_a_correct_answer_over_the_wire_raises_no_alarm() -> None:
    """The stream is cut anywhere, also within a character, and sent in parts."""
    with EngineServer() as server:
        endpoint = Impatient(HttpEndpoint(server.host, server.port), timeout_seconds=30)

        @given(ENGINES, st.lists(st.integers(min_value=1, max_value=200), min_size=1, max_size=20))
        @settings(max_examples=100, deadline=None)
        def try_one(engine: Script, sizes: list[int]) -> None:
            server.script = engine
            server.cut = lambda stream: _cut(stream, sizes)
            verification = try_contract(endpoint, only=CANNED)
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
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_no_reply_raises(check: Check, data: st.DataObject, status: int) -> None:
    def answer(request: Request) -> Exchange:
        return Exchange(
            request=request,
            status=status,
            body=data.draw(TEXTS),
            events=tuple(data.draw(st.lists(TEXTS, max_size=4))),
            is_utf8=data.draw(st.booleans()),
        )

    judgement = judge(check, try_on(check, answer))
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
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_no_change_to_a_correct_reply_raises(check: Check, data: st.DataObject) -> None:
    judge(check, try_on(check, lambda request: _change_exchange(reply(request, Script()), data)))


def _change_exchange(exchange: Exchange, data: st.DataObject) -> Exchange:
    def change(text: str) -> str:
        try:
            whole = json.loads(text)
        except ValueError:
            return text  # counters and health are no JSON
        return json.dumps(_change_anywhere(whole, JSON, data.draw))

    if not exchange.events:
        return Exchange(request=exchange.request, status=200, body=change(exchange.body))
    events = list(exchange.events)
    place = data.draw(st.integers(0, len(events) - 2))
    events[place] = change(events[place])
    return Exchange(request=exchange.request, status=200, events=tuple(events))


# --- single judgements that are easy to get wrong ---


def chat(text: str, **engine: Any) -> Judgement:
    check = CHECKS["chat_answer"]
    request, *_ = requests_of(check, NAME)
    return judge(check, [reply(request, Script().saying(text, **engine))])


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


def test_reasoning_alone_that_stops_is_no_answer() -> None:
    judgement = chat("", reasoning="Two and two are four.", finish_reason="stop")
    assert judgement.symptom == "empty_answer"


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
    plain, streamed = (reply(request, Script()) for request in requests_of(check, NAME))
    growing = json.dumps(
        {"usage": {"prompt_tokens": 37, "completion_tokens": 0, "total_tokens": 37}}
    )
    events = (growing, *streamed.events)
    grown = Exchange(request=streamed.request, status=200, events=events)
    assert judge(check, [plain, grown]).verdict is Verdict.PASSED


def test_a_stream_without_counts_is_told_but_kept() -> None:
    check = CHECKS["usage_adds_up"]
    plain, streamed = (reply(request, Script()) for request in requests_of(check, NAME))
    without = Exchange(
        request=streamed.request, status=200, events=(*streamed.events[:-2], "[DONE]")
    )
    judgement = judge(check, [plain, without])
    assert judgement.verdict is Verdict.PASSED
    assert "none in the stream" in judgement.found


def test_reasoning_that_only_one_form_keeps_apart_is_noticed() -> None:
    check = CHECKS["stream_ends_done"]
    plain, streamed = requests_of(check, NAME)
    thinking, flat = Script().saying("4.", reasoning="Hm."), Script().saying("Hm. 4.")
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
    named = reply(question, Script(names=(name,)))
    assert judge(check, [reply(listing, Script()), named]).verdict is verdict


def test_a_published_name_that_is_a_path_is_the_owners_wish() -> None:
    check, name = CHECKS["published_name"], "/models/x.gguf"
    exchanges = [reply(request, Script(names=(name,))) for request in requests_of(check, name)]
    judgement = check.judge(Subject(published_name=name), exchanges)
    assert isinstance(judgement, Judgement)
    assert judgement.verdict is Verdict.PASSED


def test_what_a_server_sent_is_quoted_harmlessly() -> None:
    assert quote('a\x1b[31m\u202e\ud83d\n"') == '"a\\x1b[31m\\u202e\\ud83d\\n""'
    assert quote("a" * 200) == '"' + "a" * 119 + "... and 82 characters more"
    assert quote(None) == "null"
    assert quote({"a": 1}) == '{"a": 1}'
