"""One line of a user's file of requests, in any of the forms that are in use.

Called by :mod:`stoker.bench.trace`. Pure. A line is a JSON object with

* ``messages`` or ``prompt``, and any other fields of a request's body;
* ``body`` with such a request (a line of a batch), beside ``url`` and ``method``;
* ``conversations``: turns with ``from`` and ``value``;
* ``input_length``, ``output_length`` and ``hash_ids``: a trace without texts.

Any of them may say when it was sent: ``timestamp_ms`` in milliseconds, or ``timestamp``, which is
in seconds where there is a text and in milliseconds in a trace without texts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Never

from stoker.bench.requests import CHAT_PATH, COMPLETIONS_PATH, asked_of
from stoker.model.facts import Plain

#: Prompts of one block are the same where their ids are (the format's own figure).
BLOCK_TOKENS = 512
#: No engine holds more; a larger figure is a slip, and would be written out as text.
_MOST_TOKENS = 10_000_000
#: A moment in seconds since 1970 stays below it for three thousand years; milliseconds do not.
_MOST_SECONDS = 1e11
_PEOPLE = ("human", "user")
_MODELS = ("gpt", "assistant", "model", "bot", "chatgpt", "bing", "bard")
_PATHS = (CHAT_PATH, COMPLETIONS_PATH)


class BadLine(ValueError):
    """Why a line is no request, as half a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a person said in a recorded conversation, and the words of the answer to it."""

    text: str
    answer_characters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A request as it was recorded; ``number`` counts lines from 1.

    ``body``: what is sent, with the model and our own wishes still to come. ``said`` stands in its
    place for a conversation, ``prompt_tokens`` and ``blocks`` for a request without its text.
    ``at_seconds``: when it was sent, by the recorder's clock.
    """

    number: int
    path: str = CHAT_PATH
    body: Mapping[str, Plain] = field(default_factory=dict)
    said: tuple[Said, ...] = ()
    prompt_tokens: int = 0
    blocks: tuple[int, ...] = ()
    asked_tokens: int | None = None
    at_seconds: float | None = None


