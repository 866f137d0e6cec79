"""Broken promises of calls, whatever form the reply has: what is called, and with what."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stoker.fake_engine.changing import turns_of
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.values import Call, Generated, Response, json_response, say, think

_FULL = "full"
_CALLED = frozenset({"tools_called"})
_ARGUMENTS = frozenset({"tools_arguments"})
_AUTO = frozenset({"tools_auto"})

Answer = Callable[[Generated, Moment], Generated]


def _choice(moment: Moment) -> Any:
    """What the question says of calls: auto, required, none or an object that names a tool."""
    return moment.question.get("tool_choice", "auto")


def _tools(moment: Moment) -> list[Data]:
    return [each["function"] for each in moment.question.get("tools") or () if "function" in each]


def _as_text(write: Callable[[Call], str]) -> Answer:
    """Calls are left in the content as the model wrote them: the parser is missing or another."""

    def answer(generated: Generated, moment: Moment) -> Generated:
        if not generated.calls:
            return generated
        text = "\n".join(write(call) for call in generated.calls)
        return replace(say(generated, text), calls=(), finish_reason="stop")

    return answer


def _write_hermes(call: Call) -> str:
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'


def _write_kimi(call: Call) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{call.name}:0"
        f"<|tool_call_argument_begin|>{call.arguments}<|tool_call_end|><|tool_calls_section_end|>"
    )


def _write_coder(call: Call) -> str:
    values = json.loads(call.arguments)
    lines = [f"<parameter={key}>\n{value}\n</parameter>" for key, value in values.items()]
    return "\n".join(["<tool_call>", f"<function={call.name}>", *lines, "</function>"])


def _write_bare(call: Call) -> str:
    return f'{{"name": "{call.name}", "parameters": {call.arguments}}}'


def _second_as_text(generated: Generated, moment: Moment) -> Generated:
    """The first call alone is read; what joins it to the second one is left, too."""
    if len(generated.calls) < 2:
        return generated
    second = generated.calls[1]
    text = f', {{"name": "{second.name}", "arguments": {second.arguments}}}'
    return replace(say(generated, text), calls=generated.calls[:1])


def _eat_brackets(generated: Generated, moment: Moment) -> Generated:
    if not _tools(moment) or not generated.text:
        return generated
    return say(generated, generated.text.replace("]", ""))


def _each_call(change: Callable[[Call], Call]) -> Answer:
    def answer(generated: Generated, moment: Moment) -> Generated:
        return replace(generated, calls=tuple(map(change, generated.calls)))

    return answer


def _each_argument(change: Callable[[str], str]) -> Answer:
    return _each_call(lambda call: replace(call, arguments=change(call.arguments)))


def _each_value(change: Callable[[Any], Any]) -> Answer:
    """A change of the object of arguments."""
    return _each_argument(
        lambda text: json.dumps(change(json.loads(text)), ensure_ascii=False) if text else text
    )


def _flatten(value: Any) -> Any:
    flat: Data = {}
    for key, each in value.items():
        flat |= each if isinstance(each, dict) else {key: each}
    return flat


def _break_choice(value: Any) -> Any:
    return {key: f"{each}burg" if isinstance(each, str) else each for key, each in value.items()}


def _lists_as_text(value: Any) -> Any:
    return {
        key: json.dumps(each) if isinstance(each, list) else each for key, each in value.items()
    }


def _numbers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers_as_text(each) for key, each in value.items()}
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _lose_beyond(text: str) -> str:
    return "".join(each for each in text if each.isascii())


def _misread(text: str) -> str:
    return text.encode("utf-8").decode("latin-1")


def _question_beyond(text: str) -> str:
    return "".join(each if each.isascii() else "?" for each in text)


def _escape_again(value: Any) -> Any:
    return {
        key: each.replace("\\", "\\\\").replace("\n", "\\n") if isinstance(each, str) else each
        for key, each in value.items()
    }


def _ignore_required(generated: Generated, moment: Moment) -> Generated:
    if _choice(moment) != "required" or not generated.calls:
        return generated
    return replace(say(generated, "I would rather talk."), calls=(), finish_reason="stop")


def _ignore_none(generated: Generated, moment: Moment) -> Generated:
    if _choice(moment) != "none" or not _tools(moment):
        return generated
    return _call_first(generated, moment)


def _ignore_name(generated: Generated, moment: Moment) -> Generated:
    if not isinstance(_choice(moment), dict) or not _tools(moment):
        return generated
    return _call_first(generated, moment)


def _call_first(generated: Generated, moment: Moment) -> Generated:
    name = _tools(moment)[0]["name"]
    call = Call(id="call_0123456789abcdef", name=name, arguments='{"city": "Paris"}')
    return replace(say(generated, ""), calls=(call,), finish_reason="tool_calls")


def _call_twice(generated: Generated, moment: Moment) -> Generated:
    if moment.question.get("parallel_tool_calls") is not False or not generated.calls:
        return generated
    first = generated.calls[0]
    return replace(generated, calls=(first, replace(first, id=f"{first.id}b")))


def _same_ids(generated: Generated, moment: Moment) -> Generated:
    return replace(generated, calls=tuple(replace(each, id="call_1") for each in generated.calls))


def _same_ids_in_turn(generated: Generated, moment: Moment) -> Generated:
    """Two calls where two may be made, both with one id."""
    if len(_tools(moment)) < 2 or not generated.calls:
        return generated
    if moment.question.get("parallel_tool_calls") is not True:
        return generated
    return replace(generated, calls=(generated.calls[0],) * 2)


def _leave_mark(generated: Generated, moment: Moment) -> Generated:
    return say(generated, "<tool_call>") if generated.calls else generated


def _leave_piece(generated: Generated, moment: Moment) -> Generated:
    return say(generated, "<tool_c") if generated.calls else generated


def _think_calls(generated: Generated, moment: Moment) -> Generated:
    if not generated.calls:
        return generated
    return think(generated, f"I will look it up. {_write_hermes(generated.calls[0])}")


def _lose_calls(generated: Generated, moment: Moment) -> Generated:
    return replace(generated, calls=()) if generated.calls else generated


def _finish(reason: Any) -> Answer:
    def answer(generated: Generated, moment: Moment) -> Generated:
        return replace(generated, finish_reason=reason) if generated.calls else generated

    return answer


def _drop_result(data: Data, moment: Moment) -> Data:
    """The prompt is as long whatever the tool has answered."""
    turns = turns_of(moment)
    if not turns or turns[-1].get("role") != "tool" or not isinstance(data.get("usage"), dict):
        return data
    made = data["usage"].get("completion_tokens", 0)
    return {**data, "usage": {**data["usage"], "prompt_tokens": 99, "total_tokens": 99 + made}}


def _refuse_null(response: Response, moment: Moment) -> Response:
    turns = turns_of(moment)
    if all(turn.get("content") is not None for turn in turns):
        return response
    message = "messages: content must be a text"
    return json_response({"error": {"message": message, "type": "invalid", "code": 400}}, 400)


def _objects(data: Data, moment: Moment) -> Data:
    """Arguments as an object in a plain reply."""
    for choice in data.get("choices") or ():
        for call in (choice.get("message") or {}).get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return data


def _without(field: str) -> Callable[[Data, Moment], Data]:
    def reply(data: Data, moment: Moment) -> Data:
        for choice in data.get("choices") or ():
            for call in (choice.get("message") or {}).get("tool_calls") or ():
                call.pop(field, None)
        return data

    return reply


def _fault(name: str, title: str, killed_by: frozenset[str], answer: Answer) -> Fault:
    level = "quick" if killed_by == _CALLED else _FULL
    return Fault(name=name, title=title, killed_by=killed_by, level=level, answer=answer)


FAULTS = (
    _fault("calls_as_text", "calls stay in the content", _CALLED, _as_text(_write_hermes)),
    _fault("calls_as_kimi_text", "calls stay as Kimi writes them", _CALLED, _as_text(_write_kimi)),
    _fault("calls_as_coder_text", "calls stay in XML", _CALLED | _AUTO, _as_text(_write_coder)),
    _fault("calls_as_bare_json", "calls stay as bare JSON", _AUTO, _as_text(_write_bare)),
    _fault(
        "calls_second_as_text",
        "a second call stays as bare text",
        frozenset({"tools_parallel"}),
        _second_as_text,
    ),
    _fault(
        "tools_eat_brackets",
        "text has no closing bracket where tools are offered",
        frozenset({"tools_text"}),
        _eat_brackets,
    ),
    _fault(
        "calls_as_name_and_json",
        "calls stay as a name and its arguments",
        _AUTO,
        _as_text(lambda call: f"{call.name}{call.arguments}"),
    ),
    _fault("calls_leave_mark", "a mark is left beside a call", _CALLED, _leave_mark),
    _fault("calls_leave_piece", "a piece of a mark is left", _CALLED, _leave_piece),
    _fault("calls_in_thoughts", "a call stands in the thoughts, too", _CALLED, _think_calls),
    _fault("calls_lost", "calls are dropped", _CALLED | _AUTO, _lose_calls),
    _fault(
        "required_ignored",
        "a required call is not made",
        _CALLED | {"tools_required"},
        _ignore_required,
    ),
    _fault(
        "none_ignored",
        "tools are called though none is wanted",
        frozenset({"tools_none"}),
        _ignore_none,
    ),
    _fault(
        "named_ignored",
        "another tool is called than the one that is named",
        frozenset({"tools_named"}),
        _ignore_name,
    ),
    _fault(
        "parallel_off_ignored",
        "there are two calls where one is wanted",
        frozenset({"tools_parallel"}),
        _call_twice,
    ),
    _fault("call_ids_same", "all calls have one id", _CALLED, _same_ids),
    _fault(
        "call_ids_same_in_turn",
        "calls of one turn have one id",
        frozenset({"tools_parallel"}),
        _same_ids_in_turn,
    ),
    _fault(
        "call_id_empty", "calls have no id", _CALLED, _each_call(lambda call: replace(call, id=""))
    ),
    _fault(
        "call_name_wrong",
        "the name of the tool is changed",
        _CALLED,
        _each_call(lambda call: replace(call, name=f"functions.{call.name}")),
    ),
    _fault(
        "call_name_marked",
        "a mark is in the name of the tool",
        _CALLED,
        _each_call(lambda call: replace(call, name=f"{call.name}<|tool_call_end|>")),
    ),
    _fault(
        "arguments_cut", "arguments lose their end", _CALLED, _each_argument(lambda text: text[:-1])
    ),
    _fault(
        "arguments_no_json",
        "arguments are no JSON",
        _CALLED,
        _each_argument(lambda text: text.replace('"', "'") if '"' in text else "None"),
    ),
    _fault(
        "arguments_encoded_twice",
        "arguments are made text twice",
        _CALLED,
        _each_argument(json.dumps),
    ),
    _fault(
        "arguments_string",
        "arguments are a text and no object",
        _CALLED,
        _each_argument(lambda text: '"Paris"'),
    ),
    _fault(
        "arguments_off_enum",
        "a value is none of those allowed",
        _CALLED,
        _each_value(_break_choice),
    ),
    _fault("arguments_flat", "nested arguments are flattened", _ARGUMENTS, _each_value(_flatten)),
    _fault(
        "arguments_lists_as_text", "lists are made text", _ARGUMENTS, _each_value(_lists_as_text)
    ),
    _fault(
        "arguments_numbers_as_text",
        "numbers are made text",
        _ARGUMENTS,
        _each_value(_numbers_as_text),
    ),
    _fault(
        "arguments_lose_characters",
        "characters beyond ASCII are lost",
        _ARGUMENTS,
        _each_argument(_lose_beyond),
    ),
    _fault("arguments_misread", "UTF-8 is read as Latin-1", _ARGUMENTS, _each_argument(_misread)),
    _fault(
        "arguments_questioned",
        "characters become question marks",
        _ARGUMENTS,
        _each_argument(_question_beyond),
    ),
    _fault(
        "arguments_escaped_again",
        "escapes are escaped again",
        _ARGUMENTS,
        _each_value(_escape_again),
    ),
    _fault(
        "arguments_empty",
        "a call without arguments has an empty text",
        _ARGUMENTS,
        _each_argument(lambda text: "" if text == "{}" else text),
    ),
    _fault(
        "call_finish_stop", "a call ends with stop", _CALLED | {"tools_required"}, _finish("stop")
    ),
    _fault("call_finish_none", "a call ends with no reason", _CALLED, _finish(None)),
    Fault(
        name="arguments_as_object",
        title="arguments are an object in a plain reply",
        killed_by=_CALLED,
        reply=_objects,
    ),
    Fault(
        name="call_type_missing",
        title="calls have no type",
        killed_by=_CALLED,
        reply=_without("type"),
    ),
    Fault(
        name="tool_result_dropped",
        title="the result of a call never reaches the model",
        killed_by=frozenset({"tools_round_trip"}),
        level=_FULL,
        reply=_drop_result,
    ),
    Fault(
        name="null_content_refused",
        title="a turn without content is refused",
        killed_by=frozenset({"tools_round_trip"}),
        level=_FULL,
        response=_refuse_null,
    ),
)
