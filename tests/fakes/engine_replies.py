"""What an engine replies, as values: correct by default, with one fault per broken promise.

The shapes are those of llama.cpp's OpenAI interface (recorded ones lie under
tests/contract/recorded). :mod:`tests.fakes.engine_server` sends them; tests of judges use them
without any server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

Data = dict[str, Any]
DONE = "[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine with one model, which answers every question with ``text``.

    A word and the space behind it are one token. ``extra`` is put into every choice that ends.
    """

    names: tuple[str, ...] = ("smollm2",)
    text: str = "The answer to this classic math problem is 4."
    reasoning: str = ""
    finish_reason: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    prompt_tokens: int = 37


def split_tokens(text: str) -> list[str]:
    """The text in pieces that join to it."""
    return re.findall(r"\S+\s*|\s+", text)


def list_models(engine: Engine) -> Data:
    """The reply of /v1/models."""
    return {
        "object": "list",
        "data": [
            {"id": name, "aliases": [name], "object": "model", "owned_by": "llamacpp"}
            for name in engine.names
        ],
    }


def _answer(engine: Engine, question: Data) -> tuple[list[str], list[str], str]:
    """The tokens of the reasoning and of the content, and how they end."""
    limit = question.get("max_tokens", 1 << 20)
    thoughts, words = split_tokens(engine.reasoning), split_tokens(engine.text)
    ending = "stop" if len(thoughts) + len(words) <= limit else "length"
    thoughts = thoughts[:limit]
    return thoughts, words[: limit - len(thoughts)], engine.finish_reason or ending


def _usage(engine: Engine, completion_tokens: int) -> Data:
    return {
        "completion_tokens": completion_tokens,
        "prompt_tokens": engine.prompt_tokens,
        "total_tokens": engine.prompt_tokens + completion_tokens,
    }


