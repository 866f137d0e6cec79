"""The shape of an error: what a client can read when a request was refused.

The measure is the official client library of the OpenAI interface: it makes an error of its own
from any status that is none of success, and takes the sentence for a person from a JSON object.
So ``{"error": {"message": ...}}`` is read, and so are the older forms of the engines
(``{"object": "error", "message": ...}``, ``{"detail": ...}``, ``{"error": "Unauthorized"}``); a
page of HTML, an empty body, a stack trace or plain text is not. Pure and total.
"""

from __future__ import annotations

from stoker.contract.completion import has_text
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import describe_status, find_reply_flaw, parse_json
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, Unknown, read_path

SHAPE = 'an error that clients can read: JSON with a message, as {"error": {"message": ...}}'

#: Where the sentence may stand, best first; FastAPI has a list of flaws under ``detail``.
_MESSAGE_PATHS = ("error.message", "error", "message", "detail", "detail.0.msg", "error.detail")

#: How a stack trace begins in the languages that engines and gateways are written in.
_TRACES = ("Traceback (most recent call last)", "goroutine 1 [", "stack backtrace:", "\n\tat ")

#: Statuses that speak of the client's right or rate, whatever was asked.
_OTHER_MATTERS = (401, 403, 429)


def find_refusal_flaw(exchange: Exchange, asked: str) -> Judgement | None:
    """Why this is no readable refusal (4xx) of ``asked`` (``a prompt that is too long``).

    None if it is one.
    """
    expected = f"{asked} to be refused (HTTP 4xx) with {SHAPE}"
    if exchange.error:
        return _find_break(exchange, asked, expected)
    if exchange.status in _OTHER_MATTERS:
        return find_reply_flaw(exchange)
    if exchange.status >= 500:
        found = f"{describe_status(exchange)} to {asked}"
        return failed(expected, found, "server_error", status=exchange.status, asked=asked)
    if not 400 <= exchange.status < 500:
        found = f"{describe_status(exchange) if exchange.status != 200 else 'HTTP 200'} to {asked}"
        return failed(expected, found, "wrong_accepted", status=exchange.status, asked=asked)
    return find_error_shape_flaw(exchange, asked)


def _find_break(exchange: Exchange, asked: str, expected: str) -> Judgement | None:
    """A connection that broke is one sort of flaw wherever it is found; it names what was asked."""
    flaw = find_reply_flaw(exchange)
    if flaw is None or flaw.symptom not in ("broken_http", "timeout"):
        return flaw
    found = f"to {asked}: {exchange.error}"
    return failed(expected, found, flaw.symptom, asked=asked)


def find_error_shape_flaw(exchange: Exchange, asked: str) -> Judgement | None:
    """Why a client cannot read this error, None if it can. The status is not judged."""
    reason = explain_shape(exchange)
    if not reason:
        return None
    found = f"HTTP {exchange.status} to {asked} with {reason}"
    return failed(SHAPE, found, "error_shape", status=exchange.status, asked=asked)


def explain_shape(exchange: Exchange) -> str:
    """What is unreadable in the body of an error, as half a sentence; empty if nothing is."""
    text = exchange.body or "\n".join(exchange.events)
    if not text.strip():
        return "an empty body"
    if "html" in exchange.media_type or text.lstrip()[:1] == "<":
        return f"a page instead of data: {quote(text)}"
    body = parse_json(text)
    if isinstance(body, Unknown):
        return f"text that is no JSON: {quote(text)}"
    message = read_message(body)
    if not message:
        return f"no message in it: {quote(body)}"
    if any(trace in message for trace in _TRACES):
        return f"a stack trace as its message: {quote(message)}"
    return ""


def read_message(body: Plain) -> str:
    """The sentence for a person in the data of an error, empty where there is none."""
    if not isinstance(body, dict):
        return ""
    found = (read_path(body, path) for path in _MESSAGE_PATHS)
    return next((each for each in found if isinstance(each, str) and has_text(each)), "")


def is_error_event(data: Plain | Unknown) -> bool:
    """Whether the data of a stream's event is an error with a message."""
    return isinstance(data, dict) and "error" in data and bool(read_message(data))
