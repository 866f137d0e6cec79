"""The replies of /v1/responses, whole and as events, in the manners of each engine. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.fake_engine.replies import Chunk, Reply, argument_pieces, name_tokens, pieces
from stoker.fake_engine.script import LLAMACPP
from stoker.fake_engine.values import Call, Data, Generated


def write_response(reply: Reply) -> Data:
    """The plain reply."""
    generated = reply.choices[0]
    is_cut = generated.finish_reason == "length" and reply.script.manners != LLAMACPP
    output = [_item(reply, place, generated) for place in _items(generated)]
    return {
        **_head(reply, "incomplete" if is_cut else "completed"),
        **({"incomplete_details": {"reason": "max_output_tokens"}} if is_cut else {}),
        "output": output,
        "usage": _write_usage(reply),
    }


def _head(reply: Reply, status: str) -> Data:
    data = reply.data
    head: Data = {
        "id": f"resp_{reply.code}",
        "object": "response",
        "created_at": reply.created,
        "model": reply.model,
        "status": status,
    }
    if reply.script.manners == LLAMACPP:
        return {**head, "completed_at": reply.created} if status == "completed" else head
    return {
        **head,
        "output": [],
        "usage": None,
        "parallel_tool_calls": data.get("parallel_tool_calls") is not False,
        "tool_choice": data.get("tool_choice") or "auto",
        "tools": data.get("tools") or [],
        "error": None,
        "incomplete_details": None,
        "instructions": data.get("instructions"),
        "max_output_tokens": data.get("max_output_tokens"),
        "previous_response_id": None,
        "temperature": data.get("temperature"),
        "text": {"format": (data.get("text") or {}).get("format") or {"type": "text"}},
        "top_p": data.get("top_p"),
        "truncation": "disabled",
        "user": None,
        "metadata": data.get("metadata") or {},
    }


def _write_usage(reply: Reply) -> Data:
    first = reply.choices[0]
    usage: Data = {
        "input_tokens": first.prompt_tokens,
        "output_tokens": first.completion_tokens,
        "total_tokens": first.prompt_tokens + first.completion_tokens,
        "input_tokens_details": {"cached_tokens": first.cached_tokens},
    }
    if reply.script.manners != LLAMACPP:
        usage["output_tokens_details"] = {"reasoning_tokens": len(first.reasoning)}
    return usage


#: What stands in the output, in its order: thoughts, the message, each call by its number.
_THOUGHTS, _MESSAGE = "thoughts", "message"


def _items(generated: Generated) -> list[str]:
    thoughts = [_THOUGHTS] if generated.reasoning else []
    message = [_MESSAGE] if generated.content or not generated.calls else []
    return [*thoughts, *message, *map(str, range(len(generated.calls)))]


def _item(reply: Reply, item: str, generated: Generated, *, is_open: bool = False) -> Data:
    status = "in_progress" if is_open else "completed"
    if item == _THOUGHTS:
        content = [] if is_open else [{"type": "reasoning_text", "text": generated.thoughts}]
        head: Data = {"id": f"rs_{reply.code}", "type": "reasoning", "summary": []}
        return {**head, "content": content, "status": status}
    if item == _MESSAGE:
        content = [] if is_open else [_text_part(generated.text)]
        head = {"id": f"msg_{reply.code}", "type": "message", "role": "assistant"}
        return {**head, "content": content, "status": status}
    call = generated.calls[int(item)]
    return {
        "id": _call_name(reply, item),
        "call_id": call.id,
        "type": "function_call",
        "name": call.name,
        "arguments": "" if is_open else call.arguments,
        "status": status,
    }


def _call_name(reply: Reply, item: str) -> str:
    return f"fc_{reply.code}{item}"


def _text_part(text: str) -> Data:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def write_response_events(reply: Reply) -> list[Chunk]:
    """The events of the streamed reply; this interface has no [DONE]."""
    chunks = list(_stream(reply))
    if reply.script.manners == LLAMACPP:
        return [(_without_places(event), tokens) for event, tokens in chunks]
    return [
        ({**event, "sequence_number": number}, tokens)
        for number, (event, tokens) in enumerate(chunks)
    ]


def _without_places(event: Data) -> Data:
    """llama.cpp does not number what it streams."""
    places = ("output_index", "content_index", "logprobs")
    return {name: value for name, value in event.items() if name not in places}


def _stream(reply: Reply) -> Iterator[Chunk]:
    generated = reply.choices[0]
    for kind in ("created", "in_progress"):
        yield {"type": f"response.{kind}", "response": _head(reply, "in_progress")}, 0
    for place, item in enumerate(_items(generated)):
        opened = _item(reply, item, generated, is_open=True)
        yield {"type": "response.output_item.added", "output_index": place, "item": opened}, 0
        yield from _stream_item(reply, place, item)
        closed = _item(reply, item, generated)
        yield {"type": "response.output_item.done", "output_index": place, "item": closed}, 0
    whole = write_response(reply)
    kind = "incomplete" if whole["status"] == "incomplete" else "completed"
    yield {"type": f"response.{kind}", "response": whole}, int(generated.has_end)


def _stream_item(reply: Reply, place: int, item: str) -> Iterator[Chunk]:
    generated = reply.choices[0]
    if item == _THOUGHTS:
        where = {"item_id": f"rs_{reply.code}", "output_index": place, "content_index": 0}
        for text, tokens in pieces(reply, generated.reasoning):
            yield {"type": "response.reasoning_text.delta", **where, "delta": text}, tokens
        yield {"type": "response.reasoning_text.done", **where, "text": generated.thoughts}, 0
    elif item == _MESSAGE:
        where = {"item_id": f"msg_{reply.code}", "output_index": place, "content_index": 0}
        part = {"type": "response.content_part.added", **where, "part": _text_part("")}
        yield part, 0
        for text, tokens in pieces(reply, generated.content):
            event = {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []}
            yield event, tokens
        yield {"type": "response.output_text.done", **where, "text": generated.text}, 0
        whole = _text_part(generated.text)
        yield {"type": "response.content_part.done", **where, "part": whole}, 0
    else:
        yield from _stream_call(reply, place, item, generated.calls[int(item)])


def _stream_call(reply: Reply, place: int, item: str, call: Call) -> Iterator[Chunk]:
    where = {"item_id": _call_name(reply, item), "output_index": place}
    kind, extra = "response.function_call_arguments", name_tokens(call)
    for text, tokens in argument_pieces(reply, call):
        yield {"type": f"{kind}.delta", **where, "delta": text}, tokens + extra
        extra = 0
    done = {"type": f"{kind}.done", **where, "name": call.name, "arguments": call.arguments}
    yield done, 0
