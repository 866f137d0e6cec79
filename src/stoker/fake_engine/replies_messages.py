"""The replies of /v1/messages, whole and as events, in the manners of each engine. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stoker.fake_engine.replies import Chunk, Reply, argument_pieces, name_tokens, pieces
from stoker.fake_engine.replies_chat import chat_id
from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM
from stoker.fake_engine.values import Data, Generated

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def write_message(reply: Reply) -> Data:
    """The plain reply."""
    generated = reply.choices[0]
    return {
        **_head(reply),
        "content": _write_blocks(generated),
        "model": reply.model,
        **_ending(reply, generated),
        "usage": {**_input_usage(reply), "output_tokens": generated.completion_tokens},
    }


def _head(reply: Reply) -> Data:
    name = f"msg_{reply.code}" if reply.script.manners == SGLANG else chat_id(reply)
    return {"id": name, "type": "message", "role": "assistant"}


def _write_blocks(generated: Generated) -> list[Data]:
    blocks: list[Data] = []
    if generated.thoughts:
        blocks.append({"type": "thinking", "thinking": generated.thoughts, "signature": ""})
    if generated.text or not generated.calls:
        blocks.append({"type": "text", "text": generated.text})
    for call in generated.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        blocks.append({**block, "input": _parse(call.arguments)})
    return blocks


def _parse(arguments: str) -> Any:
    """The arguments as data; of a call that was cut off nothing can be said."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _ending(reply: Reply, generated: Generated) -> Data:
    reason = _REASONS.get(generated.finish_reason, generated.finish_reason)
    stops = reply.question.sampling.stops
    sequence = generated.stop_note if generated.stop_note in stops else None
    if sequence is not None:
        reason = "stop_sequence"
    told = {"stop_sequence": sequence} if reply.script.manners == LLAMACPP or sequence else {}
    return {"stop_reason": reason, **told}


def _input_usage(reply: Reply) -> Data:
    first = reply.choices[0]
    fresh = first.prompt_tokens - first.cached_tokens
    usage = {"input_tokens": fresh, "cache_read_input_tokens": first.cached_tokens}
    if reply.script.manners in (LLAMACPP, SGLANG):
        return usage
    return {**usage, "cache_creation_input_tokens": 0}


def write_message_events(reply: Reply) -> list[Chunk]:
    """The events of the streamed reply; this interface has no [DONE]."""
    return list(_stream(reply))


def _stream(reply: Reply) -> Iterator[Chunk]:
    generated = reply.choices[0]
    opening: Data = {**_head(reply), "content": [], "model": reply.model}
    if reply.script.manners != SGLANG:
        opening |= {"stop_reason": None, "stop_sequence": None}
    opening["usage"] = {**_input_usage(reply), "output_tokens": 0}
    if reply.script.manners == VLLM:
        # At its beginning a stream does not know yet what was cached.
        whole = reply.choices[0].prompt_tokens
        opening["usage"] = {"input_tokens": whole, "output_tokens": 0}
    yield {"type": "message_start", "message": opening}, 0
    for place, (block, deltas) in enumerate(_stream_blocks(reply, generated)):
        start = {"type": "content_block_start", "index": place, "content_block": block}
        yield start, 0
        for delta, tokens in deltas:
            yield {"type": "content_block_delta", "index": place, "delta": delta}, tokens
        yield {"type": "content_block_stop", "index": place}, 0
    ending = _ending(reply, generated)
    if reply.script.manners != SGLANG:
        ending.setdefault("stop_sequence", None)
    usage: Data = {"output_tokens": generated.completion_tokens}
    if reply.script.manners not in (LLAMACPP, SGLANG):
        usage = {**_input_usage(reply), **usage}
    yield {"type": "message_delta", "delta": ending, "usage": usage}, int(generated.has_end)
    yield {"type": "message_stop"}, 0


def _stream_blocks(
    reply: Reply, generated: Generated
) -> Iterator[tuple[Data, list[tuple[Data, int]]]]:
    if generated.reasoning:
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                ({"type": "thinking_delta", "thinking": text}, tokens)
                for text, tokens in pieces(reply, generated.reasoning)
            ],
        )
    if generated.content or not generated.calls:
        yield (
            {"type": "text", "text": ""},
            [
                ({"type": "text_delta", "text": text}, tokens)
                for text, tokens in pieces(reply, generated.content)
            ],
        )
    for call in generated.calls:
        deltas: list[tuple[Data, int]] = [
            ({"type": "input_json_delta", "partial_json": text}, tokens)
            for text, tokens in argument_pieces(reply, call)
        ]
        if deltas:
            deltas[0] = (deltas[0][0], deltas[0][1] + name_tokens(call))
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas
