"""Reading the turn of a model that may call tools, from a plain reply or a streamed one.

Both forms become a :class:`Turn`, so that both are judged by the same words. In a stream a call
comes in pieces that belong together by their index: the first carries the id and the name, the
others only arguments. Pure and total: whatever a server sends is readable or a flaw.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.contract.completion import DONE, find_shape_flaw, join_answer, read_answer, read_chunks
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, Unknown, read_path

#: Where the engines put thoughts.
REASONING_FIELDS = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the server sent it; what is missing is None."""

    id: Plain = None
    type: Plain = None
    name: Plain = None
    arguments: Plain = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the model said and called. ``form`` names it in sentences: plain or streamed.

    ``flaw``: why the reply is none or its calls cannot be put together; nothing else counts then.
    ``reasoning_fields`` are those that hold text. ``completion_tokens`` and ``prompt_tokens`` are
    None where the server does not count.
    """

    form: str
    content: Plain = None
    reasoning: Plain = None
    reasoning_fields: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    finish_reason: Plain = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    flaw: Judgement | None = None

    @property
    def was_cut(self) -> bool:
        """Whether the token limit ended it."""
        return bool(self.finish_reason == "length")

    @property
    def text(self) -> str:
        """The content where it is text."""
        return self.content if isinstance(self.content, str) else ""

    @property
    def thoughts(self) -> str:
        """The reasoning where it is text."""
        return self.reasoning if isinstance(self.reasoning, str) else ""


def read_turn(exchange: Exchange) -> Turn:
    """The turn of a reply in either form."""
    if exchange.request.stream:
        return _read_stream(exchange)
    body = parse_json(exchange.body)
    flaw = find_reply_flaw(exchange) or find_shape_flaw(body, "chat.completion")
    message = _get(body, "choices.0.message")
    if flaw is None and not isinstance(message, dict):
        flaw = failed("a choice with a message", f"choices: {quote(_get(body, 'choices'))}")
    if flaw:
        return Turn(form="plain", flaw=flaw)
    answer = read_answer(body)
    calls = _get(message, "tool_calls")
    return Turn(
        form="plain",
        content=answer.content,
        reasoning=answer.reasoning,
        reasoning_fields=_find_reasoning_fields([message]),
        calls=_read_calls(calls),
        finish_reason=answer.finish_reason,
        prompt_tokens=read_prompt_tokens(body),
        completion_tokens=_read_count(body, "completion_tokens"),
        flaw=_find_list_flaw(calls),
    )


def _read_stream(exchange: Exchange) -> Turn:
    chunks = read_chunks(exchange.events)
    flaw = find_reply_flaw(exchange) or _find_stream_flaw(exchange, chunks)
    if flaw:
        return Turn(form="streamed", flaw=flaw)
    answer = join_answer(chunks)
    deltas = [_get(chunk, "choices.0.delta") for chunk in chunks]
    calls, flaw = join_calls([_get(delta, "tool_calls") for delta in deltas])
    return Turn(
        form="streamed",
        content=answer.content,
        reasoning=answer.reasoning,
        reasoning_fields=_find_reasoning_fields(deltas),
        calls=calls,
        finish_reason=answer.finish_reason,
        prompt_tokens=_find_first_count(map(read_prompt_tokens, chunks)),
        # Some count on in every chunk; the last count is that of the whole.
        completion_tokens=_find_first_count(
            _read_count(chunk, "completion_tokens") for chunk in reversed(chunks)
        ),
        flaw=flaw,
    )


def _find_stream_flaw(exchange: Exchange, chunks: Sequence[Plain]) -> Judgement | None:
    if not [event for event in exchange.events if event != DONE]:
        found = f"a plain reply: {quote(exchange.body)}" if exchange.body else "no event at all"
        return failed("a stream of events (text/event-stream)", found, "no_stream")
    return next(
        filter(None, (find_shape_flaw(each, "chat.completion.chunk") for each in chunks)), None
    )


def read_prompt_tokens(data: Plain | Unknown) -> int | None:
    """How many tokens the server says that the prompt had."""
    return _read_count(data, "prompt_tokens")


def _read_count(data: Plain | Unknown, name: str) -> int | None:
    count = _get(data, f"usage.{name}")
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def _find_first_count(counts: Iterable[int | None]) -> int | None:
    return next((count for count in counts if count is not None), None)


def _get(data: Plain | Unknown, path: str) -> Plain:
    value = read_path(data, path)
    return None if isinstance(value, Unknown) else value


def _find_reasoning_fields(holders: Sequence[Plain]) -> tuple[str, ...]:
    return tuple(
        name
        for name in REASONING_FIELDS
        if any(isinstance(text := _get(each, name), str) and text.strip() for each in holders)
    )


def _find_list_flaw(calls: Plain) -> Judgement | None:
    if calls is None or (isinstance(calls, list) and all(isinstance(each, dict) for each in calls)):
        return None
    found = f"tool_calls: {quote(calls)}"
    return failed("calls as a list of objects", found, "tool_calls_malformed")


def _read_calls(calls: Plain) -> tuple[Call, ...]:
    return tuple(map(_read_call, calls)) if isinstance(calls, list) else ()


def _read_call(data: Plain) -> Call:
    return Call(
        id=_get(data, "id"),
        type=_get(data, "type"),
        name=_get(data, "function.name"),
        arguments=_get(data, "function.arguments"),
    )


def join_calls(deltas: Sequence[Plain]) -> tuple[tuple[Call, ...], Judgement | None]:
    """The calls that the ``tool_calls`` of a stream's deltas join to, and what is wrong with them.

    What came up to the first flaw is joined.
    """
    calls: list[Call] = []
    for delta in deltas:
        flaw = _find_list_flaw(delta)
        if flaw:
            return tuple(calls), flaw
        for piece in delta or ():
            flaw = _find_piece_flaw(calls, piece)
            if flaw:
                return tuple(calls), flaw
            _add_piece(calls, piece)
    return tuple(calls), None


def _find_piece_flaw(calls: Sequence[Call], piece: Plain) -> Judgement | None:
    index = piece.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        found = f"the index {quote(index)}"
        return failed("a number as the index of each piece of a call", found, "tool_index_missing")
    call = _read_call(piece)
    if not isinstance(call.arguments, (str, type(None))):
        found = f"{quote(call.arguments)} in the stream"
        return failed("arguments as text", found, "tool_arguments_not_text")
    return _find_place_flaw(calls, index, call)


def _find_place_flaw(calls: Sequence[Call], index: int, call: Call) -> Judgement | None:
    """The pieces of a call: its id and its name in the first one and in no other."""
    if not 0 <= index <= len(calls):
        expected = f"the index {len(calls)} for the next call of the stream"
        return failed(expected, f"the index {index}", "tool_index_wrong", index=index)
    if index == len(calls):
        if calls and not call.name and not call.id:
            found = f"a piece of a call with the index {index}, which has not begun"
            return failed("pieces with the index of their call", found, "tool_index_wrong")
        missing = [field for field in ("id", "name") if not getattr(call, field)]
        if missing:
            found = f"no {' and no '.join(missing)}: {quote(_show(call))}"
            symptom = f"tool_{'call_' if missing[0] == 'id' else ''}{missing[0]}_missing"
            return failed("an id and a name in the first piece of a call", found, symptom)
        return None
    begun = calls[index]
    expected = "an id and a name in the first piece of a call and in no other"
    if call.id and call.id != begun.id:
        found = f"the id {quote(begun.id)}, then {quote(call.id)} for the same index"
        return failed(expected, found, "tool_call_id_changed")
    if call.id:
        found = f"the id {quote(call.id)} again"
        return failed(expected, found, "tool_call_id_repeated")
    if call.name:
        found = f"the name {quote(begun.name)}, then {quote(call.name)}"
        return failed(expected, found, "tool_name_repeated")
    return None


def _add_piece(calls: list[Call], piece: Plain) -> None:
    call, index = _read_call(piece), piece["index"]
    if index == len(calls):
        calls.append(
            Call(id=call.id, type=call.type, name=call.name, arguments=call.arguments or "")
        )
        return
    begun = calls[index]
    calls[index] = Call(
        id=begun.id,
        type=begun.type,
        name=begun.name,
        arguments=begun.arguments + (call.arguments or ""),
    )


def _show(call: Call) -> Plain:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def read_arguments(call: Call) -> Mapping[str, Plain] | Judgement:
    """The arguments of a call as an object, or why they are none."""
    if not isinstance(call.arguments, str):
        found = f"data that is no text: {quote(call.arguments)}"
        return failed("arguments as the text of a JSON object", found, "tool_arguments_not_text")
    data = parse_json(call.arguments)
    expected = f"arguments of {quote(call.name)} that are a JSON object"
    if isinstance(data, Unknown):
        return failed(expected, data.reason, "tool_arguments_not_json")
    if isinstance(data, dict):
        return data
    if isinstance(data, str) and isinstance(parse_json(data), dict):
        found = f"an object that was made text twice: {quote(call.arguments)}"
        return failed(expected, found, "tool_arguments_encoded_twice")
    found = f"JSON, but no object: {quote(call.arguments)}"
    return failed(expected, found, "tool_arguments_not_object")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def find_mismatch(value: Plain, schema: Mapping[str, Plain], path: str = "arguments") -> str:
    """Where data does not fit a JSON schema, as half a sentence; empty where it fits.

    Knows what the schemas of the checks use: type, enum, properties, required,
    additionalProperties (as false), items, minItems and maxItems.
    """
    if "enum" in schema and value not in schema["enum"]:
        return f"{path} is {quote(value)}, not one of {_list_values(schema['enum'])}"
    kind = schema.get("type")
    if kind and not _is_a(value, kind):
        return f"{path} is {quote(value)}, no {kind}"
    if isinstance(value, dict):
        return _find_object_mismatch(value, schema, path)
    if isinstance(value, list):
        return _find_array_mismatch(value, schema, path)
    return ""


def _is_a(value: Plain, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _list_values(values: Sequence[Plain]) -> str:
    return quote(json.dumps(values, ensure_ascii=False)[1:-1])


def _find_object_mismatch(value: Plain, schema: Mapping[str, Plain], path: str) -> str:
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{path} has no {', '.join(missing)}: {quote(value)}"
    unknown = [name for name in value if name not in properties]
    if unknown and schema.get("additionalProperties") is False:
        return f"{path} has {quote(unknown[0])}, which the tool does not know: {quote(value)}"
    inner = (
        find_mismatch(value[name], properties[name], f"{path}.{name}")
        for name in properties
        if name in value
    )
    return next(filter(None, inner), "")


def _find_array_mismatch(value: Plain, schema: Mapping[str, Plain], path: str) -> str:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        return f"{path} has {len(value)} items, not {least} to {most}"
    items = schema.get("items", {})
    inner = (find_mismatch(each, items, f"{path}.{n}") for n, each in enumerate(value))
    return next(filter(None, inner), "")
