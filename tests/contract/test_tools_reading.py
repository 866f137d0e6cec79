"""Reading calls: the pieces of a stream, arguments against their schemas, and any rubbish."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.contract.judgement import Judgement
from stoker.contract.markers import MARKERS
from stoker.contract.tool_calls import (
    Call,
    Turn,
    find_mismatch,
    join_calls,
    read_arguments,
    read_turn,
)
from stoker.contract.tool_flaws import (
    find_marker_flaw,
    find_raw_call,
    find_reused_id,
    find_turn_flaw,
)
from stoker.contract.tool_forms import compare_forms, find_form_flaw
from stoker.contract.tool_questions import LIGHT, NOTE, ORDER, WEATHER, schemas_of
from stoker.model.contract import Exchange, Request, Verdict
from tests.contract.hand_made import try_check
from tests.contract.tool_trying import REASONING_CHECKS, TOOL_CHECKS, subject

SCHEMAS = schemas_of([WEATHER, ORDER, NOTE])
MEAL: dict[str, Any] = {
    "customer": {"name": "Ada", "table": 4},
    "dishes": ["soup", "salad"],
    "hurry": True,
}


def piece(index: int = 0, call_id: Any = None, name: Any = None, arguments: Any = "") -> Any:
    return [
        {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
    ]


def test_pieces_join_by_their_index() -> None:
    calls, flaw = join_calls(
        [
            None,
            piece(0, "a", "get_weather"),
            piece(0, arguments='{"city": '),
            piece(1, "b", "get_weather"),
            piece(0, arguments='"Paris"}'),
            piece(1, arguments='{"city": "Oslo"}'),
            [],
        ]
    )
    assert flaw is None
    assert [(call.id, call.arguments) for call in calls] == [
        ("a", '{"city": "Paris"}'),
        ("b", '{"city": "Oslo"}'),
    ]


def test_a_whole_call_in_one_piece_is_one() -> None:
    calls, flaw = join_calls([piece(0, "a", "get_weather", '{"city": "Rome"}')])
    assert (len(calls), flaw) == (1, None)


@given(st.text(max_size=40), st.lists(st.integers(0, 60), max_size=6))
def test_arguments_that_are_cut_anywhere_join_to_themselves(text: str, cuts: list[int]) -> None:
    whole = json.dumps({"text": text})
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    parts = [whole[start:end] for start, end in pairwise(places)]
    calls, flaw = join_calls(
        [piece(0, "a", "save_note"), *(piece(arguments=part) for part in parts)]
    )
    assert flaw is None
    assert calls[0].arguments == whole


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, ""),
        ({"hurry": "yes"}, "arguments.hurry"),
        ({"hurry": 1}, "arguments.hurry"),
        ({"dishes": []}, "0 items"),
        ({"dishes": ["soup", "steak"]}, "arguments.dishes.1"),
        ({"dishes": '["soup"]'}, "no array"),
        ({"customer": {"name": "Ada"}}, "no table"),
        ({"customer": {"name": "Ada", "table": "4"}}, "arguments.customer.table"),
        ({"customer": {"name": "Ada", "table": 4, "age": 1}}, "does not know"),
        ({"tip": 3}, "does not know"),
    ],
)
def test_a_schema_is_held(change: dict[str, Any], found: str) -> None:
    mismatch = find_mismatch({**MEAL, **change}, SCHEMAS["order_meal"])
    assert bool(mismatch) == bool(found)
    assert found in mismatch


@pytest.mark.parametrize(
    ("arguments", "symptom"),
    [
        ("{}", ""),
        (' {"city": "Oslo"}\n', ""),
        ("", "tool_arguments_not_json"),
        ('{"city": "Os', "tool_arguments_not_json"),
        ("{'city': 'Oslo'}", "tool_arguments_not_json"),
        ('"{\\"city\\": \\"Oslo\\"}"', "tool_arguments_encoded_twice"),
        ('"Paris"', "tool_arguments_not_object"),
        ("[]", "tool_arguments_not_object"),
        ("null", "tool_arguments_not_object"),
        ({"city": "Oslo"}, "tool_arguments_not_text"),
        (None, "tool_arguments_not_text"),
    ],
)
def test_arguments_are_the_text_of_an_object(arguments: Any, symptom: str) -> None:
    found = read_arguments(Call(name="get_weather", arguments=arguments))
    assert (found.symptom if isinstance(found, Judgement) else "") == symptom


@pytest.mark.parametrize(
    "text",
    [
        "A call stands within <tool_call></tool_call> tags.",
        "Use <tool_call> to call get_weather, and <tools> for the tools.",
        '<tool_call>\n{"name": get_weather, "arguments": }\n</tool_call>',
        "<tool_call>get_weather please</tool_call>",
        "<tool_call>",
        "</tool_call>",
        "The calls are framed by <tool_calls> and </tool_calls>",
        "A call of get_weather begins with [TOOL_CALLS] and ends with the turn.",
        "Example: get_weather",
        "[TOOL_CALLS] and get_weather are all that I know.",
        "```\n<function=example_function_name>\n</function>\n</tool_call>\n```",
    ],
)
def test_a_model_may_talk_about_marks(text: str) -> None:
    assert find_marker_flaw(Turn(form="plain", content=text), SCHEMAS) is None


LISTED = json.dumps(WEATHER)
FUNCTION = json.dumps(WEATHER["function"])


@pytest.mark.parametrize(
    "text",
    [
        (
            f"# Tools\n\nYou get function signatures within <tools></tools> XML tags:\n"
            f"<tools>\n{LISTED}\n</tools>\n\nFor each function call, return a json object with "
            "function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
            '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
        ),
        (
            f"<tools>\n{LISTED}\n</tools>\n\nIf you call a function ONLY reply in this format:\n\n"
            "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n"
            "</parameter>\n</function>\n</tool_call>\n"
        ),
        (
            f"<tools>\n{LISTED}\n</tools>\nFor each call, output\n<tool_call>{{function-name}}\n"
            "<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}</arg_value>\n</tool_call>"
        ),
        (
            f"<tools>\n<tool>{FUNCTION}</tool>\n</tools>\n<minimax:tool_call>\n"
            '<invoke name="tool-name-1">\n<parameter name="param-key-1">1</parameter>\n</invoke>\n'
            "</minimax:tool_call>"
        ),
        f"[AVAILABLE_TOOLS][{LISTED}][/AVAILABLE_TOOLS]",
        'Respond in the format {"name": function name, "parameters": dictionary}.\n\n' + LISTED,
        LISTED,
        FUNCTION,
        f"[{LISTED}]",
        '{"name": "get_weather", "parameters": {"type": "object", "properties": {}}}',
        'I could call get_weather with {"city": "Paris"}.',
        'Such a call is written {"name": "get_weather", "arguments": {"city": "Paris"}}',
        "get_weather(city) gives the weather; get_weather {city} does not.",
        "call: get_weather",
        '{"city": "Paris"}',
    ],
)
def test_a_model_that_quotes_its_prompt_calls_nothing(text: str) -> None:
    turn = Turn(form="plain", content=text, finish_reason="stop")
    assert find_turn_flaw(turn, SCHEMAS) is None
    assert find_raw_call(turn, SCHEMAS) is None
    thinking = Turn(form="plain", content="Hello.", reasoning=text, finish_reason="stop")
    assert find_turn_flaw(thinking, SCHEMAS) is None


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("<tool_calls>\n", "hunyuan-a13b"),
        ("I will look it up.\n<tool_calls>\n", "hunyuan-a13b"),
        ("]<]minimax[>[", "minimax-m3"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>", "kimi-k2"),
        ("<tool_call>switch_light_off</tool_call>", "writes-like-hermes"),
        ("<tool_call>get_weather<arg_key>city</arg_key>", "writes-like-glm"),
        ('{"name": "get_weather", "arguments": {}}\n</tool_call>', "writes-like-hermes"),
        ('[TOOL_CALLS] [{"arguments": {"city": "Paris"}, "name": "get_weather"}]', "mistral"),
    ],
)
def test_what_is_left_of_a_call_is_seen(text: str, family: str) -> None:
    turn = Turn(form="plain", content=text, finish_reason="stop")
    flaw = find_turn_flaw(turn, {**SCHEMAS, **schemas_of([LIGHT])})
    assert flaw is not None
    assert (flaw.symptom, flaw.details["family"]) == ("tool_markers_in_content", family)


CALLED = Call(id="a", type="function", name="get_weather", arguments='{"city": "Paris"}')


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        (', {"name": "get_weather", "arguments": {"city": "Oslo"}}', True),
        (', {"name": "get_weather", "arguments": {"city": "Oslo"}}]', True),
        ('{"name": "get_weather", "parameters": {"city": "Oslo"}}', True),
        ('I look. , {"name": "get_weather", "arguments": {"city": "Oslo"}}', True),
        ('I will send {"name": "get_weather", "arguments": {"city": "Oslo"}}', False),
        ('{"city": "Oslo"}', False),
        ("I will look it up; and then {that}", False),
    ],
)
def test_a_call_as_text_beside_another_is_seen(text: str, is_call: bool) -> None:
    turn = Turn(form="plain", content=text, calls=(CALLED,), finish_reason="tool_calls")
    flaw = find_turn_flaw(turn, SCHEMAS)
    assert (flaw is not None and flaw.symptom == "tool_markers_in_content") is is_call


def test_thoughts_beside_a_call_may_name_a_mark() -> None:
    thoughts = "I must answer within <tool_call></tool_call> tags."
    turn = Turn(form="plain", reasoning=thoughts, calls=(CALLED,), finish_reason="tool_calls")
    assert find_turn_flaw(turn, SCHEMAS) is None


def _turn(text: str = "", calls: int = 1, tokens: int | None = 9, city: str = "Paris") -> Turn:
    call = Call(id="a", type="function", name="get_weather", arguments=f'{{"city":"{city}"}}')
    return Turn(
        form="plain",
        content=text,
        calls=(call,) * calls,
        finish_reason="tool_calls",
        completion_tokens=tokens,
    )


@pytest.mark.parametrize(
    ("plain", "streamed", "is_flaw"),
    [
        (_turn("A."), _turn(" A.\n"), False),
        (_turn("A."), _turn(), True),
        (_turn("A."), _turn("A.A."), True),
        (_turn("I will"), _turn("Iwill"), True),
        (_turn(calls=2), _turn(), True),
        (_turn(calls=2), _turn(tokens=8), False),
        (_turn("A."), _turn("B.", tokens=10), False),
        (_turn(), _turn(city="Oslo"), True),
    ],
)
def test_forms_are_compared_where_the_tokens_are_as_many(
    plain: Turn, streamed: Turn, is_flaw: bool
) -> None:
    flaw = find_form_flaw(plain, streamed)
    assert (flaw is not None) is is_flaw


def test_another_wording_is_asked_again() -> None:
    requests = [Request(method="POST", path="/", stream=stream) for stream in (False, True)]
    steps = compare_forms(requests, [_turn("A."), _turn("B.")])
    assert all(request.is_new for request in next(steps))
    certain = compare_forms(requests, [_turn("A."), _turn()])
    with pytest.raises(StopIteration) as stopped:
        next(certain)
    assert stopped.value.value.symptom == "tool_forms_differ"


@pytest.mark.parametrize("marker", MARKERS, ids=lambda marker: marker.text)
def test_a_mark_beside_a_call_is_none_of_the_content(marker: Any) -> None:
    call = Call(id="a", type="function", name="get_weather", arguments='{"city": "Paris"}')
    turn = Turn(form="plain", content=marker.text, calls=(call,), finish_reason="tool_calls")
    flaw = find_turn_flaw(turn, SCHEMAS)
    is_seen = marker.kind == "tools" and not marker.pattern
    assert (flaw is not None and flaw.symptom == "tool_markers_in_content") or not is_seen


def test_a_call_that_the_limit_cut_is_no_fault() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}'
    turn = Turn(form="plain", content=text, finish_reason="length")
    flaw = find_turn_flaw(turn, SCHEMAS)
    assert flaw is not None
    assert flaw.verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ('{"name": "get_weather", "parameters": {"city": "Paris"}}', "llama-3"),
        ('{"name": "get_weather", "arguments": {"city": "Paris"}}', "writes-like-hermes"),
        ('[{"name": "get_weather", "arguments": {"city": "Paris"}}]', "xlam"),
        ('```json\n{"name": "get_weather", "parameters": {}}\n```', "llama-3"),
        ('[get_weather(city="Paris")]', "llama-4"),
        ("Call get_weather(city='Paris').", ""),
        ('{"weather": "sunny"}', ""),
        ('{"name": "Ada", "arguments": {}}', ""),
        ("[1, 2]", ""),
        ("", ""),
    ],
)
def test_a_call_without_marks_is_seen_where_it_is_all(text: str, family: str) -> None:
    flaw = find_raw_call(Turn(form="plain", content=text), SCHEMAS)
    assert (flaw.details["family"] if flaw else "") == family


@pytest.mark.parametrize(
    ("first", "is_reuse"),
    [
        ("call_abc", True),
        ("call_1", True),
        ("functions.get_weather:0", False),
        ("get_weather:3", False),
        ("0", False),
    ],
)
def test_counting_ids_may_come_again(first: str, is_reuse: bool) -> None:
    turns = [Turn(form="plain", calls=(Call(id=first),)) for _ in range(2)]
    assert bool(find_reused_id(turns)) == is_reuse


KEYS = st.sampled_from(
    [
        "choices",
        "message",
        "delta",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "index",
        "type",
        "usage",
        "prompt_tokens",
        "finish_reason",
        "object",
        "error",
        "reasoning_content",
        "reasoning",
        "completion_tokens",
        "reasoning_tokens",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["chat.completion", "chat.completion.chunk", "stop", "tool_calls", "{}"])
    | st.sampled_from(["get_weather", "save_note", "<tool_call>", "</think>", '"a"', "[DONE]"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)
#: Replies that are nearly right.
CALLS = st.fixed_dictionaries(
    {"id": LEAVES, "index": LEAVES, "type": st.just("function"), "function": JSON}
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": LEAVES, "tool_calls": st.lists(CALLS) | JSON}
)


def _reply(request: Request, data: st.DataObject) -> Exchange:
    holder, kind = (
        ("delta", "chat.completion.chunk") if request.stream else ("message", "chat.completion")
    )
    body = st.fixed_dictionaries(
        {
            "id": st.just("a"),
            "object": st.just(kind),
            "choices": st.lists(st.fixed_dictionaries({holder: MESSAGE, "finish_reason": LEAVES}))
            | JSON,
            "usage": JSON,
        }
    )
    texts = (body | JSON).map(json.dumps)
    return Exchange(
        request=request,
        status=data.draw(st.sampled_from([200, 200, 200, 400, 500])),
        body=data.draw(texts),
        events=tuple(data.draw(st.lists(texts, max_size=3))) if request.stream else (),
    )


@given(data=st.data(), is_promised=st.booleans())
@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("check", TOOL_CHECKS + REASONING_CHECKS)
def test_no_reply_raises(check: str, data: st.DataObject, is_promised: bool) -> None:
    tried = subject("vllm") if is_promised else subject("", promised=())
    judgement = try_check(check, lambda request: _reply(request, data), tried)
    f"{judgement.expected}{judgement.found}".encode()  # any file can hold it


def test_a_stream_that_is_none_is_a_flaw() -> None:
    request = Request(method="POST", path="/v1/chat/completions", stream=True)
    turn = read_turn(Exchange(request=request, status=200, body="{}"))
    assert turn.flaw is not None
