"""The replies of /v1/chat/completions, whole and in chunks, in the manners of each engine. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stoker.fake_engine.replies import (
    FINGERPRINT,
    Chunk,
    Reply,
    argument_pieces,
    name_tokens,
    pieces,
    write_end_logprob,
    write_logprobs,
    write_timings,
    write_usage,
)
from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM
from stoker.fake_engine.values import Call, Data, Generated


def write_chat(reply: Reply) -> Data:
    """The plain reply."""
    choices = [_write_choice(reply, place, each) for place, each in enumerate(reply.choices)]
    usage = write_usage(reply)
    if reply.script.manners == LLAMACPP:
        return {
            "choices": choices,
            "created": reply.created,
            "model": reply.model,
            "system_fingerprint": FINGERPRINT[LLAMACPP],
            "object": "chat.completion",
            "usage": usage,
            "id": chat_id(reply),
            "timings": write_timings(reply),
        }
    head = {
        "id": chat_id(reply),
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.model,
        "choices": choices,
    }
    if reply.script.manners == SGLANG:
        return {**head, "usage": usage, "metadata": {"weight_version": "default"}}
    return {
        **head,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT[VLLM],
        "usage": usage,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def chat_id(reply: Reply) -> str:
    """The id of a chat reply."""
    if reply.script.manners == SGLANG:
        return reply.code
    return f"chatcmpl-{reply.code if reply.script.manners == LLAMACPP else reply.code[:16]}"


def _write_choice(reply: Reply, place: int, generated: Generated) -> Data:
    message = _write_message(reply, generated)
    logprobs = write_logprobs(reply, generated, 0, len(generated.logprobs or ()))
    if logprobs:
        logprobs["content"] += write_end_logprob(reply, generated)
    if reply.script.manners == LLAMACPP:
        shown: Data = {"logprobs": logprobs} if logprobs else {}
        choice: Data = {
            "finish_reason": generated.finish_reason,
            "index": place,
            "message": message,
        }
        return {**choice, **shown, **generated.extra}
    return {
        "index": place,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": generated.finish_reason,
        **stop_note(reply, generated),
        **({"token_ids": None, "routed_experts": None} if reply.script.manners == VLLM else {}),
        **generated.extra,
    }


def stop_note(reply: Reply, generated: Generated) -> Data:
    """The engine's own word on what ended the text, under its own name."""
    name = {SGLANG: "matched_stop", VLLM: "stop_reason"}.get(reply.script.manners)
    return {name: generated.stop_note} if name else {}


def _write_message(reply: Reply, generated: Generated) -> Data:
    calls = [_write_call(reply, place, call) for place, call in enumerate(generated.calls)]
    text: str | None = generated.text
    if calls and not text:
        text = None
    message: Data = {"role": "assistant", "content": text}
    thoughts = generated.thoughts or None
    if reply.script.manners == LLAMACPP:
        shown = {"reasoning_content": thoughts} if thoughts else {}
        return {**message, **shown, **({"tool_calls": calls} if calls else {})}
    if reply.script.manners == SGLANG:
        called = {"tool_calls": calls} if calls else {}
        return {**message, "reasoning_content": thoughts, **called}
    message |= {"refusal": None, "annotations": None, "audio": None, "function_call": None}
    return {**message, **({"tool_calls": calls} if calls else {}), "reasoning": thoughts}


def _write_call(reply: Reply, place: int, call: Call) -> Data:
    function = {"name": call.name, "arguments": call.arguments}
    if reply.script.manners == LLAMACPP:
        return {"type": "function", "function": function, "id": call.id}
    index = {"index": place} if reply.script.manners == SGLANG else {}
    return {"id": call.id, **index, "type": "function", "function": function}


# --- the stream ---


def write_chat_chunks(reply: Reply) -> list[Chunk]:
    """The chunks of the streamed reply, the closing [DONE] left out."""
    several = [list(_stream_choice(reply, place)) for place in range(len(reply.choices))]
    chunks = _mix(several)
    if reply.with_counts and reply.script.manners != LLAMACPP:
        chunks = list(_count_along(reply, chunks))
    if reply.with_usage:
        chunks.append((_usage_chunk(reply), 0))
    elif reply.script.manners != SGLANG and chunks:
        last, tokens = chunks[-1]
        told: Data = {"system_fingerprint": FINGERPRINT[VLLM]}
        if reply.script.manners == LLAMACPP:
            told = {"timings": write_timings(reply)}
        chunks[-1] = ({**last, **told}, tokens)
    return chunks


def _mix(several: list[list[Chunk]]) -> list[Chunk]:
    """The chunks of several choices, in turn, as they are computed side by side."""
    mixed: list[Chunk] = []
    for place in range(max(map(len, several), default=0)):
        mixed += [chunks[place] for chunks in several if place < len(chunks)]
    return mixed


