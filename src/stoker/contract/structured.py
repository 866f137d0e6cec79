"""Asking for an answer in a given form, and reading what came: JSON, a schema, a pattern.

The checks of structured output share it. An engine holds its model to the form token by token, so
the model's wit does not matter; but a small model may never come to the end. What the token limit
cut off is no flaw as long as it began rightly. Pure and total over what a server sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stoker.contract.completion import ask, has_text, join_answer, read_answer, read_chunks
from stoker.contract.judgement import Judgement, failed, quote, skipped
from stoker.contract.procedure import Steps, ask_one
from stoker.contract.reply import describe_status, find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.model.facts import Plain

#: How a server says that it cannot do what was asked; 422 is FastAPI's, 501 the honest one.
_REFUSALS = (400, 404, 405, 415, 422, 501)

#: A small model on a small machine may fill all of it.
_TIMEOUT_SECONDS = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Formed:
    """The content of an answer that was to have a form. ``form``: plain or streamed."""

    form: str
    content: str = ""
    was_cut: bool = False
    thought: bool = False


def ask_formed(
    subject: Subject, text: str, fields: Mapping[str, Plain], *, max_tokens: int
) -> Request:
    """A question with ``fields`` that demand a form."""
    simple = ask(subject.published_name, max_tokens=max_tokens)
    messages: list[Plain] = [{"role": "user", "content": text}]
    body = {**(simple.body or {}), "messages": messages, **fields}
    return replace(simple, body=body, timeout_seconds=_TIMEOUT_SECONDS)


def stream_of(request: Request) -> Request:
    """The same question, streamed."""
    return replace(request, body={**(request.body or {}), "stream": True}, stream=True)


def answer_formed(
    subject: Subject, request: Request, feature: Feature
) -> Steps[Formed | Judgement]:
    """The content; or a judgement where there is none to judge by.

    A model that used up its tokens on thoughts is asked again not to think.
    """
    exchange = yield from ask_one(request)
    formed = _read(subject, exchange, feature)
    if isinstance(formed, Judgement) or formed.content or not formed.was_cut:
        return formed
    body = {**(request.body or {}), **subject.manners.thinking_off}
    exchange = yield from ask_one(replace(request, body=body))
    return _read(subject, exchange, feature)


def _read(subject: Subject, exchange: Exchange, feature: Feature) -> Formed | Judgement:
    if exchange.status in _REFUSALS and not exchange.error:
        return _judge_refusal(subject, exchange, feature)
    flaw = find_reply_flaw(exchange)
    if flaw:
        return flaw
    streamed = exchange.request.stream
    form = "streamed" if streamed else "plain"
    answer = (
        join_answer(read_chunks(exchange.events))
        if streamed
        else read_answer(parse_json(exchange.body))
    )
    if answer.content is not None and not isinstance(answer.content, str):
        found = f"content that is no text: {quote(answer.content)}"
        return failed(f"a {form} answer with text as its content", found, "no_content")
    return Formed(
        form=form,
        content=answer.content or "",
        was_cut=answer.finish_reason == "length",
        thought=has_text(answer.reasoning),
    )


def _judge_refusal(subject: Subject, exchange: Exchange, feature: Feature) -> Judgement:
    expected = f"a server that offers {feature.replace('_', ' ')}"
    found = describe_status(exchange)
    if subject.promises(feature):
        return failed(expected, found, "structure_refused", status=exchange.status)
    return skipped(expected, found)


def find_silence(formed: Formed) -> Judgement | None:
    """Where nothing was said: cut off within thoughts it proves nothing, otherwise it is a flaw.

    An answer that ended by itself and is all thought is one that the reasoning parser took.
    """
    if formed.content.strip():
        return None
    expected = f"a {formed.form} answer with content"
    if formed.was_cut:
        kind = "thoughts" if formed.thought else "blanks"
        return skipped(expected, f"the token limit was used up by {kind}")
    if formed.thought:
        found = "no content: all of the answer, which ended by itself, was taken for thought"
        return failed(expected, found, "answer_in_reasoning", form=formed.form)
    return failed(expected, "no content", "no_content", form=formed.form)
