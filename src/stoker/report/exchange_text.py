"""An exchange with a server as a person reads it: what was asked, and what came back, shortened."""

from __future__ import annotations

import json

from stoker.model.contract import Exchange, Key, Request
from stoker.model.visible import visible

SHORT_CHARACTERS = 160
LONG_CHARACTERS = 4000

_KEYS = {
    Key.NONE: "without a key",
    Key.WRONG: "with a wrong key",
    Key.NEAR: "with the key and one more character",
    Key.OTHER_CASE: "with the key in letters of the other case",
}


def describe_request(request: Request, limit_characters: int = SHORT_CHARACTERS) -> str:
    """Method, path and body in one line."""
    if request.client:
        head = f"the client {request.client}: {request.path}"
    else:
        head = f"{request.method} {request.path}"
    if request.key is not Key.OWN:
        head += f" ({_KEYS[request.key]})"
    body = json.dumps(request.body, ensure_ascii=False) if request.body is not None else ""
    content = cut(body if request.text is None else request.text, limit_characters)
    return f"{head} {content}".rstrip()


def describe_reply(exchange: Exchange, limit_characters: int = SHORT_CHARACTERS) -> str:
    """Status, time and content in one line; what went wrong where there was no whole reply."""
    seconds = f"{exchange.seconds:.2f} s"
    if exchange.error and not exchange.status:
        return f"no reply after {seconds}: {exchange.error}"
    tries = f", try {exchange.tries}" if exchange.tries > 1 else ""
    head = f"HTTP {exchange.status} after {seconds}{tries}"
    if exchange.events:
        head += f", {len(exchange.events)} events"
    content = " ".join(exchange.events) if exchange.events else exchange.body
    error = f" ({exchange.error})" if exchange.error else ""
    return f"{head}{error}: {cut(content, limit_characters) or 'nothing in it'}"


def cut(text: str, limit_characters: int) -> str:
    """A text in one line, both of its ends where it is too long."""
    line = " ".join(text[: 2 * limit_characters].split()) if len(text) > 1 << 16 else None
    line = " ".join(text.split()) if line is None else line
    left_out = len(text) - limit_characters
    if len(line) <= limit_characters and left_out <= 0:
        return visible(line)
    third = limit_characters // 3
    end = " ".join(text[-2 * third :].split())[-third:]
    return visible(f"{line[: limit_characters - third]} [...] {end}")
