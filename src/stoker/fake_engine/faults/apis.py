"""Broken promises of the interfaces beside chat, and of what a client library reads.

Those that ``openai_client`` kills are seen through the library alone: a trial needs its door.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stoker.fake_engine.changing import change_choices, say_within_limit
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.values import DONE, Generated, Part, Response

_FULL = "full"
_CHAT = "/v1/chat/completions"
_COMPLETIONS = "/v1/completions"
_RESPONSES = "/v1/responses"
_MESSAGES = "/v1/messages"

_KILLERS = {
    _COMPLETIONS: "completions_api",
    _RESPONSES: "responses_api",
    _MESSAGES: "messages_api",
    _CHAT: "openai_client",
}

_PROSE = "The tale goes on and on until the end of the day."
_HOURS = 3 * 3600.0
#: As many tokens as a template puts around a turn.
_TEMPLATE_TOKENS = 24
_FIXED_TOKENS = 40

Change = Callable[[Data], Data]
ChangeAll = Callable[[list[Data]], list[Data]]


def _fault(path: str, name: str, title: str, **hooks: Any) -> Fault:
    killers = frozenset({_KILLERS[path]})
    return Fault(name=name, title=title, killed_by=killers, level=_FULL, **hooks)


def _reply(path: str, change: Change) -> Callable[[Data, Moment], Data]:
    """Plain replies of this path, changed; refusals are left alone."""

    def reply(data: Data, moment: Moment) -> Data:
        return change(data) if moment.path == path and not data.get("error") else data

    return reply


def _chunks(path: str, change: ChangeAll) -> Callable[[list[Data], Moment], list[Data]]:
    """The events of this path's streams, changed."""

    def chunks(found: list[Data], moment: Moment) -> list[Data]:
        return change(found) if moment.path == path else found

    return chunks


def _each(change: Change) -> ChangeAll:
    return lambda chunks: [change(chunk) for chunk in chunks]


def _without_kind(*kinds: str) -> ChangeAll:
    return lambda chunks: [chunk for chunk in chunks if chunk.get("type") not in kinds]


def _lose_piece(kind: str) -> ChangeAll:
    """The second piece of a text does not arrive."""

    def lose(chunks: list[Data]) -> list[Data]:
        places = [place for place, chunk in enumerate(chunks) if chunk.get("type") == kind]
        lost = places[1:2]
        return [chunk for place, chunk in enumerate(chunks) if place not in lost]

    return lose


def _late(kind: str) -> ChangeAll:
    """The first event of a kind comes one later than it should."""

    def swap(chunks: list[Data]) -> list[Data]:
        place = next((n for n, chunk in enumerate(chunks) if chunk.get("type") == kind), None)
        if place is None or place + 1 >= len(chunks):
            return chunks
        early = chunks[place + 1]
        return [*chunks[:place], early, chunks[place], *chunks[place + 2 :]]

    return swap


def _put(**fields: Any) -> Change:
    return lambda data: {**data, **fields}


def _drop(name: str) -> Change:
    return lambda data: {key: value for key, value in data.items() if key != name}


# --- /v1/completions ---


def _as_message(data: Data) -> Data:
    def change(choice: Data) -> Data:
        rest = _drop("text")(choice)
        return {**rest, "message": {"role": "assistant", "content": choice.get("text")}}

    return change_choices(data, change)


def _with_mark(data: Data) -> Data:
    return change_choices(data, lambda choice: {**choice, "text": f"{choice['text']}<|im_end|>"})


def _in_template(generated: Generated, moment: Moment) -> Generated:
    if moment.path != _COMPLETIONS:
        return generated
    return replace(generated, prompt_tokens=generated.prompt_tokens + _TEMPLATE_TOKENS)


def _without_stops(generated: Generated, moment: Moment) -> Generated:
    if moment.path != _COMPLETIONS or not moment.question.get("stop"):
        return generated
    return say_within_limit(generated, _PROSE, moment)


def _without_done(events: list[str], moment: Moment) -> list[str]:
    is_ours = moment.path == _COMPLETIONS
    return [event for event in events if event != DONE] if is_ours else events


# --- /v1/responses ---


def _as_chat(data: Data) -> Data:
    choice = {"index": 0, "message": {"role": "assistant", "content": "4"}}
    return {**_drop("output")(data), "object": "chat.completion", "choices": [choice]}


def _change_items(change: Change) -> Change:
    return lambda data: {**data, "output": [change(item) for item in data.get("output", ())]}


def _as_plain_text(item: Data) -> Data:
    parts = [{**part, "type": "text"} for part in item.get("content") or ()]
    return {**item, "content": parts} if item.get("type") == "message" else item


def _without_call_id(item: Data) -> Data:
    return _drop("call_id")(item) if item.get("type") == "function_call" else item


def _swap_usage_names(data: Data) -> Data:
    usage = data.get("usage") or {}
    names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    return {**data, "usage": {names.get(key, key): value for key, value in usage.items()}}