def _count_along(reply: Reply, chunks: list[Chunk]) -> Iterator[Chunk]:
    made = 0
    for chunk, tokens in chunks:
        made += tokens
        yield {**chunk, "usage": write_usage(reply, made, is_streamed=True)}, tokens


def _usage_chunk(reply: Reply) -> Data:
    chunk = _chunk(reply, [])
    chunk["usage"] = write_usage(reply, is_streamed=True)
    if reply.script.manners == LLAMACPP:
        chunk["timings"] = write_timings(reply)
    if reply.script.manners == VLLM:
        chunk["system_fingerprint"] = FINGERPRINT[VLLM]
    return chunk


def _chunk(reply: Reply, choices: list[Data]) -> Data:
    name, created = chat_id(reply), reply.created
    if reply.script.manners == LLAMACPP:
        return {
            "choices": choices,
            "created": created,
            "id": name,
            "model": reply.model,
            "system_fingerprint": FINGERPRINT[LLAMACPP],
            "object": "chat.completion.chunk",
        }
    return {
        "id": name,
        "object": "chat.completion.chunk",
        "created": created,
        "model": reply.model,
        "choices": choices,
    }


def _stream_choice(reply: Reply, place: int) -> Iterator[Chunk]:
    generated = reply.choices[place]
    manner = _MANNERS[reply.script.manners]
    made = list(_stream_deltas(reply, generated))
    yield _chunk(reply, [manner(place, {"role": "assistant", "content": ""}, None, {})]), 0
    ending = {"finish_reason": generated.finish_reason, **generated.extra}
    note = stop_note(reply, generated)
    # vLLM ends in the last piece where nothing comes behind it.
    is_joined = reply.script.manners == VLLM and made and not generated.has_end
    for number, (delta, logprobs, tokens) in enumerate(made, start=1):
        last = {**ending, **note} if is_joined and number == len(made) else {}
        yield _chunk(reply, [manner(place, delta, logprobs, last)]), tokens
    if not is_joined:
        ends = write_end_logprob(reply, generated) if reply.script.manners == VLLM else []
        logprobs = {"content": ends} if ends else None
        last = {**ending, **note}
        yield _chunk(reply, [manner(place, {}, logprobs, last)]), int(generated.has_end)


Delta = tuple[Data, Any, int]


def _stream_deltas(reply: Reply, generated: Generated) -> Iterator[Delta]:
    field = "reasoning" if reply.script.manners == VLLM else "reasoning_content"
    done = 0
    for text, tokens in pieces(reply, generated.reasoning):
        yield {field: text}, write_logprobs(reply, generated, done, tokens), tokens
        done += tokens
    for text, tokens in pieces(reply, generated.content):
        yield {"content": text}, write_logprobs(reply, generated, done, tokens), tokens
        done += tokens
    for place, call in enumerate(generated.calls):
        yield from _stream_call(reply, place, call)


def _stream_call(reply: Reply, place: int, call: Call) -> Iterator[Delta]:
    manners = reply.script.manners
    function: Data = {"name": call.name, "arguments": ""}
    if manners == VLLM:
        function = {"name": call.name}
    opening: Data = {"index": place, "id": call.id, "type": "function", "function": function}
    yield {"tool_calls": [opening]}, None, name_tokens(call)
    for text, tokens in argument_pieces(reply, call):
        more: Data = {"index": place, "function": {"arguments": text}}
        if manners == SGLANG:
            function = {"name": None, "arguments": text}
            more = {"id": None, "index": place, "type": "function", "function": function}
        yield {"tool_calls": [more]}, None, tokens


def _llamacpp(place: int, delta: Data, logprobs: Any, ending: Data) -> Data:
    if delta.get("role"):
        delta = {"role": "assistant", "content": None}
    shown = {"logprobs": logprobs} if logprobs else {}
    return {"finish_reason": None, "index": place, "delta": delta, **shown, **ending}


def _sglang(place: int, delta: Data, logprobs: Any, ending: Data) -> Data:
    if "tool_calls" in delta:
        delta = {"role": None, "content": None, "reasoning_content": None, **delta}
    elif "reasoning_content" not in delta:
        delta = {"reasoning_content": None, **delta}
    empty = {"finish_reason": None, "matched_stop": None}
    return {"index": place, "delta": delta, "logprobs": logprobs, **empty, **ending}


def _vllm(place: int, delta: Data, logprobs: Any, ending: Data) -> Data:
    if "tool_calls" in delta:
        delta = {"content": None, **delta}
    choice = {"index": place, "delta": delta, "logprobs": logprobs, "finish_reason": None}
    return {**choice, **ending, **({} if delta.get("role") else {"token_ids": None})}


_MANNERS: Mapping[str, Callable[[int, Data, Any, Data], Data]] = {
    LLAMACPP: _llamacpp,
    SGLANG: _sglang,
    VLLM: _vllm,
}
