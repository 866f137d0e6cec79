"""Reading replies of Anthropic's /v1/messages: content blocks, and the events of a stream.

The check of that interface uses it. Pure and total. The types of a stream's events stand in their
data as well as in their names, which are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.apis import (
    Object,
    find_stream_flaw,
    find_words_flaw,
    is_count,
    read_events,
    read_items,
    read_object,
    read_text_at,
)
from stoker.contract.completion import has_text
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, Unknown, read_path

#: Of an answer without stop sequences; with a call of a tool there is one more.
_STOP_REASONS = ("end_turn", "max_tokens")
_TOOL_REASON = "tool_use"

_STOP = "message_stop"

#: All parts of the prompt; what came from a cache is not in the first of them.
_PROMPT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

#: The pieces that a block of each type may get, by the field that holds the text of the piece.
_PIECES = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "redacted_thinking": {},
    "tool_use": {"input_json_delta": "partial_json"},
}

#: A model may be done a little before the limit, and an engine may not count its last token.
_NEAR_LIMIT_TOKENS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message, the same from a plain reply and from the events of a stream.

    ``blocks`` are the content blocks; of a streamed call the input is
    a text where it is no JSON.
    """

    blocks: tuple[Object, ...]
    stop_reason: Plain
    prompt_tokens: int
    output_tokens: int

    @property
    def text(self) -> str:
        """The text of all text blocks."""
        return "".join(read_text_at(block, "text") for block in self._blocks("text"))

    @property
    def thoughts(self) -> str:
        """What stands in thinking blocks."""
        return "".join(read_text_at(block, "thinking") for block in self._blocks("thinking"))

    @property
    def calls(self) -> Sequence[Object]:
        """The calls of tools."""
        return self._blocks("tool_use")

    def _blocks(self, kind: str) -> Sequence[Object]:
        return [block for block in self.blocks if block.get("type") == kind]


def read_message(exchange: Exchange) -> Message:
    """What a reply says; only to be called on one without a flaw."""
    if exchange.request.stream:
        return _read_stream(read_events(exchange))
    body = read_object(exchange)
    return Message(
        blocks=tuple(read_items(body, "content")),
        stop_reason=body.get("stop_reason"),
        prompt_tokens=_count_prompt(body.get("usage")),
        output_tokens=_count(read_path(body, "usage.output_tokens")),
    )


def _read_stream(events: Sequence[Object]) -> Message:
    start = next((event for event in events if event["type"] == "message_start"), {})
    end = next((event for event in events if event["type"] == "message_delta"), {})
    stop_reason = read_path(end, "delta.stop_reason")
    opened = [event for event in events if event["type"] == "content_block_start"]
    # What the end says of the prompt is the newer word, where it says anything.
    counted = (_count_prompt(end.get("usage")), _count_prompt(read_path(start, "message.usage")))
    return Message(
        blocks=tuple(_read_block(event, events) for event in opened),
        stop_reason=None if isinstance(stop_reason, Unknown) else stop_reason,
        prompt_tokens=max(counted),
        output_tokens=_count(read_path(end, "usage.output_tokens")),
    )


def _read_block(opening: Object, events: Sequence[Object]) -> Object:
    """A block with the pieces that belong to it."""
    block = dict(_read_object_at(opening, "content_block"))
    fields = _PIECES.get(str(block.get("type")), {})
    joined: dict[str, str] = {}
    for event in events:
        kind = read_path(event, "delta.type")
        if event.get("index") != opening.get("index") or kind not in fields:
            continue
        name = fields[kind]
        joined[name] = joined.get(name, "") + read_text_at(event, f"delta.{name}")
    if "partial_json" in joined:
        return {**block, "input": _read_input(joined["partial_json"])}
    return {**block, **{name: read_text_at(block, name) + text for name, text in joined.items()}}


def _read_input(text: str) -> Plain:
    """The data that the pieces of a call make; the text where they make none."""
    data = parse_json(text)
    if isinstance(data, Unknown):
        return text
    return data if isinstance(data, dict | list) else [data]


def _count(value: Plain | Unknown) -> int:
    return value if isinstance(value, int) and is_count(value) else 0


def _count_prompt(usage: Plain | Unknown) -> int:
    return sum(_count(read_path(usage, name)) for name in _PROMPT_COUNTS)


def find_message_flaw(exchange: Exchange, max_tokens: int) -> Judgement | None:
    """Why this is no whole reply of this interface, None if it is one."""
    return (
        find_reply_flaw(exchange)
        or (_find_order_flaw(exchange) if exchange.request.stream else _find_shape_flaw(exchange))
        or _find_blocks_flaw(read_message(exchange))
        or _find_count_flaw(read_message(exchange), max_tokens)
        or _find_reason_flaw(read_message(exchange), max_tokens)
    )


def find_text_flaw(message: Message) -> Judgement | None:
    """Why nobody could read this answer, None if somebody could."""
    if not has_text(message.text) and not has_text(message.thoughts):
        found = f"no text in {message.output_tokens} tokens: {quote(list(message.blocks))}"
        return failed("a content block with text", found, "no_text")
    was_cut = message.stop_reason == "max_tokens"
    return find_words_flaw(message.text, where="content", was_cut=was_cut)


def _find_shape_flaw(exchange: Exchange) -> Judgement | None:
    body = parse_json(exchange.body)
    if not isinstance(body, dict):
        found = body.reason if isinstance(body, Unknown) else quote(body)
        return failed("a JSON object", found, "wrong_shape")
    flaw = _find_head_flaw(body)
    if flaw:
        return flaw
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return failed("a list of content blocks", quote(content), "wrong_shape", field="content")
    return _find_usage_flaw(body.get("usage"), ("input_tokens", "output_tokens"))