# --- /v1/messages ---


def _flatten(data: Data) -> Data:
    texts = [str(block.get("text", "")) for block in data.get("content", ())]
    return {**data, "content": "".join(texts)}


def _openai_reason(data: Data) -> Data:
    names = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
    return {**data, "stop_reason": names.get(data["stop_reason"], data["stop_reason"])}


def _always_ended(data: Data) -> Data:
    return {**data, "stop_reason": "end_turn"}


def _input_as_text(data: Data) -> Data:
    def change(block: Data) -> Data:
        is_call = block.get("type") == "tool_use"
        return {**block, "input": str(block["input"])} if is_call else block

    return {**data, "content": [change(block) for block in data["content"]]}


def _one_index(chunk: Data) -> Data:
    return {**chunk, "index": 1} if "index" in chunk else chunk


def _without_system(generated: Generated, moment: Moment) -> Generated:
    if moment.path != _MESSAGES or not moment.question.get("system"):
        return generated
    return replace(generated, prompt_tokens=_FIXED_TOKENS, cached_tokens=0)


# --- what the openai library reads ---


def _no_choices(data: Data) -> Data:
    return data if data.get("choices") else {**data, "choices": None}


def _null_choices(chunks: list[Data]) -> list[Data]:
    """One more chunk at the end that has none."""
    return [*map(_no_choices, chunks), {**chunks[-1], "choices": None}]


def _table_arguments(chunks: list[Data]) -> list[Data]:
    """The first piece of arguments is null, the others are objects."""
    is_first = True
    found = []
    for chunk in chunks:
        changed = json.loads(json.dumps(chunk))
        for call in _calls_of(changed):
            call["function"]["arguments"] = None if is_first else {"city": "Paris"}
            is_first = False
        found.append(changed)
    return found


def _calls_of(chunk: Data) -> Sequence[Data]:
    choices = chunk.get("choices") or ()
    return [call for choice in choices for call in choice.get("delta", {}).get("tool_calls") or ()]


def _usage_as_text(data: Data) -> Data:
    usage = {key: f"{value} tokens" for key, value in (data.get("usage") or {}).items()}
    return {**data, "usage": usage}


def _bare_names(data: Data, moment: Moment) -> Data:
    if moment.path != "/v1/models":
        return data
    return {**data, "data": [model.get("id") for model in data.get("data", ())]}


def _is_refusal(response: Response, moment: Moment) -> bool:
    return moment.path == _CHAT and 400 <= response.status < 500


def _error_page(response: Response, moment: Moment) -> Response:
    if not _is_refusal(response, moment):
        return response
    page = response.with_body(b"<html><body><h1>400 Bad Request</h1></body></html>")
    return page.with_header("Content-Type", "text/html")


def _server_error(response: Response, moment: Moment) -> Response:
    return replace(response, status=500) if _is_refusal(response, moment) else response


def _hang(response: Response, moment: Moment) -> Response:
    """Neither [DONE] nor the end of the stream ever comes."""
    if moment.path != _CHAT or not response.is_streamed:
        return response
    kept = [part for part in response.parts if DONE.encode() not in part.data]
    return replace(response, parts=(*kept, Part(data=b": wait\n\n", after_seconds=_HOURS)))


_TEXT_DELTA = "response.output_text.delta"

