"""Replies of the chat interface, made by hand: what a server might say, whatever it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.contract.judgement import Judgement
from stoker.contract.selection import discover_checks
from stoker.model.contract import Exchange, Manners, Request, Subject

NAME = "a-model"
CHECKS = {check.id: check for check in discover_checks()}
STRANGER = Subject(published_name=NAME)
KNOWN = Subject(published_name=NAME, manners=Manners(engine="an-engine", title="an engine"))

#: Enough for every plan.
_MOST_EXCHANGES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One answer. ``pieces``: how a stream cuts it, the whole where it is empty."""

    content: str = "It is 4."
    reasoning: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 20
    tokens: int = 5
    pieces: tuple[str, ...] = ()
    entries: Sequence[Any] | None = None

    @property
    def usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": total,
        }


def reply(request: Request, said: Said | Sequence[Said]) -> Exchange:
    """The exchange in the form that the request asks for; several answers are several choices."""
    answers = [said] if isinstance(said, Said) else list(said)
    if request.stream:
        return Exchange(request=request, status=200, events=_write_events(answers))
    choices = [
        {
            "index": index,
            "message": {
                "role": "assistant",
                "content": each.content,
                "reasoning_content": each.reasoning or None,
            },
            "finish_reason": each.finish_reason,
            "logprobs": None if each.entries is None else {"content": each.entries},
        }
        for index, each in enumerate(answers)
    ]
    body = {"object": "chat.completion", "id": "c-1", "model": NAME, "choices": choices}
    return Exchange(
        request=request, status=200, body=json.dumps({**body, "usage": answers[0].usage})
    )


def _write_events(answers: Sequence[Said]) -> tuple[str, ...]:
    def chunk(choices: list[Any], **more: Any) -> str:
        data = {"object": "chat.completion.chunk", "id": "c-1", "model": NAME, "choices": choices}
        return json.dumps({**data, **more})

    events = []
    for index, said in enumerate(answers):
        events.append(chunk([{"index": index, "delta": {"role": "assistant", "content": ""}}]))
        if said.reasoning:
            events.append(chunk([{"index": index, "delta": {"reasoning_content": said.reasoning}}]))
        for place, piece in enumerate(said.pieces or (said.content,)):
            entries = said.entries if place == 0 and said.entries is not None else None
            logprobs = {} if entries is None else {"logprobs": {"content": entries}}
            events.append(chunk([{"index": index, "delta": {"content": piece}, **logprobs}]))
        ending = {"index": index, "delta": {}, "finish_reason": said.finish_reason}
        events.append(chunk([ending]))
    return (*events, chunk([], usage=answers[0].usage), "[DONE]")


def refuse(request: Request, status: int = 400, message: str = "not supported") -> Exchange:
    """An error as the engines tell it."""
    body = json.dumps({"error": {"message": message}})
    return Exchange(request=request, status=status, body=body)


def try_check(
    name: str, answer: Callable[[Request, int], Exchange], subject: Subject = STRANGER
) -> Judgement:
    """Follow the plan of a check; ``answer`` gets each request and how many came before it."""
    check, exchanges = CHECKS[name], list[Exchange]()
    while len(exchanges) < _MOST_EXCHANGES and (batch := check.plan(subject, exchanges)):
        exchanges += [answer(request, len(exchanges)) for request in batch]
    judgement = check.judge(subject, exchanges)
    assert isinstance(judgement, Judgement)
    return judgement


def last_text(request: Request) -> str:
    """The last message of a chat request."""
    return str((request.body or {})["messages"][-1]["content"])


def count_words(request: Request) -> int:
    """How many words all messages of a chat request have."""
    messages = (request.body or {})["messages"]
    return sum(len(str(message["content"]).split()) for message in messages)
