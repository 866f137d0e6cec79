"""Reading one HTTP reply: did it come, is it a success, is it JSON.

The judges of all checks use this. Pure and total: whatever a server sends is readable or a flaw,
never an exception.
"""

from __future__ import annotations

import json

from stoker.contract.judgement import Judgement, failed, quote, skipped, unreached
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, Unknown, read_path

#: Where the engines put the sentence that explains an HTTP error, best first.
_MESSAGE_PATHS = ("error.message", "error", "message", "detail")


def parse_json(text: str) -> Plain | Unknown:
    """JSON-shaped data, or Unknown with the reason why it is none (NaN is none, too)."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        return Unknown(reason=f"{quote(text)} is nested too deeply")
    except ValueError as error:
        return Unknown(reason=f"{quote(text)} is not JSON ({error})")


def _refuse_constant(constant: str) -> Plain:
    raise ValueError(f"{constant} is no number there")


def find_reply_flaw(exchange: Exchange) -> Judgement | None:
    """Why this is not a whole and successful reply, None if it is one."""
    if exchange.error_kind in ("refused", "tls"):
        return unreached(exchange.error)
    if exchange.error_kind == "client":
        return skipped("the client library", exchange.error)
    if exchange.error_kind == "timeout":
        seconds = exchange.request.timeout_seconds
        return failed(f"a whole reply within {seconds:g} s", exchange.error, "timeout")
    if exchange.error:
        return failed("a whole reply over HTTP", exchange.error, "broken_http")
    if exchange.status != 200:
        message = quote(find_message(exchange.body))
        return failed(
            "HTTP 200",
            describe_status(exchange),
            _STATUS_SYMPTOMS.get(exchange.status, "http_status"),
            status=exchange.status,
            message=message,
        )
    if not exchange.is_utf8:
        return failed("text in UTF-8", "bytes that are not UTF-8", "broken_characters")
    return None


#: What a status says whatever was asked.
_STATUS_SYMPTOMS = {401: "key_refused", 403: "key_refused", 429: "rate_limited"}


def describe_status(exchange: Exchange) -> str:
    """The status and what the server says about it, in a line."""
    status, message = exchange.status, find_message(exchange.body)
    line = f"HTTP {status}: {quote(message)}" if message else f"HTTP {status}"
    if status in (401, 403):
        return f"{line} (the server wants an API key, or another one)"
    if status == 429:
        return f"{line} (the server limits requests; tried {exchange.tries} times)"
    if 300 <= status < 400:
        return f"{line} (a redirect, which is not followed)"
    return line


def find_message(body: str) -> str:
    """The sentence that explains an error, else all of the body."""
    data = parse_json(body)
    for path in _MESSAGE_PATHS:
        message = read_path(data, path)
        if isinstance(message, str):
            return message
    return body.strip()