FAULTS = (
    _fault(
        _COMPLETIONS,
        "completion_as_message",
        "the text of /v1/completions stands in a message",
        reply=_reply(_COMPLETIONS, _as_message),
        chunks=_chunks(_COMPLETIONS, _each(_as_message)),
    ),
    _fault(
        _COMPLETIONS,
        "completion_in_template",
        "the prompt of /v1/completions is put into the chat template",
        answer=_in_template,
    ),
    _fault(
        _COMPLETIONS,
        "completion_chat_mark",
        "the text of /v1/completions shows the end of a turn",
        reply=_reply(_COMPLETIONS, _with_mark),
    ),
    _fault(
        _COMPLETIONS,
        "completion_stop_ignored",
        "/v1/completions does not heed stop strings",
        answer=_without_stops,
    ),
    _fault(
        _COMPLETIONS,
        "completion_no_done",
        "streams of /v1/completions do not end in [DONE]",
        events=_without_done,
    ),
    _fault(
        _COMPLETIONS,
        "completion_no_usage",
        "/v1/completions counts no tokens",
        reply=_reply(_COMPLETIONS, _drop("usage")),
    ),
    _fault(
        _RESPONSES,
        "response_no_usage",
        "/v1/responses counts no tokens",
        reply=_reply(_RESPONSES, _put(usage=None)),
    ),
    _fault(
        _RESPONSES,
        "response_chat_usage",
        "/v1/responses counts under the names of chat",
        reply=_reply(_RESPONSES, _swap_usage_names),
    ),
    _fault(
        _RESPONSES,
        "response_as_chat",
        "/v1/responses answers in the shape of chat",
        reply=_reply(_RESPONSES, _as_chat),
    ),
    _fault(
        _RESPONSES,
        "response_plain_text",
        "parts of messages of /v1/responses are no output_text",
        reply=_reply(_RESPONSES, _change_items(_as_plain_text)),
    ),
    _fault(
        _RESPONSES,
        "response_never_done",
        "the status of /v1/responses stays in_progress",
        reply=_reply(_RESPONSES, _put(status="in_progress")),
    ),
    _fault(
        _RESPONSES,
        "response_call_without_id",
        "calls of functions of /v1/responses have no call_id",
        reply=_reply(_RESPONSES, _change_items(_without_call_id)),
    ),
    _fault(
        _RESPONSES,
        "response_piece_lost",
        "a piece of a streamed text of /v1/responses is lost",
        chunks=_chunks(_RESPONSES, _lose_piece(_TEXT_DELTA)),
    ),
    _fault(
        _RESPONSES,
        "response_argument_lost",
        "a piece of a call's arguments of /v1/responses is lost",
        chunks=_chunks(_RESPONSES, _lose_piece("response.function_call_arguments.delta")),
    ),
    _fault(
        _RESPONSES,
        "response_late_item",
        "pieces of /v1/responses come before the item that they belong to",
        chunks=_chunks(
            _RESPONSES,
            lambda chunks: _late("response.output_item.added")(
                _without_kind("response.content_part.added")(chunks)
            ),
        ),
    ),
    _fault(
        _RESPONSES,
        "response_no_completed",
        "streams of /v1/responses end without response.completed",
        chunks=_chunks(_RESPONSES, lambda chunks: chunks[:-1]),
    ),
    _fault(
        _RESPONSES,
        "response_numbers_stand",
        "the sequence numbers of /v1/responses do not count",
        chunks=_chunks(_RESPONSES, _each(_put(sequence_number=0))),
    ),
    _fault(
        _MESSAGES,
        "message_as_text",
        "the content of /v1/messages is a text",
        reply=_reply(_MESSAGES, _flatten),
    ),
    _fault(
        _MESSAGES,
        "message_openai_reason",
        "/v1/messages names the reasons of OpenAI's interface",
        reply=_reply(_MESSAGES, _openai_reason),
    ),
    _fault(
        _MESSAGES,
        "message_never_cut",
        "/v1/messages says end_turn where the limit ended an answer",
        reply=_reply(_MESSAGES, _always_ended),
    ),
    _fault(
        _MESSAGES,
        "message_no_usage",
        "/v1/messages counts no tokens",
        reply=_reply(_MESSAGES, _drop("usage")),
    ),
    _fault(
        _MESSAGES,
        "message_input_as_text",
        "the input of a call of /v1/messages is a text",
        reply=_reply(_MESSAGES, _input_as_text),
    ),
    _fault(
        _MESSAGES,
        "message_system_lost",
        "the system prompt of /v1/messages does not reach the model",
        answer=_without_system,
    ),
    _fault(
        _MESSAGES,
        "message_no_stop",
        "streams of /v1/messages end without message_stop",
        chunks=_chunks(_MESSAGES, _without_kind("message_stop")),
    ),
    _fault(
        _MESSAGES,
        "message_no_block_stop",
        "blocks of streams of /v1/messages are not closed",
        chunks=_chunks(_MESSAGES, _without_kind("content_block_stop")),
    ),
    _fault(
        _MESSAGES,
        "message_late_start",
        "pieces of /v1/messages come before their block begins",
        chunks=_chunks(_MESSAGES, _late("content_block_start")),
    ),
    _fault(
        _MESSAGES,
        "message_one_index",
        "blocks of /v1/messages do not count from 0",
        chunks=_chunks(_MESSAGES, _each(_one_index)),
    ),
    _fault(
        _CHAT,
        "client_choices_null",
        "a chunk of a stream has null as choices",
        chunks=_chunks(_CHAT, _null_choices),
    ),
    _fault(
        _CHAT,
        "client_created_text",
        "the time of a reply is a word",
        reply=_reply(_CHAT, _put(created="yesterday")),
    ),
    _fault(
        _CHAT,
        "client_usage_text",
        "token counts are texts",
        reply=_reply(_CHAT, _usage_as_text),
    ),
    _fault(
        _CHAT,
        "client_argument_objects",
        "streamed arguments of a call are null and then objects",
        chunks=_chunks(_CHAT, _table_arguments),
    ),
    _fault(
        _CHAT,
        "client_bare_models",
        "the list of models holds bare names",
        reply=_bare_names,
    ),
    _fault(
        _CHAT,
        "client_error_page",
        "refusals of a chat are web pages",
        response=_error_page,
    ),
    _fault(
        _CHAT,
        "client_server_error",
        "wrong chat requests are answered as the server's own error",
        response=_server_error,
    ),
    _fault(
        _CHAT,
        "client_stream_hangs",
        "streams of chats never end, nor say that they are done",
        response=_hang,
    ),
)