def parse_line(text: str, *, number: int) -> Line:
    """The request of one line. Raises BadLine."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # The place within the line is exact; its number would always be 1.
        reason = str(error).replace("line 1 ", "") if isinstance(error, ValueError) else "too deep"
        raise BadLine(f"it is not JSON ({reason})") from error
    if not isinstance(data, dict):
        raise BadLine("it is no JSON object")
    at_seconds = _take_moment(data)
    line = replace(_read_form(data, number), at_seconds=at_seconds)
    return line if line.asked_tokens else replace(line, asked_tokens=asked_of(line.body))


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON number")


def _take_moment(data: dict[str, Plain]) -> float | None:
    """When a request was sent, in seconds; its field is taken out."""
    has_texts = "input_length" not in data
    for name, scale in (("timestamp_ms", 1e-3), ("timestamp", 1.0 if has_texts else 1e-3)):
        if name not in data:
            continue
        value = data.pop(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise BadLine(f"{name} is a number that is not negative, not {_show(value)}")
        seconds = float(value) * scale if value < 1e300 else math.inf
        if seconds > _MOST_SECONDS:
            raise BadLine(f"{name} is {_show(value)}, too large; timestamp_ms is for milliseconds")
        return seconds
    return None


def _read_form(data: dict[str, Plain], number: int) -> Line:
    if "body" in data:
        return _read_batch(data, number)
    if "conversations" in data:
        return _read_conversation(data["conversations"], number)
    if "input_length" in data:
        return _read_lengths(data, number)
    return _read_body(data, number)


def _read_batch(data: Mapping[str, Plain], number: int) -> Line:
    body = data["body"]
    if not isinstance(body, dict):
        raise BadLine("body is no JSON object")
    path = data.get("url", CHAT_PATH if "messages" in body else COMPLETIONS_PATH)
    if path not in _PATHS:
        raise BadLine(f"url is one of {' and '.join(_PATHS)}, not {_show(path)}")
    line = _read_body(body, number)
    if line.path != path:
        raise BadLine(f"its body is none for {path}")
    return line


def _read_body(body: Mapping[str, Plain], number: int) -> Line:
    if "messages" in body:
        _check_messages(body["messages"])
        path = CHAT_PATH
    elif "prompt" in body:
        _check_prompt(body["prompt"])
        path = COMPLETIONS_PATH
    else:
        forms = "messages, prompt, body, conversations or input_length"
        raise BadLine(f"it has none of {forms}")
    for name in ("n", "best_of"):
        if body.get(name) not in (None, 1):
            raise BadLine(f"{name} is {_show(body[name])}; only one answer a request is measured")
    for name in ("max_tokens", "max_completion_tokens"):
        if body.get(name) is not None:
            _check_tokens(name, body[name])
    return Line(number=number, path=path, body=body)


def _check_messages(messages: Plain) -> None:
    if not isinstance(messages, list) or not messages:
        raise BadLine("messages is no list with at least one message")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadLine("a message is an object with a role")
        content = message.get("content")
        if not isinstance(content, str | list | None):
            raise BadLine(f"the content of a message is a text or a list, not {_show(content)}")


def _check_prompt(prompt: Plain) -> None:
    is_ids = isinstance(prompt, list) and all(type(each) is int for each in prompt)
    if not (isinstance(prompt, str) or is_ids) or not prompt:
        raise BadLine("prompt is a text, or a list of token ids, that is not empty")


def _read_conversation(turns: Plain, number: int) -> Line:
    if not isinstance(turns, list):
        raise BadLine("conversations is no list")
    first: list[Mapping[str, Plain]] = []
    said: list[Said] = []
    for turn in turns:
        speaker, text = _read_turn(turn)
        if speaker in _PEOPLE:
            said.append(Said(text=text))
        elif speaker in _MODELS and said and not said[-1].answer_characters:
            said[-1] = replace(said[-1], answer_characters=len(text))
        elif speaker == "system" and not said:
            first.append({"role": "system", "content": text})
        # What a model says before anybody asks, or twice, cannot be asked for.
        elif speaker not in _MODELS:
            known = ", ".join((*_PEOPLE, *_MODELS, "system"))
            raise BadLine(f"from is {_show(speaker)} in the conversation; known are {known}")
    if not said:
        raise BadLine("nobody asks anything in the conversation")
    return Line(number=number, body={"messages": first}, said=tuple(said))


def _read_turn(turn: Plain) -> tuple[str, str]:
    if not isinstance(turn, dict) or not isinstance(turn.get("value"), str):
        raise BadLine("a turn of a conversation is an object with from and value")
    return str(turn.get("from")).lower(), turn["value"]


def _read_lengths(data: Mapping[str, Plain], number: int) -> Line:
    prompt_tokens = _check_tokens("input_length", data["input_length"])
    asked_tokens = _check_tokens("output_length", data.get("output_length"))
    blocks = data.get("hash_ids", [])
    if not isinstance(blocks, list) or not all(type(each) is int and each >= 0 for each in blocks):
        raise BadLine("hash_ids is no list of numbers that are not negative")
    expected = -(-prompt_tokens // BLOCK_TOKENS)
    if blocks and len(blocks) != expected:
        raise BadLine(
            f"it has {len(blocks):,} hash_ids, and {prompt_tokens:,} tokens are {expected:,} blocks"
            f" of {BLOCK_TOKENS}"
        )
    return Line(
        number=number,
        prompt_tokens=prompt_tokens,
        blocks=tuple(blocks),
        asked_tokens=asked_tokens,
    )


def _check_tokens(name: str, value: Plain) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_TOKENS:
        raise BadLine(f"{name} is a whole number from 1 to {_MOST_TOKENS:,}, not {_show(value)}")
    return value


def count_characters(line: Line) -> int:
    """The characters of all texts that a line sends; 0 for a trace without texts."""
    prompt = line.body.get("prompt", "")
    messages: Sequence[Mapping[str, Plain]] = line.body.get("messages", ())
    contents = [message.get("content") for message in messages]
    texts = [each for each in (prompt, *contents) if isinstance(each, str)]
    return sum(map(len, texts)) + sum(len(each.text) for each in line.said)


def _show(value: Plain) -> str:
    shown = json.dumps(value, ensure_ascii=True, default=str)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
