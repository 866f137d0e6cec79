"""Broken promises of every reply: the list of models, the first answer, its stream and its counts.

Some of the wire itself stand at the end. :func:`edited` makes a change of JSON out of one that
works in place.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.script import Script
from stoker.fake_engine.values import DONE, Generated, Response, json_response

_CHAT = "/v1/chat/completions"
_MODELS = "/v1/models"
_FILE = "/models/x.gguf"
_MOVED = "/moved"

_NAMED = frozenset({"published_name"})
_ANSWER = frozenset({"chat_answer"})
_STREAM = frozenset({"stream_ends_done"})
_USAGE = frozenset({"usage_adds_up"})
_ALL = _NAMED | _ANSWER | _STREAM | _USAGE
_QUESTIONS = _ANSWER | _STREAM | _USAGE

Edit = Callable[[Data], object]


def edited(edit: Edit, *, path: str = _CHAT) -> Callable[[Data, Moment], Data]:
    """A hook for replies of one path: a copy of the JSON is changed in place."""

    def change(data: Data, moment: Moment) -> Data:
        if moment.path != path or ("error" in data and "choices" not in data):
            return data
        changed: Data = copy.deepcopy(data)
        edit(changed)
        return changed

    return change


def _listing(name: str, title: str, edit: Edit) -> Fault:
    return Fault(name=name, title=title, killed_by=_NAMED, reply=edited(edit, path=_MODELS))


def _plain(name: str, title: str, killed_by: frozenset[str], edit: Edit) -> Fault:
    return Fault(name=name, title=title, killed_by=killed_by, reply=edited(edit))


# --- the list of models ---


def _rename(data: Data) -> None:
    data["data"][0].update(id="other", aliases=["alias"])


def _hide_listing(response: Response, moment: Moment) -> Response:
    if moment.path != _MODELS:
        return response
    return json_response({"error": {"message": "File Not Found", "code": 404}}, 404)


def _named_after_file(script: Script) -> Script:
    return replace(script, names=(_FILE,))


_LISTINGS = (
    Fault(
        name="named_after_file",
        title="the model is listed and answers under the path of its file",
        killed_by=_NAMED,
        script=_named_after_file,
    ),
    _listing("another_name", "the model is listed under another name", _rename),
    _listing("no_models", "the list of models is empty", lambda data: data.update(data=[])),
    _listing("no_list", "the list of models is none", lambda data: data.pop("data")),
    Fault(
        name="list_not_found",
        title="404 for the list of models",
        killed_by=_NAMED,
        response=_hide_listing,
    ),
    _plain(
        "path_in_reply",
        "replies name the file of the model",
        _NAMED,
        lambda data: data.update(model=_FILE),
    ),
    _plain("no_name_in_reply", "replies name no model", _NAMED, lambda data: data.pop("model")),
)


# --- the answer, in both forms ---


def _saying(text: str, **more: Any) -> Callable[[Generated, Moment], Generated]:
    """The model says this instead, however much was asked for."""
    tokens = tuple(text.encode()[place : place + 4] for place in range(0, len(text), 4))

    def change(generated: Generated, moment: Moment) -> Generated:
        bare = replace(generated, reasoning=(), calls=(), logprobs=None)
        return replace(bare, content=tokens, **more)

    return change


def _ends(reason: str) -> Callable[[Generated, Moment], Generated]:
    return lambda generated, moment: replace(generated, finish_reason=reason)


def _spoil_bytes(wrong: bytes) -> Callable[[Response, Moment], Response]:
    """Bytes where the answer stands, in both forms of the reply."""

    def change(response: Response, moment: Moment) -> Response:
        if moment.path != _CHAT or response.status != 200:
            return response
        mark = b'"content":"'
        parts = tuple(
            replace(part, data=part.data.replace(mark, mark + wrong)) for part in response.parts
        )
        return replace(response, parts=parts)

    return change


_ANSWERS = (
    Fault(
        name="empty_answer",
        title="no text",
        killed_by=_QUESTIONS,
        answer=_saying("", has_end=False, finish_reason="stop"),
    ),
    Fault(
        name="one_character",
        title="one character over and over",
        killed_by=_ANSWER | _STREAM,
        answer=_saying("!!!! " * 6, finish_reason="length", has_end=False),
    ),
    Fault(
        name="nan",
        title="one character, and a note that says why",
        killed_by=_ANSWER | _STREAM,
        answer=_saying("!" * 24, extra={"matched_stop": "NaN happened"}),
    ),
    Fault(
        name="replaced_character",
        title="a character was lost before the text was written",
        killed_by=_ANSWER | _STREAM,
        answer=_saying("It is \ufffd now", finish_reason="stop"),
    ),
    Fault(
        name="half_character",
        title="a lone surrogate",
        killed_by=_ANSWER | _STREAM,
        response=_spoil_bytes(b"\\ud83d"),
    ),
    Fault(
        name="aborted",
        title="an unknown finish_reason",
        killed_by=_ANSWER | _STREAM,
        answer=_ends("abort"),
    ),
    Fault(
        name="not_utf8",
        title="bytes that are not UTF-8, in both forms",
        killed_by=_QUESTIONS,
        response=_spoil_bytes(b"m\xe4th \xf0\x9f\x98"),
    ),
)


# --- the plain reply ---


def _as_old_shape(data: Data) -> None:
    data.update(object="text_completion", choices=[{"text": "4"}])


def _in_parts(data: Data) -> None:
    data["choices"][0]["message"].update(content=[{"type": "text", "text": "4"}])


def _count_too_many(data: Data) -> None:
    wanted = 33
    prompt = data["usage"]["prompt_tokens"]
    data["usage"].update(completion_tokens=wanted, total_tokens=prompt + wanted)


_PLAIN = (
    _plain("another_shape", "the shape of the older completions", _ANSWER, _as_old_shape),
    _plain("no_id", "no id", _ANSWER, lambda data: data.pop("id")),
    _plain("no_choices", "no choices", _ANSWER, lambda data: data.update(choices=[])),
    _plain("content_in_parts", "content that is a list", _ANSWER, _in_parts),
    _plain(
        "another_role",
        "another role than assistant",
        _ANSWER,
        lambda data: data["choices"][0]["message"].update(role="user"),
    ),
    _plain(
        "no_finish_reason",
        "the plain reply has no finish_reason",
        _ANSWER,
        lambda data: data["choices"][0].update(finish_reason=None),
    ),
    _plain("no_usage", "no token counts", _USAGE, lambda data: data.pop("usage")),
    _plain(
        "usage_off_by_one",
        "token counts that do not add up",
        _USAGE,
        lambda data: data["usage"].update(total_tokens=1),
    ),
    _plain(
        "usage_as_text",
        "token counts that are texts",
        _USAGE,
        lambda data: data["usage"].update(completion_tokens="12"),
    ),
    _plain("too_many_tokens", "more tokens than asked for", _USAGE, _count_too_many),
    _plain(
        "nan_in_json",
        "a number that JSON does not have",
        _ANSWER | _USAGE,
        lambda data: data.update(timings={"predicted_ms": float("nan")}),
    ),
)


# --- the stream ---

Chunks = list[Data]


def _chunks(
    name: str, title: str, change: Callable[[Chunks], Chunks], killed_by: frozenset[str] = _STREAM
) -> Fault:
    def hook(chunks: Chunks, moment: Moment) -> Chunks:
        return change(copy.deepcopy(chunks)) if moment.path == _CHAT else chunks

    return Fault(name=name, title=title, killed_by=killed_by, chunks=hook)


def _events(name: str, title: str, change: Callable[[list[str]], list[str]]) -> Fault:
    def hook(events: list[str], moment: Moment) -> list[str]:
        return change(events) if moment.path == _CHAT else events

    return Fault(name=name, title=title, killed_by=_STREAM, events=hook)


def _as_plain(chunks: Chunks) -> Chunks:
    return [{**chunk, "object": "chat.completion"} for chunk in chunks]


def _without_ending(chunks: Chunks) -> Chunks:
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice["finish_reason"] = None
    return chunks


def _has_words(chunk: Data) -> bool:
    deltas = [choice["delta"] for choice in chunk["choices"]]
    return any(
        delta.get(key) for delta in deltas for key in ("content", "reasoning_content", "reasoning")
    )


def _without_words(chunks: Chunks) -> Chunks:
    for chunk in filter(_has_words, chunks):
        for choice in chunk["choices"]:
            choice["delta"] = {}
    return chunks


def _move_to_reasoning(chunks: Chunks) -> Chunks:
    for chunk in filter(_has_words, chunks):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            delta["reasoning_content"] = delta.pop("content", None)
    return chunks


def _miscount(chunks: Chunks) -> Chunks:
    for chunk in chunks:
        if chunk.get("usage"):
            chunk["usage"]["total_tokens"] = 1
    return chunks


def _not_streamed(response: Response, moment: Moment) -> Response:
    """The chunks joined to a plain reply, as a gateway does that knows no streams."""
    if not response.is_streamed or moment.path != _CHAT:
        return response
    events = [line[6:] for line in response.body.splitlines() if line.startswith(b"data: {")]
    text = "".join(
        choice["delta"].get("content") or ""
        for event in events
        for choice in json.loads(event)["choices"]
    )
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "model": moment.question.get("model")}
    usage = {"prompt_tokens": moment.prompt_tokens, "completion_tokens": 9}
    usage["total_tokens"] = sum(usage.values())
    return json_response({**body, "choices": [choice], "usage": usage})


def _break_off(response: Response, moment: Moment) -> Response:
    if not response.is_streamed or moment.path != _CHAT:
        return response
    return replace(response, parts=response.parts[:3], is_cut=True)


_STREAMS = (
    Fault(
        name="not_streamed",
        title="a plain reply when a stream was asked for",
        killed_by=_STREAM,
        response=_not_streamed,
    ),
    _events("no_events", "a stream without events", lambda events: []),
    _events("no_done", "no [DONE]", lambda events: events[:-1]),
    _events("done_twice", "two [DONE]", lambda events: [*events, DONE]),
    _events("text_after_done", "a chunk after [DONE]", lambda events: [*events, events[1]]),
    _events(
        "ends_early", "the stream stops in the middle, properly closed", lambda events: events[:3]
    ),
    Fault(
        name="breaks_off",
        title="the connection breaks in the middle of the stream",
        killed_by=_STREAM | _USAGE,
        response=_break_off,
    ),
    _events(
        "broken_event",
        "an event that is half a JSON object",
        lambda events: [events[0], events[1][:20], *events[2:]],
    ),
    _events(
        "error_event",
        "an event that tells of an error",
        lambda events: [events[0], '{"error": {"message": "out of memory"}}', DONE],
    ),
    _chunks("plain_chunks", "chunks that call themselves plain replies", _as_plain),
    _chunks("no_role", "no role in the first chunk", lambda chunks: chunks[1:]),
    _chunks("no_ending", "no chunk with a finish_reason", _without_ending),
    _chunks("no_words", "a stream of chunks without text", _without_words),
    _chunks(
        "other_field",
        "the stream puts into reasoning what is content in the plain reply",
        _move_to_reasoning,
    ),
    _chunks(
        "stream_usage_off_by_one",
        "token counts of the stream that do not add up",
        _miscount,
        _USAGE,
    ),
)


# --- every reply, and the wire ---

_LIMIT_BYTES = 8 << 20
_HUGE_BYTES = 100 << 20
_PIECE = b"a" * (1 << 16)
_DRIP_SECONDS = 0.02
_JSON_HEAD = {"Content-Type": "application/json; charset=utf-8"}
_CHUNKED = {"Transfer-Encoding": "chunked"}


def _server_error(response: Response, moment: Moment) -> Response:
    if moment.path != _CHAT:
        return response
    return json_response({"error": {"message": "Compute error.", "code": 500}}, 500)


def _too_many(after: str) -> Response:
    error = {"message": "Rate limit reached for requests", "type": "rate_limit_error", "code": 429}
    return json_response({"error": error}, 429, **{"Retry-After": after})


def _always_limited(response: Response, moment: Moment) -> Response:
    return _too_many("1") if moment.path == _CHAT else response


def _html_page(handler: Any) -> None:
    page = b"<!doctype html><html><body>Welcome to nginx!</body></html>"
    handler.send_head(200, {"Content-Type": "text/html", "Content-Length": str(len(page))})
    handler.wfile.write(page)


def _redirect(handler: Any) -> None:
    handler.send_head(307, {"Location": _MOVED + handler.path, "Content-Length": "0"})


@cache
def _make_bomb() -> bytes:
    """Made once: packing takes longer than any test that sends it."""
    return gzip.compress(bytes(_LIMIT_BYTES + 1), compresslevel=1)


def _packed(handler: Any) -> None:
    bomb = _make_bomb()
    head = {**_JSON_HEAD, "Content-Encoding": "gzip", "Content-Length": str(len(bomb))}
    handler.send_head(200, head)
    handler.wfile.write(bomb)


def _slow_drip(handler: Any) -> None:
    handler.send_head(200, {"Content-Type": "text/event-stream", **_CHUNKED})
    handler.write_chunks([b'data: {"half": true}\n\n'])
    while not handler.owner.is_stopping.wait(_DRIP_SECONDS):
        handler.write_chunks([b"x"])


def _endless(handler: Any) -> None:
    handler.send_head(200, {**_JSON_HEAD, **_CHUNKED})
    while not handler.owner.is_stopping.is_set():
        handler.write_chunks([_PIECE])


def _send_sized(handler: Any, size_bytes: int) -> None:
    handler.send_head(200, {**_JSON_HEAD, "Content-Length": str(size_bytes)})
    left = size_bytes
    while left > 0 and not handler.owner.is_stopping.is_set():
        handler.wfile.write(_PIECE[:left])
        left -= len(_PIECE)


def _never(handler: Any) -> None:
    """Until the client gives up or the server stops."""
    while not handler.owner.is_stopping.wait(_DRIP_SECONDS) and not handler.is_gone():
        pass


def _wire(name: str, title: str, wire: Callable[[Any], object]) -> Fault:
    return Fault(name=name, title=title, killed_by=_ALL, wire=wire)


_EVERYWHERE = (
    Fault(
        name="server_error",
        title="500 for every question",
        killed_by=_QUESTIONS,
        response=_server_error,
    ),
    Fault(
        name="rate_limited",
        title="429 for every question, however often it is asked",
        killed_by=_QUESTIONS,
        response=_always_limited,
    ),
    _wire("html_page", "an HTML page with status 200", _html_page),
    _wire("redirect", "a redirect to where the right reply is", _redirect),
    _wire("packed", "a small packed reply that unpacks to a large one", _packed),
    _wire("closes_at_once", "the connection is closed without a reply", lambda handler: None),
    _wire(
        "garbage",
        "bytes that are not HTTP",
        lambda handler: handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\x50"),
    ),
    _wire("slow_drip", "a byte now and then, for ever", _slow_drip),
    _wire("endless", "a reply that never ends", _endless),
    _wire(
        "too_large",
        "a reply above the limit",
        lambda handler: _send_sized(handler, _LIMIT_BYTES + 1),
    ),
    _wire("huge", "a reply of 100 MiB", lambda handler: _send_sized(handler, _HUGE_BYTES)),
    _wire("never_answers", "the connection is taken, and nothing comes", _never),
)

FAULTS = (*_LISTINGS, *_ANSWERS, *_PLAIN, *_STREAMS, *_EVERYWHERE)
