"""What real engines' parsers made of canonical outputs, judged: no false alarm, nothing missed.

The recordings are made by scripts/record_parser_truth.py. Each outcome becomes the exchange that a
client of SGLang would have had, plain or streamed, and goes to the judges of calls and thoughts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scripts.parser_truth.canon import (
    SHAPES,
    TOOLS,
    Format,
    Shape,
    has_shape,
    load_formats,
    write_output,
)
from scripts.parser_truth.flaws import expect, find_flaws, find_marks
from scripts.parser_truth.report import find_engines, load_recorded, render
from stoker.contract.markers import Kind, find_markers
from stoker.contract.thoughts import find_thought_flaw
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import find_raw_call, find_turn_flaw
from stoker.contract.tool_forms import find_form_flaw
from stoker.contract.tool_questions import schemas_of
from stoker.model.contract import Exchange, Request, Verdict
from tests.conftest import PROJECT

FORMATS = {each["id"]: each for each in load_formats()}
BY_SHAPE = {shape.id: shape for shape in SHAPES}
SCHEMAS = schemas_of(TOOLS)
RECORDED = [(engine, file) for engine in find_engines() for file in load_recorded(engine)]
NAMES = [f"{engine}-{file['format']}" for engine, file in RECORDED]
_CREATED = 1_700_000_000

#: Marks are told wherever they stand, also in the name of a call and in its arguments.
_MARKED = {"tool_markers_in_content"}
_JOINED = {"tool_name_repeated", "tool_call_id_changed"}

#: The symptoms that a flaw may be told by. A flaw that is not here cannot be seen in one turn by
#: somebody who does not know what the model wrote: a lost text, one lost call of two.
TOLD_BY = {
    "arguments_missing": {"tool_arguments_not_json"} | _MARKED,
    "arguments_no_object": {"tool_arguments_not_object"},
    "arguments_not_json": {"tool_arguments_not_json"} | _MARKED | _JOINED,
    "call_index": {"tool_index_wrong"} | _JOINED,
    "call_name": {"tool_name_wrong"} | _MARKED | _JOINED,
    "text_marked": {"reasoning_in_content", "tool_arguments_not_json"} | _MARKED,
    "thought_marked": {"reasoning_in_content"} | _MARKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One recorded result and the exchange that it makes."""

    name: str
    layout: Format
    shape: Shape
    setup: str
    flaws: tuple[str, ...]
    exchange: Exchange


def read_outcomes(file: Mapping[str, Any]) -> Iterator[Outcome]:
    """Every outcome of a recording; streams that only a cut token leads to are left out."""
    for case in file["cases"]:
        for result in (case["whole"], *case["streams"]):
            if not result.get("is_real", True) or "error" in result["result"]:
                continue
            deltas = result.get("deltas")
            exchange = (
                make_plain(result["result"])
                if deltas is None
                else make_streamed(deltas, result["result"]["finish"])
            )
            yield Outcome(
                name=f"{case['setup']} {case['shape']} {result.get('example', 'plain')}",
                layout=FORMATS[file["format"]],
                shape=BY_SHAPE[case["shape"]],
                setup=case["setup"],
                flaws=tuple(result["flaws"]),
                exchange=exchange,
            )


def ask(*, stream: bool) -> Request:
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": list(TOOLS)}
    return Request(method="POST", path="/v1/chat/completions", body=body, stream=stream)