def complete(engine: Engine, question: Data) -> Data:
    """The plain reply of /v1/chat/completions."""
    thoughts, words, ending = _answer(engine, question)
    message = {"role": "assistant", "content": "".join(words)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    return {
        "choices": [{"finish_reason": ending, "index": 0, "message": message, **engine.extra}],
        "created": 1795981634,
        "model": engine.names[0],
        "object": "chat.completion",
        "usage": _usage(engine, len(thoughts) + len(words)),
        "id": "chatcmpl-tgIWczX20fMuGjF7IACNEiR8onwbEePL",
    }


def complete_in_chunks(engine: Engine, question: Data) -> list[Data]:
    """The chunks of the streamed reply, the closing [DONE] left out."""
    thoughts, words, ending = _answer(engine, question)

    def chunk(delta: Data, finish_reason: str | None = None, **more: Any) -> Data:
        return {
            "choices": [{"finish_reason": finish_reason, "index": 0, "delta": delta, **more}],
            "created": 1795981634,
            "id": "chatcmpl-pkQMHd1wCnol0psU5LELrHq8Vy5pBxB5",
            "model": engine.names[0],
            "object": "chat.completion.chunk",
        }

    usage = _usage(engine, len(thoughts) + len(words))
    with_usage = question.get("stream_options", {}).get("include_usage")
    return [
        chunk({"role": "assistant", "content": None}),
        *(chunk({"reasoning_content": thought}) for thought in thoughts),
        *(chunk({"content": word}) for word in words),
        chunk({}, ending, **engine.extra),
        *([{**chunk({}), "choices": [], "usage": usage}] if with_usage else []),
    ]


def write_events(chunks: list[Data]) -> list[str]:
    """The data of the events of a stream."""
    return [*(json.dumps(chunk, ensure_ascii=False) for chunk in chunks), DONE]


class Fault(Enum):
    """One switch per broken promise."""

    # the list of models
    NAMED_AFTER_FILE = "the model is listed and answers under the path of its file"
    ANOTHER_NAME = "the model is listed under another name"
    NO_MODELS = "the list of models is empty"
    NO_LIST = "the list of models is none"
    LIST_NOT_FOUND = "404 for the list of models"
    PATH_IN_REPLY = "replies name the file of the model"
    NO_NAME_IN_REPLY = "replies name no model"
    # the answer, in both forms
    EMPTY_ANSWER = "no text"
    ONE_CHARACTER = "one character over and over"
    NAN = "one character, and a note that says why"
    REPLACED_CHARACTER = "a character was lost before the text was written"
    HALF_CHARACTER = "a lone surrogate"
    ABORTED = "an unknown finish_reason"
    # the plain reply
    ANOTHER_SHAPE = "the shape of the older completions"
    NO_ID = "no id"
    NO_CHOICES = "no choices"
    CONTENT_IN_PARTS = "content that is a list"
    ANOTHER_ROLE = "another role than assistant"
    NO_FINISH_REASON = "the plain reply has no finish_reason"
    NO_USAGE = "no token counts"
    USAGE_OFF_BY_ONE = "token counts that do not add up"
    USAGE_AS_TEXT = "token counts that are texts"
    TOO_MANY_TOKENS = "more tokens than asked for"
    NAN_IN_JSON = "a number that JSON does not have"
    NOT_UTF8 = "bytes that are not UTF-8, in both forms"
    # the stream
    NOT_STREAMED = "a plain reply when a stream was asked for"
    NO_EVENTS = "a stream without events"
    NO_DONE = "no [DONE]"
    DONE_TWICE = "two [DONE]"
    TEXT_AFTER_DONE = "a chunk after [DONE]"
    ENDS_EARLY = "the stream stops in the middle, properly closed"
    BREAKS_OFF = "the connection breaks in the middle of the stream"
    BROKEN_EVENT = "an event that is half a JSON object"
    ERROR_EVENT = "an event that tells of an error"
    PLAIN_CHUNKS = "chunks that call themselves plain replies"
    NO_ROLE = "no role in the first chunk"
    NO_ENDING = "no chunk with a finish_reason"
    NO_WORDS = "a stream of chunks without text"
    OTHER_FIELD = "the stream puts into reasoning what is content in the plain reply"
    STREAM_USAGE_OFF_BY_ONE = "token counts of the stream that do not add up"
    # every reply
    HTML_PAGE = "an HTML page with status 200"
    SERVER_ERROR = "500 for every question"
    REDIRECT = "a redirect to where the right reply is"
    PACKED = "a small packed reply that unpacks to a large one"
    CLOSES_AT_ONCE = "the connection is closed without a reply"
    GARBAGE = "bytes that are not HTTP"
    SLOW_DRIP = "a byte now and then, for ever"
    ENDLESS = "a reply that never ends"
    TOO_LARGE = "a reply above the limit"


def _change(**values: Any) -> Callable[[Engine], Engine]:
    return lambda engine: replace(engine, **values)


#: What happens in the engine shows in both forms of the reply.
ENGINE_FAULTS: dict[Fault, Callable[[Engine], Engine]] = {
    Fault.NAMED_AFTER_FILE: _change(names=("/models/x.gguf",)),
    Fault.EMPTY_ANSWER: _change(text=""),
    Fault.ONE_CHARACTER: _change(text="!!!! " * 8),
    Fault.NAN: _change(text="!" * 32, extra={"matched_stop": "NaN happened"}),
    Fault.REPLACED_CHARACTER: _change(text="The answer is \ufffd."),
    Fault.ABORTED: _change(finish_reason="abort"),
}


def _edit(edit: Callable[[Data], object]) -> Callable[[Data], Data]:
    def apply(data: Data) -> Data:
        copy: Data = json.loads(json.dumps(data))
        edit(copy)
        return copy

    return apply


LISTING_FAULTS: dict[Fault, Callable[[Data], Data]] = {
    Fault.ANOTHER_NAME: _edit(lambda data: data["data"][0].update(id="other", aliases=["alias"])),
    Fault.NO_MODELS: _edit(lambda data: data.update(data=[])),
    Fault.NO_LIST: _edit(lambda data: data.pop("data")),
}

COMPLETION_FAULTS: dict[Fault, Callable[[Data], Data]] = {
    Fault.PATH_IN_REPLY: _edit(lambda data: data.update(model="/models/x.gguf")),
    Fault.NO_NAME_IN_REPLY: _edit(lambda data: data.pop("model")),
    Fault.ANOTHER_SHAPE: _edit(
        lambda data: data.update(object="text_completion", choices=[{"text": "4"}])
    ),
    Fault.NO_ID: _edit(lambda data: data.pop("id")),
    Fault.NO_CHOICES: _edit(lambda data: data.update(choices=[])),
    Fault.CONTENT_IN_PARTS: _edit(
        lambda data: data["choices"][0]["message"].update(content=[{"type": "text", "text": "4"}])
    ),
    Fault.ANOTHER_ROLE: _edit(lambda data: data["choices"][0]["message"].update(role="user")),
    Fault.NO_FINISH_REASON: _edit(lambda data: data["choices"][0].update(finish_reason=None)),
    Fault.NO_USAGE: _edit(lambda data: data.pop("usage")),
    Fault.USAGE_OFF_BY_ONE: _edit(lambda data: data["usage"].update(total_tokens=1)),
    Fault.USAGE_AS_TEXT: _edit(lambda data: data["usage"].update(completion_tokens="12")),
    Fault.TOO_MANY_TOKENS: _edit(
        lambda data: data["usage"].update(completion_tokens=33, total_tokens=70)
    ),
    Fault.NAN_IN_JSON: _edit(lambda data: data.update(timings={"predicted_ms": float("nan")})),
}


def _move_to_reasoning(chunks: list[Data]) -> list[Data]:
    moved: list[Data] = json.loads(json.dumps(chunks))
    for chunk in moved:
        for choice in chunk["choices"]:
            content = choice["delta"].pop("content", None)
            choice["delta"] |= {} if content is None else {"reasoning_content": content}
    return moved


CHUNK_FAULTS: dict[Fault, Callable[[list[Data]], list[Data]]] = {
    Fault.PLAIN_CHUNKS: lambda chunks: [{**c, "object": "chat.completion"} for c in chunks],
    Fault.NO_ROLE: lambda chunks: chunks[1:],
    Fault.NO_ENDING: lambda chunks: [*chunks[:-2], chunks[-1]],
    Fault.NO_WORDS: lambda chunks: [chunks[0], *chunks[-2:]],
    Fault.OTHER_FIELD: _move_to_reasoning,
    Fault.STREAM_USAGE_OFF_BY_ONE: lambda chunks: [
        *chunks[:-1],
        {**chunks[-1], "usage": {**chunks[-1]["usage"], "total_tokens": 1}},
    ],
}

EVENT_FAULTS: dict[Fault, Callable[[list[str]], list[str]]] = {
    Fault.NO_EVENTS: lambda events: [],
    Fault.NO_DONE: lambda events: events[:-1],
    Fault.DONE_TWICE: lambda events: [*events, DONE],
    Fault.TEXT_AFTER_DONE: lambda events: [*events, events[1]],
    Fault.ENDS_EARLY: lambda events: events[:3],
    Fault.BROKEN_EVENT: lambda events: [events[0], events[1][:20], *events[2:]],
    Fault.ERROR_EVENT: lambda events: [events[0], '{"error": {"message": "out of memory"}}', DONE],
}
