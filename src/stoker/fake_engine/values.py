"""What flows through the fake engine: a question, what the model says, and the response to it.

All frozen. Faults change them with :func:`dataclasses.replace` or with the functions below.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.fake_engine.tokens import join_tokens, split_tokens

Data = dict[str, Any]
DONE = "[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it came in. ``headers`` have lower-case names, ``path`` may hold a query."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a tool. ``arguments`` is JSON as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of the conversation. ``images`` are the URLs of its pictures."""

    role: str
    text: str = ""
    images: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the answer is to be made. ``max_tokens`` None: as many as fit.

    ``top_logprobs`` None: no log-probabilities are wanted.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    ignores_end: bool = False
    stops: tuple[str, ...] = ()
    temperature: float = 1.0
    seed: int | None = None
    count: int = 1
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the answer must look like: an instance of a JSON schema, or of a regular expression."""

    schema: Any = None
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the model, whatever interface it came through.

    ``tool_choice``: auto, required, none or ``=NAME`` for one tool. ``prompt`` is a text to go on
    with, None for a conversation. ``is_drafted``: speculation is not switched off.
    """

    turns: tuple[Turn, ...] = ()
    tools: tuple[Data, ...] = ()
    tool_choice: str = "auto"
    is_parallel: bool = True
    shape: Shape | None = None
    sampling: Sampling = field(default_factory=Sampling)
    is_thinking: bool = True
    prompt: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    is_echoed: bool = False
    is_drafted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprob:
    """One token of the answer with the likeliest ones at its place, natural logarithms."""

    token: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What the model says for one choice, in tokens (bytes: one may be a part of a character).

    ``has_end``: the token that ends an answer was made, and is counted. ``stop_note``: the
    engine's own word on what ended it. ``logprobs`` are those of the reasoning and the content,
    None where they are not wanted. ``extra`` goes into the choice that ends.
    """

    reasoning: tuple[bytes, ...] = ()
    content: tuple[bytes, ...] = ()
    calls: tuple[Call, ...] = ()
    finish_reason: str = "stop"
    stop_note: Any = None
    has_end: bool = True
    prompt_tokens: int = 0
    cached_tokens: int = 0
    image_tokens: int = 0
    logprobs: tuple[Logprob, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content."""
        return join_tokens(self.content)

    @property
    def thoughts(self) -> str:
        """The reasoning."""
        return join_tokens(self.reasoning)

    @property
    def completion_tokens(self) -> int:
        """All tokens that were made."""
        calls = sum(len(call_tokens(call)) for call in self.calls)
        return len(self.reasoning) + len(self.content) + calls + self.has_end


def call_tokens(call: Call) -> tuple[bytes, ...]:
    """The tokens of a call: its name, then its arguments."""
    return split_tokens(f"{call.name} {call.arguments}")


def say(generated: Generated, text: str) -> Generated:
    """The same with another content."""
    return replace(generated, content=split_tokens(text), logprobs=None)


def think(generated: Generated, text: str) -> Generated:
    """The same with other thoughts."""
    return replace(generated, reasoning=split_tokens(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One write on the connection, so long after the one before it; ``tokens`` are made by then."""

    data: bytes
    after_seconds: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What is sent. A stream has many parts, a plain reply one.

    ``is_cut``: the connection is closed after the last part, without the end of the reply.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    is_streamed: bool = False
    is_cut: bool = False

    @property
    def body(self) -> bytes:
        """All bytes of it."""
        return b"".join(part.data for part in self.parts)

    def with_body(self, body: bytes) -> Response:
        """The same with other bytes: of a stream all at the end, of a plain reply when it came."""
        seconds = sum(part.after_seconds for part in self.parts)
        tokens = sum(part.tokens for part in self.parts)
        return replace(self, parts=(Part(data=body, after_seconds=seconds, tokens=tokens),))

    def with_header(self, name: str, value: str) -> Response:
        """The same with one more header, or another value of it."""
        return replace(self, headers={**self.headers, name: value})


def write_json(data: Any) -> bytes:
    """Data as the engines write it: UTF-8, without spaces; a lone surrogate as an escape."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def json_response(data: Any, status: int = 200, **headers: str) -> Response:
    """A plain reply."""
    return Response(
        status=status,
        headers={"Content-Type": "application/json", **headers},
        parts=(Part(data=write_json(data)),),
    )


def text_of(parts: Sequence[Data] | str | None) -> str:
    """The text of a message, which is a text or a list of parts."""
    if isinstance(parts, str):
        return parts
    found = [part.get("text") for part in parts or () if isinstance(part, dict)]
    return "".join(text for text in found if isinstance(text, str))