def _find_head_flaw(data: Object) -> Judgement | None:
    expected = 'a message ("type": "message") of the assistant with an id and a model'
    for name, is_right in (
        ("type", data.get("type") == "message"),
        ("role", data.get("role") == "assistant"),
        ("id", has_text(data.get("id"))),
        ("model", has_text(data.get("model"))),
    ):
        if not is_right:
            return failed(expected, f"{name}: {quote(data.get(name))}", "wrong_shape", field=name)
    return None


def _find_usage_flaw(usage: Plain | Unknown, names: Sequence[str]) -> Judgement | None:
    expected = f"whole numbers as usage.{' and usage.'.join(names)}"
    if not isinstance(usage, dict):
        return failed(expected, "no usage", "no_usage")
    if not all(is_count(usage.get(name)) for name in names):
        return failed(expected, quote(usage), "usage_wrong")
    return None


def _find_blocks_flaw(message: Message) -> Judgement | None:
    for block in message.blocks:
        kind = block.get("type")
        if not has_text(kind):
            return failed("content blocks with a type", quote(dict(block)), "wrong_block")
        if kind in ("text", "thinking") and not isinstance(block.get(kind), str):
            return failed(f"a text as {kind}", quote(dict(block)), "wrong_block")
    return None


def _find_count_flaw(message: Message, max_tokens: int) -> Judgement | None:
    if message.prompt_tokens < 1:
        found = "none, neither read nor from a cache"
        return failed("the tokens of the prompt under usage", found, "usage_wrong")
    least = 1 if has_text(message.text) else 0
    if least <= message.output_tokens <= max_tokens:
        return None
    expected = f"1 to {max_tokens} output tokens, as asked for"
    return failed(expected, f"{message.output_tokens}", "usage_wrong")


def _find_reason_flaw(message: Message, max_tokens: int) -> Judgement | None:
    reason, tokens = message.stop_reason, message.output_tokens
    allowed = (*_STOP_REASONS, _TOOL_REASON) if message.calls else _STOP_REASONS
    if reason not in allowed:
        expected = f"stop_reason {' or '.join(allowed)}"
        return failed(expected, f"stop_reason {quote(reason)}", "wrong_stop_reason")
    if message.calls and reason == "end_turn":
        found = "stop_reason end_turn with a call in the content"
        return failed(f"stop_reason {_TOOL_REASON}", found, "wrong_stop_reason")
    if reason == "max_tokens" and tokens < max_tokens - _NEAR_LIMIT_TOKENS:
        found = f"stop_reason max_tokens after {tokens} of {max_tokens} tokens"
        return failed("max_tokens only where the limit ended it", found, "wrong_stop_reason")
    return None


def _find_order_flaw(exchange: Exchange) -> Judgement | None:
    flaw = find_stream_flaw(exchange)
    if flaw:
        return flaw
    # A ping may come at any time and says nothing.
    events = [event for event in read_events(exchange) if event["type"] != "ping"]
    kinds = [event["type"] for event in events]
    if "error" in kinds:
        found = f"an error: {quote(dict(events[kinds.index('error')]))}"
        return failed("a stream to its end", found, "stream_failed")
    return (
        _find_frame_flaw(kinds)
        or _find_head_flaw(_read_object_at(events[0], "message"))
        or _find_usage_flaw(read_path(events[0], "message.usage"), ("input_tokens",))
        or _find_usage_flaw(read_path(events[-2], "usage"), ("output_tokens",))
        or _find_block_order_flaw(events[1:-2])
    )


def _find_frame_flaw(kinds: Sequence[str]) -> Judgement | None:
    expected = "message_start first, then blocks, then one message_delta and message_stop"
    if len(kinds) < 3 or kinds[0] != "message_start" or kinds[-2:] != ["message_delta", _STOP]:
        found = f"{len(kinds)} events that begin {_list(kinds[:2])} and end {_list(kinds[-2:])}"
        return failed(expected, found, "events_out_of_order")
    odd = [kind for kind in kinds[1:-2] if not kind.startswith("content_block_")]
    if odd:
        return failed(expected, f"{quote(odd[0])} between them", "events_out_of_order")
    return None


def _list(kinds: Sequence[str]) -> str:
    return quote(", ".join(kinds))


def _read_object_at(event: Object, name: str) -> Object:
    found = event.get(name)
    return found if isinstance(found, dict) else {}


def _find_block_order_flaw(events: Sequence[Object]) -> Judgement | None:
    """Blocks come one after the other, each with a start, its own pieces, and a stop."""
    expected = "blocks that begin with 0, each with a start, its pieces and a stop"
    open_kind, next_index = "", 0
    for event in events:
        kind, index = event["type"], event.get("index")
        if kind == "content_block_start":
            is_right = not open_kind and index == next_index
            open_kind = read_text_at(event, "content_block.type") or "nothing"
        elif kind == "content_block_delta":
            is_right = bool(open_kind) and index == next_index and _fits(event, open_kind)
        else:
            is_right = kind == "content_block_stop" and bool(open_kind) and index == next_index
            open_kind, next_index = "", next_index + 1
        if not is_right:
            return failed(expected, quote(dict(event)), "events_out_of_order")
    if open_kind:
        return failed(expected, "no content_block_stop", "events_out_of_order")
    return None


def _fits(event: Object, block_kind: str) -> bool:
    """Whether a piece is one of its block, and is text. Of blocks that we do not know all fit."""
    fields = _PIECES.get(block_kind)
    if fields is None:
        return True
    name = fields.get(str(read_path(event, "delta.type")))
    return name is not None and isinstance(read_path(event, f"delta.{name}"), str)
