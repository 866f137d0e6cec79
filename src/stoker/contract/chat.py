"""Chat questions of all kinds, and reading the replies to them in either form.

The checks of the chat interface use this beside :mod:`stoker.contract.completion`, which holds the
one question of the quick contract. Pure and total.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stoker.contract.completion import DONE, Answer, find_shape_flaw, has_text, join_answer
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import find_message, find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, read_path

Message = dict[str, str]

#: What a server answers that knows the question and does not offer what it asks for.
_DECLINING = (400, 422, 501)


def user(text: str) -> Message:
    """A turn of the person."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """A turn of the model."""
    return {"role": "assistant", "content": text}


def system(text: str) -> Message:
    """What stands above the conversation."""
    return {"role": "system", "content": text}


def chat(
    subject: Subject,
    messages: Sequence[Message] | str,
    *,
    max_tokens: int | None,
    stream: bool = False,
    is_new: bool = False,
    **fields: Plain,
) -> Request:
    """A chat request at temperature 0, unless ``fields`` (of the body) say otherwise.

    A text stands for one turn of the person. ``max_tokens`` None leaves the limit out.
    """
    body: dict[str, Plain] = {
        "model": subject.published_name,
        "messages": [user(messages)] if isinstance(messages, str) else list(messages),
        "temperature": 0,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return Request(
        method="POST",
        path="/v1/chat/completions",
        body={**body, **fields},
        stream=stream,
        is_new=is_new,
    )


#: Whatever a model says to it is longer than a handful of tokens, and ends in the end.
LONG_QUESTION = "Write three sentences about the sea and the people who live beside it."
LONG_MAX_TOKENS = 96


def ask_long(subject: Subject, *, is_new: bool) -> tuple[Request, Request]:
    """A question with a longer answer in both forms: plain, streamed."""
    plain, streamed = (
        chat(subject, LONG_QUESTION, max_tokens=LONG_MAX_TOKENS, stream=stream, is_new=is_new)
        for stream in (False, True)
    )
    return plain, streamed


def no_thoughts(subject: Subject) -> dict[str, Plain]:
    """Fields that ask for an answer without thoughts; none for a stranger, who may refuse them."""
    return dict(subject.manners.thinking_off) if subject.manners.engine else {}


def find_form_flaw(exchange: Exchange) -> Judgement | None:
    """Why this is no successful reply in the form that was asked for; the answer is not judged."""
    flaw = find_reply_flaw(exchange)
    if flaw or not exchange.request.stream:
        return flaw or find_shape_flaw(parse_json(exchange.body), "chat.completion")
    if not exchange.events:
        found = f"a plain reply: {quote(exchange.body)}" if exchange.body else "no event at all"
        return failed("a stream of events (text/event-stream)", found, "not_streamed")
    shapes = (find_shape_flaw(data, "chat.completion.chunk") for data in _read_events(exchange))
    return next(filter(None, shapes), None)


def read_pieces(exchange: Exchange) -> list[dict[str, Any]]:
    """The JSON objects of a reply: the body of a plain one, the chunks of a streamed one."""
    parsed = _read_events(exchange) if exchange.request.stream else [parse_json(exchange.body)]
    return [data for data in parsed if isinstance(data, dict)]


def _read_events(exchange: Exchange) -> Iterable[Plain]:
    return [parse_json(event) for event in exchange.events if event != DONE]


def list_choices(piece: Plain) -> list[dict[str, Any]]:
    """The choices of one piece, in its order."""
    choices = read_path(piece, "choices")
    found = choices if isinstance(choices, list) else []
    return [choice for choice in found if isinstance(choice, dict)]


def read_choice(exchange: Exchange, index: int | None = None) -> Answer:
    """One answer of a reply in either form: the one with this index, or whichever stands first."""
    return join_answer([{"choices": _pick(piece, index)} for piece in read_pieces(exchange)])


def _pick(piece: Plain, index: int | None) -> list[dict[str, Any]]:
    choices = [_as_delta(choice) for choice in list_choices(piece)]
    if index is None:
        return choices[:1]
    return [choice for choice in choices if choice.get("index") == index]


def _as_delta(choice: dict[str, Any]) -> dict[str, Any]:
    return {**choice, "delta": choice["message"]} if "message" in choice else choice


def read_usage(exchange: Exchange) -> dict[str, Any] | None:
    """The last token counts of a reply, None where it carries none."""
    found = [piece.get("usage") for piece in read_pieces(exchange)]
    return next((usage for usage in reversed(found) if isinstance(usage, dict)), None)


def count_tokens(exchange: Exchange, field: str) -> int | None:
    """One of the token counts of a reply, None where it is missing or no count."""
    value = (read_usage(exchange) or {}).get(field)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def all_text(answer: Answer) -> str:
    """Thoughts and content, in the order in which a model writes them."""
    texts = [answer.reasoning, answer.content]
    return "\n".join(text for text in texts if isinstance(text, str) and has_text(text))


def is_declined(exchange: Exchange) -> bool:
    """Whether the server says clearly that it does not offer what was asked for."""
    return (
        not exchange.error and exchange.status in _DECLINING and bool(find_message(exchange.body))
    )