def make_plain(result: Mapping[str, Any]) -> Exchange:
    """A plain reply in SGLang's shape."""
    calls = [
        {
            "id": f"call_{number:024x}",
            "index": number,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, name, arguments in result["calls"]
    ]
    message = {
        "role": "assistant",
        "content": result["content"],
        "reasoning_content": result["reasoning"] or None,
        "tool_calls": calls or None,
    }
    choice = {"index": 0, "message": message, "finish_reason": result["finish"]}
    body = {"id": "i", "object": "chat.completion", "created": _CREATED, "model": "m"}
    body |= {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
    return Exchange(request=ask(stream=False), status=200, body=json.dumps(body))


def make_streamed(deltas: Sequence[Sequence[Any]], finish: str | None) -> Exchange:
    """A stream in SGLang's shape: every delta names all fields, the ending comes alone."""
    events = [_write_event({"role": "assistant", "content": ""})]
    events += [_write_event(_make_delta(number, row)) for number, row in enumerate(deltas)]
    events += [_write_event({}, finish), "[DONE]"]
    return Exchange(request=ask(stream=True), status=200, events=tuple(events))


def _write_event(delta: Mapping[str, Any], finish: str | None = None) -> str:
    fields = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
    choice = {"index": 0, "delta": {**fields, **delta}, "finish_reason": finish}
    chunk = {"id": "i", "object": "chat.completion.chunk", "created": _CREATED, "model": "m"}
    return json.dumps({**chunk, "choices": [choice], "usage": None})


def _make_delta(number: int, row: Sequence[Any]) -> Mapping[str, Any]:
    match row:
        case ["c", text]:
            return {"content": text}
        case ["r", text]:
            return {"reasoning_content": text}
    _, index, name, arguments = row
    function = {"name": name, "arguments": arguments}
    call_id = None if name is None else f"call_{number:024x}"
    call = {"id": call_id, "index": index, "type": "function", "function": function}
    return {"tool_calls": [call]}


def find_symptom(turn: Turn) -> str:
    """What the judges say of a turn, empty where they find nothing."""
    flaws = (find_turn_flaw(turn, SCHEMAS), find_thought_flaw(turn))
    failed = [flaw for flaw in flaws if flaw and flaw.verdict is Verdict.FAILED]
    return failed[0].symptom or failed[0].found if failed else ""


@pytest.mark.parametrize(("engine", "file"), RECORDED, ids=NAMES)
def test_a_faithful_parse_raises_no_alarm(engine: str, file: Mapping[str, Any]) -> None:
    assert engine
    for outcome in read_outcomes(file):
        if not outcome.flaws and not outcome.layout.get("is_kept"):
            assert not find_symptom(read_turn(outcome.exchange)), outcome


@pytest.mark.parametrize(("engine", "file"), RECORDED, ids=NAMES)
def test_an_unfaithful_parse_is_told_by_its_symptom(engine: str, file: Mapping[str, Any]) -> None:
    for outcome in read_outcomes(file):
        told = {symptom for flaw in outcome.flaws for symptom in TOLD_BY.get(flaw, ())}
        if told and not outcome.layout.get("is_kept"):
            assert find_symptom(read_turn(outcome.exchange)) in told, outcome


#: What is told by a comparison of a stream with the plain reply, if not by the stream alone.
COMPARED = {"call_lost", "text_lost", "text_changed", "text_doubled", "text_added"}


@pytest.mark.parametrize(("engine", "file"), RECORDED, ids=NAMES)
def test_a_stream_is_told_from_the_plain_reply_where_it_is_another(
    engine: str, file: Mapping[str, Any]
) -> None:
    assert engine
    plains: dict[str, Turn] = {}
    for outcome in read_outcomes(file):
        turn = replace(read_turn(outcome.exchange), completion_tokens=9)
        case = f"{outcome.setup} {outcome.shape.id}"
        if turn.form == "plain":
            plains |= {} if outcome.flaws else {case: turn}
            continue
        if case not in plains or outcome.layout.get("is_kept"):
            continue
        flaw = find_form_flaw(plains[case], turn)
        if not outcome.flaws:
            assert flaw is None, outcome
        elif COMPARED & set(outcome.flaws) and not outcome.shape.is_cut:
            assert flaw or turn.flaw or find_symptom(turn), outcome


@pytest.mark.parametrize(("engine", "file"), RECORDED, ids=NAMES)
def test_the_recording_fits_the_canon(engine: str, file: Mapping[str, Any]) -> None:
    """A changed format or shape wants a new recording."""
    layout = FORMATS[file["format"]]
    for case in file["cases"]:
        shape = BY_SHAPE[case["shape"]]
        assert case["text"] == write_output(layout, shape)
        expected = json.loads(json.dumps(expect(layout, shape)))
        assert case["expected"] == expected
        for result in (case["whole"], *case["streams"]):
            flaws = find_flaws(result["result"], case["expected"], find_marks(layout))
            assert result["flaws"] == flaws


@pytest.mark.parametrize("layout", FORMATS.values(), ids=FORMATS.keys())
def test_without_a_parser_the_call_is_seen_and_its_family_named(layout: Format) -> None:
    """The output as it is, as content, plain and streamed."""
    for shape in SHAPES:
        if not shape.calls or not has_shape(layout, shape):
            continue
        text = write_output(layout, shape)
        raw = {"content": text, "reasoning": "", "calls": [], "finish": "stop"}
        pieces = [["c", text[place : place + 7]] for place in range(0, len(text), 7)]
        for exchange in (make_plain(raw), make_streamed(pieces, "stop")):
            turn = read_turn(exchange)
            flaw = find_turn_flaw(turn, SCHEMAS) or find_raw_call(turn, SCHEMAS)
            assert flaw, (layout["id"], shape.id)
            assert flaw.symptom == "tool_markers_in_content"
            assert flaw.details["family"]


#: Where the marks are gone, nothing tells a call behind a text and white space from an example.
EXAMPLES = {
    "mistral": {"text_call", "thought_call", "thought_text_call"},
    "lfm2": {"thought_call"},
    "interns1": {"text_call", "thought_call", "thought_text_call"},
    "internlm-2.5": {"text_call"},
}
SPECIAL = [layout for layout in FORMATS.values() if layout.get("is_special")]


@pytest.mark.parametrize("layout", SPECIAL, ids=lambda layout: layout["id"])
def test_where_special_tokens_are_dropped_the_call_is_seen(layout: Format) -> None:
    """Without a parser an engine leaves them out of the text."""
    for shape in SHAPES:
        if not shape.calls or not has_shape(layout, shape):
            continue
        text = write_output(layout, shape)
        for token in layout["atomic"]:
            text = text.replace(token, "")
        raw = {"content": text, "reasoning": "", "calls": [], "finish": "stop"}
        turn = read_turn(make_plain(raw))
        flaw = find_turn_flaw(turn, SCHEMAS) or find_raw_call(turn, SCHEMAS)
        if shape.id in EXAMPLES.get(layout["id"], ()):
            assert flaw is None
            continue
        assert flaw, (shape.id, text)
        assert flaw.symptom == "tool_markers_in_content"


@pytest.mark.parametrize("layout", FORMATS.values(), ids=FORMATS.keys())
def test_without_a_parser_the_thought_is_seen(layout: Format) -> None:
    for shape in SHAPES:
        is_bare = layout.get("is_prefilled") and shape.is_cut
        if not shape.thought or is_bare or not has_shape(layout, shape):
            continue
        assert find_markers(write_output(layout, shape), Kind.REASONING), (layout["id"], shape.id)


@pytest.mark.parametrize("layout", FORMATS.values(), ids=FORMATS.keys())
def test_the_named_family_has_the_right_parser(layout: Format) -> None:
    """What a remedy would propose reads the format."""
    parsers = {*layout.get("tool", {}).values(), *layout.get("same", ())}
    call = write_output(layout, BY_SHAPE["one_call"]) if parsers else ""
    found = find_markers(call, Kind.TOOLS)
    if found:
        assert parsers & set(found[0].parsers), (layout["id"], found[0])


def test_no_plain_text_is_taken_for_a_call_or_a_thought() -> None:
    for shape in SHAPES:
        if not shape.calls and not shape.thought:
            assert not find_markers(shape.text), shape


def test_the_page_is_what_was_recorded() -> None:
    """docs/engine-parser-findings.md is made by `python -m scripts.parser_truth.report`."""
    page = (PROJECT / "docs" / "engine-parser-findings.md").read_text("utf-8")
    assert page == render()
