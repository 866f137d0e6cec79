"""HTTP/1.1 requests as the exact server reads them, and the replies and events that it writes.

Used by :mod:`benchmarks.exact_server`. It touches no socket: bytes go in, values come out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: No client sends longer ones; a server without bounds could be filled by mistake.
MOST_HEAD_BYTES = 64 << 10
MOST_BODY_BYTES = 16 << 20

#: What an OpenAI-compatible server takes where a request names no length.
DEFAULT_TOKENS = 16
MOST_TOKENS = 1_000_000

#: Each is one token for the usual tokenizers.
TOKEN_TEXT = " the"

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}


class BadRequest(Exception):
    """A request that is answered with an error; ``status`` says which."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first line of a request and what its headers say of the body and the connection."""

    method: str
    path: str
    body_bytes: int
    is_chunked: bool
    keeps_alive: bool
    expects_continue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a request asks for. ``name``: of the reply, another one for each request."""

    name: str
    is_chat: bool
    is_streamed: bool
    includes_usage: bool
    prompt_tokens: int
    tokens: int


def take_head(received: bytearray) -> Head | None:
    """Take the head of a request out of what was received, None while it is not whole.

    Raises BadRequest for what is no HTTP/1 request or too long.
    """
    end = received.find(b"\r\n\r\n")
    if max(end, 0) > MOST_HEAD_BYTES or (end < 0 and len(received) > MOST_HEAD_BYTES):
        raise BadRequest(431, f"the head is longer than {MOST_HEAD_BYTES} bytes")
    if end < 0:
        return None
    lines = bytes(received[:end]).decode("latin-1").split("\r\n")
    del received[: end + 4]
    return _read_head(lines)


def _read_head(lines: list[str]) -> Head:
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "the first line is none of HTTP/1")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip().lower()
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise BadRequest(400, "the Content-Length is no number")
    if int(length) > MOST_BODY_BYTES:
        raise BadRequest(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
    connection = headers.get("connection", "")
    keeps_alive = "close" not in connection
    if words[2] == "HTTP/1.0":
        keeps_alive = "keep-alive" in connection
    return Head(
        method=words[0],
        path=words[1].partition("?")[0],
        body_bytes=int(length),
        is_chunked="chunked" in headers.get("transfer-encoding", ""),
        keeps_alive=keeps_alive,
        expects_continue=headers.get("expect", "") == "100-continue",
    )


def take_body(head: Head, received: bytearray) -> bytes | None:
    """Take the body out of what was received, None while it is not whole. Raises BadRequest."""
    if head.is_chunked:
        return _take_chunks(received)
    if len(received) < head.body_bytes:
        return None
    body = bytes(received[: head.body_bytes])
    del received[: head.body_bytes]
    return body


def _take_chunks(received: bytearray) -> bytes | None:
    body = bytearray()
    at = 0
    while True:
        line_end = received.find(b"\r\n", at)
        if line_end < 0:
            return None
        try:
            size = int(bytes(received[at:line_end]).partition(b";")[0], 16)
        except ValueError:
            raise BadRequest(400, "a chunk's size is no number") from None
        if not 0 <= size <= MOST_BODY_BYTES - len(body):
            raise BadRequest(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
        if not size:
            # Trailers may stand before the blank line.
            end = received.find(b"\r\n\r\n", line_end)
            if end < 0:
                return None
            del received[: end + 4]
            return bytes(body)
        if len(received) < line_end + 2 + size + 2:
            return None
        body += received[line_end + 2 : line_end + 2 + size]
        at = line_end + 2 + size + 2


def read_wanted(path: str, body: bytes, name: str) -> Wanted:
    """What the body of a request to one of the two endpoints asks for. Raises BadRequest."""
    try:
        asked = json.loads(body)
    except ValueError:
        raise BadRequest(400, "the body is no JSON") from None
    if not isinstance(asked, dict):
        raise BadRequest(400, "the body is no JSON object")
    is_chat = path.endswith("/chat/completions")
    options = asked.get("stream_options")
    return Wanted(
        name=name,
        is_chat=is_chat,
        is_streamed=asked.get("stream") is True,
        includes_usage=isinstance(options, dict) and options.get("include_usage") is True,
        prompt_tokens=_count_prompt(asked, is_chat=is_chat),
        tokens=_count_tokens(asked),
    )


def _count_prompt(asked: Mapping[str, Any], *, is_chat: bool) -> int:
    """A prompt of token numbers counts itself; of a text its words are counted."""
    if is_chat:
        messages = asked.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadRequest(400, "there are no messages")
        return sum(len(json.dumps(message).split()) for message in messages)
    prompt = asked.get("prompt")
    if isinstance(prompt, list):
        return len(prompt)
    if not isinstance(prompt, str):
        raise BadRequest(400, "there is no prompt")
    return len(prompt.split())


def _count_tokens(asked: Mapping[str, Any]) -> int:
    for key in ("max_completion_tokens", "max_tokens"):
        if asked.get(key) is not None:
            count = asked[key]
            if not isinstance(count, int) or not 0 < count <= MOST_TOKENS:
                raise BadRequest(400, f"{key} must be a number from 1 to {MOST_TOKENS}")
            return count
    return DEFAULT_TOKENS


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def render_reply(value: object, status: int = 200) -> bytes:
    """A whole reply with a JSON body."""
    body = json.dumps(value).encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def render_error(error: BadRequest) -> bytes:
    """The reply to a bad request, in the shape of the OpenAI API."""
    told = {"message": str(error), "type": "invalid_request_error", "code": error.status}
    return render_reply({"error": told}, error.status)


def render_whole(wanted: Wanted, model: str, tokens: int) -> bytes:
    """The reply to a request that is not streamed."""
    text = TOKEN_TEXT * tokens
    said: dict[str, object] = (
        {"message": {"role": "assistant", "content": text}} if wanted.is_chat else {"text": text}
    )
    kind = "chat.completion" if wanted.is_chat else "text_completion"
    choice = {"index": 0, "finish_reason": "length", **said}
    whole = {**_top(wanted, model, kind), "choices": [choice], "usage": _usage(wanted, tokens)}
    return render_reply(whole)


def render_event(wanted: Wanted, model: str, tokens: int) -> bytes:
    """The event with so many tokens, as a chunk of the transfer."""
    return _chunk(_event(wanted, model, TOKEN_TEXT * tokens))


def render_end(wanted: Wanted, model: str, tokens: int) -> bytes:
    """What follows the last token: why it ended, the usage if asked for, and the end mark."""
    events = [_event(wanted, model, "")]
    if wanted.includes_usage:
        kind = "chat.completion.chunk" if wanted.is_chat else "text_completion"
        events.append({**_top(wanted, model, kind), "choices": [], "usage": _usage(wanted, tokens)})
    return b"".join(map(_chunk, events)) + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def _event(wanted: Wanted, model: str, text: str) -> dict[str, object]:
    """An event with text, or the one that says why the answer ended, which has none."""
    said: dict[str, object] = {"text": text}
    if wanted.is_chat:
        said = {"delta": {"content": text} if text else {}}
    kind = "chat.completion.chunk" if wanted.is_chat else "text_completion"
    choice = {"index": 0, **said, "finish_reason": None if text else "length"}
    return {**_top(wanted, model, kind), "choices": [choice]}


def _top(wanted: Wanted, model: str, kind: str) -> dict[str, object]:
    # No client measures with the server's clock; a fixed moment is as good as any.
    return {"id": wanted.name, "object": kind, "created": 1, "model": model}


def _usage(wanted: Wanted, tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": wanted.prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": wanted.prompt_tokens + tokens,
    }


def _chunk(event: Mapping[str, object]) -> bytes:
    return _frame(b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n")


def _frame(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)
