"""Servers made by hand: a function answers each request, and a check is led to its end by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from stoker.contract import checks
from stoker.contract.judgement import Judgement
from stoker.contract.run import judge_check
from stoker.knowledge.manners import load_manners
from stoker.model.contract import Exchange, Manners, Request, Subject
from stoker.ports import Check
from tests.contract.trying import NAME

Serve = Callable[[Request], Exchange]

#: How each engine words a refusal: vLLM, llama.cpp and OpenAI; SGLang; FastAPI; a bare word.
REFUSALS = (
    {"error": {"message": "it is wrong", "type": "BadRequestError", "param": None, "code": 400}},
    {"object": "error", "message": "it is wrong", "type": "BadRequest", "code": 400},
    {"detail": "it is wrong"},
    {"detail": [{"loc": ["body"], "msg": "Field required", "type": "missing"}]},
    {"error": "it is wrong"},
)


def try_check(check_id: str, serve: Serve, subject: Subject | None = None) -> Judgement:
    """Lead one check through its plan. A plan that asks more than 400 times fails the test."""
    check: Check = import_module(f"{checks.__name__}.{check_id}").CHECK
    exchanges: list[Exchange] = []
    subject = subject or Subject(published_name=NAME)
    while batch := check.plan(subject, tuple(exchanges)):
        exchanges += map(serve, batch)
        assert len(exchanges) < 400
    return judge_check(check, subject, exchanges)


def subject_of(kind: str = "", **fields: Any) -> Subject:
    """A server in an engine's manners, an unknown one's without a name."""
    manners = load_manners()[kind].manners if kind else Manners()
    return Subject(published_name=NAME, manners=manners, **fields)


def reply(request: Request, data: Any, status: int = 200, **fields: Any) -> Exchange:
    """A reply in JSON."""
    return Exchange(
        request=request,
        status=status,
        media_type="application/json",
        body=json.dumps(data),
        **fields,
    )


def raw(request: Request, body: str, status: int, media_type: str = "text/plain") -> Exchange:
    """A reply that need not be JSON."""
    return Exchange(request=request, status=status, media_type=media_type, body=body)


def answer(
    request: Request, text: str = "4", *, finish_reason: str = "stop", prompt_tokens: int = 30
) -> Exchange:
    """A chat answer, streamed where that was asked for."""
    fields = {"id": "chat-1", "model": NAME, "created": 1}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 1}
    usage["total_tokens"] = prompt_tokens + 1
    message = {"role": "assistant", "content": text}
    if not request.stream:
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        body = {**fields, "object": "chat.completion", "choices": [choice], "usage": usage}
        return reply(request, body)
    fields["object"] = "chat.completion.chunk"
    deltas = [
        {"index": 0, "delta": message, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": finish_reason},
    ]
    events = [json.dumps({**fields, "choices": [delta]}) for delta in deltas]
    return _stream(request, [*events, "[DONE]"])


def _stream(request: Request, events: Sequence[str]) -> Exchange:
    return Exchange(
        request=request, status=200, media_type="text/event-stream", events=tuple(events)
    )


def left(request: Request, *, events: int, seconds: float) -> Exchange:
    """A stream that was left after so many events, the first of which came at once."""
    return replace(_stream(request, ["{}"] * events), seconds=seconds)


def listing(request: Request, **fields: Any) -> Exchange:
    """The list of models, with more fields for the one in it."""
    return reply(request, {"object": "list", "data": [{"id": NAME, "object": "model", **fields}]})


def broken(request: Request, kind: str = "protocol") -> Exchange:
    """A reply that never came whole."""
    return Exchange(request=request, error="the reply broke off", error_kind=kind)
