"""A switch of the fake engine: one broken promise, and which checks must notice it.

A fault changes what a correct engine does in exactly one place of its way: what the model says,
the JSON of a reply, the chunks or the events of a stream, the whole response, when it comes, or
the bytes of the wire. Hooks are called for every request and leave alone what they are not about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.fake_engine.script import Script
    from stoker.fake_engine.values import Generated, Response

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The request that is being answered, and how the engine stands then.

    ``number`` counts the requests since the start, from 1; ``parallel`` those that are being
    answered now, this one with them. ``is_restored``: a part of the prompt came back from the
    cache in host memory. ``memory`` is the fault's own, kept from one request to the next.
    """

    method: str
    path: str
    question: Data
    number: int
    parallel: int
    prompt_tokens: int = 0
    cached_tokens: int = 0
    is_restored: bool = False
    is_sampled: bool = False
    is_streamed: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One switch. ``title`` is half a sentence that says what is broken.

    ``killed_by``: checks that must fail on it, at ``level`` at the latest; others may fail too.
    ``script`` changes the engine itself before it starts, ``answer`` what the model says, ``reply``
    the JSON of a plain reply (of any path), ``chunks`` and ``events`` a stream, ``response`` the
    whole of it with status and headers, ``delay_seconds`` how long the first byte waits, ``wire``
    takes the connection itself (see :mod:`stoker.fake_engine.server`).
    """

    name: str
    title: str
    killed_by: frozenset[str]
    level: str = "quick"
    script: Callable[[Script], Script] | None = None
    answer: Callable[[Generated, Moment], Generated] | None = None
    reply: Callable[[Data, Moment], Data] | None = None
    chunks: Callable[[list[Data], Moment], list[Data]] | None = None
    events: Callable[[list[str], Moment], list[str]] | None = None
    response: Callable[[Response, Moment], Response] | None = None
    delay_seconds: Callable[[Moment], float] | None = None
    wire: Callable[[Any], object] | None = None
