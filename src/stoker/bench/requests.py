"""What is sent: the requests of a workload, one after the other and without end.

Called by the command that benchmarks, which hands them to the client. Pure: the same workload,
model, chance and figures give the same bytes. Requests of the user's own files are the work of
:mod:`stoker.bench.trace`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files

from stoker.bench.prompts import (
    Chance,
    Text,
    count_words_of,
    draw_length,
    load_text,
    longest,
    pick,
    write_nonsense,
    write_prompt,
    write_text,
)
from stoker.errors import DataError
from stoker.model.benchmark import Workload
from stoker.model.facts import Plain

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
#: Before the numbers that openings follow from: as many as a load will ever send lie between two.
_NUMBER_ROOM = 2**48
#: What a template may add to a request: roles, a system prompt of its own, the date.
_TEMPLATE_TOKENS = 64
#: What the tools add: 490 tokens as JSON by SmolLM2's tokenizer, and templates say more of them.
_TOOLS_TOKENS = 700
#: How far a prompt's tokens lie from what was wanted, since passages differ: code of 500 tokens
#: had up to 6 % more than the calibrated figure by SmolLM2's tokenizer.
_INEXACT_SHARE = 0.06
#: Long enough to tell the tokens of words from the template's, short enough for a slow server.
CALIBRATION_WORDS = (32, 512)
#: In place of an answer without text and calls (thoughts alone, for one): templates want one.
_NO_ANSWER = "I have no answer to this yet."
_GO_ON = "Go on with the task. This is what there is at this place:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered, as far as a conversation goes on from it.

    ``tool_calls`` are those of the interface, put together from their pieces: ``id``, ``type`` and
    ``function`` with ``name`` and ``arguments``.
    """

    text: str = ""
    tool_calls: tuple[Mapping[str, Plain], ...] = ()
    finish_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One request to send.

    ``body`` is JSON and asks for a stream with usage. ``session``: requests of one conversation
    have the same. ``asked_tokens``: the answer's length that it asks for. ``due_seconds``: only of
    a replayed trace. ``follow``: makes the next turn from the answer; it may be called at any time
    and in any order, and uses no chance.
    """

    path: str
    body: bytes
    session: int = 0
    asked_tokens: int | None = None
    due_seconds: float | None = None
    follow: Callable[[Answer], Planned | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a person or a tool says next. ``fields``: of this request's body alone."""

    text: str
    fields: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A conversation before it is held. ``fields``: of every request's body.

    ``first``: what stands before the first turn, as messages. ``due_seconds``: of its beginning.
    """

    session: int
    turns: tuple[Turn, ...]
    fields: Mapping[str, Plain]
    first: tuple[Mapping[str, Plain], ...] = ()
    due_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRequest:
    """A request whose prompt has so many ``words``."""

    planned: Planned
    words: int


def plan_requests(
    workload: Workload,
    *,
    model: str,
    rng: Chance,
    tokens_per_word: float,
    extra: Mapping[str, Plain] | None = None,
    whole_length: Mapping[str, Plain] | None = None,
) -> Iterator[Planned]:
    """The first requests of a workload's conversations, without end.

    ``extra``: fields of every body; they go before ``temperature`` 0 and ``whole_length``, not
    before the lengths of the workload. ``whole_length``: the fields that make this engine go on to
    ``max_tokens``; they are left out where the workload stops early. Lengths are of the words
    alone: what the template and the tools add comes on top. Raises ValueError for the shape
    ``file``.
    """
    if workload.shape == "file":
        raise ValueError("the requests of a file are planned by stoker.bench.trace")
    fields = make_fields(model, extra or {}, {} if workload.stops_early else whole_length or {})
    if workload.shape == "tool_loop":
        fields["tools"] = load_tools()
    numbers = itertools.count(pick(rng, _NUMBER_ROOM))
    maker = _Maker(workload=workload, chance=rng, numbers=numbers, tokens_per_word=tokens_per_word)
    prefixes = maker.write_prefixes()
    for session in itertools.count():
        first: tuple[Mapping[str, Plain], ...] = ()
        if prefixes:
            first = ({"role": "system", "content": prefixes[pick(rng, len(prefixes))]},)
        turns = tuple(maker.write_turns())
        yield plan_talk(Talk(session=session, turns=turns, fields=fields, first=first))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Writes the texts of a workload; ``numbers`` makes each begin differently."""

    workload: Workload
    chance: Chance
    numbers: Iterator[int]
    tokens_per_word: float

    @property
    def text(self) -> Text:
        return load_text(self.workload.text)

    def write_prefixes(self) -> tuple[str, ...]:
        if not self.workload.prefix_tokens:
            return ()
        words = count_words_of(self.workload.prefix_tokens, self.tokens_per_word)
        return tuple(
            write_text(self.text, words, chance=self.chance, number=next(self.numbers))
            for _ in range(self.workload.prefixes)
        )

    def write_turns(self) -> Iterator[Turn]:
        workload = self.workload
        for turn in range(workload.turns):
            lengths = workload.turn_tokens if turn else workload.prompt_tokens
            words = count_words_of(draw_length(lengths, self.chance), self.tokens_per_word)
            output_tokens = draw_length(workload.output_tokens, self.chance)
            yield Turn(text=self.write(words), fields={"max_tokens": output_tokens})

    def write(self, words: int) -> str:
        write = write_nonsense if self.workload.shape == "random" else write_prompt
        return write(self.text, words, chance=self.chance, number=next(self.numbers))


def make_fields(
    model: str, extra: Mapping[str, Plain], whole_length: Mapping[str, Plain]
) -> dict[str, Plain]:
    """The fields of every body; a new table."""
    return {"model": model, "temperature": 0, **whole_length, **extra}


def render_body(fields: Mapping[str, Plain]) -> bytes:
    """A request's body, which asks for a stream with usage whatever else it asks for."""
    options = fields.get("stream_options")
    options = {**(options if isinstance(options, Mapping) else {}), "include_usage": True}
    body = {**fields, "stream": True, "stream_options": options}
    return json.dumps(body, separators=(",", ":")).encode()


def plan_talk(talk: Talk) -> Planned:
    """The first request of a conversation."""
    turn = talk.turns[0]
    return _plan_turn(talk, 0, (*talk.first, {"role": "user", "content": turn.text}))


def _plan_turn(talk: Talk, index: int, messages: Sequence[Mapping[str, Plain]]) -> Planned:
    fields = {**talk.fields, "messages": messages, **talk.turns[index].fields}
    is_last = index + 1 == len(talk.turns)
    return Planned(
        path=CHAT_PATH,
        body=render_body(fields),
        session=talk.session,
        asked_tokens=asked_of(fields),
        due_seconds=None if index else talk.due_seconds,
        follow=None if is_last else partial(_follow, talk, index + 1, messages),
    )


def _follow(
    talk: Talk, index: int, messages: Sequence[Mapping[str, Plain]], answer: Answer
) -> Planned:
    """All that was said, the server's own answer, and the next turn: a tool's or a person's."""
    text = talk.turns[index].text
    if not answer.tool_calls:
        said: Mapping[str, Plain] = {
            "role": "assistant",
            "content": answer.text or _NO_ANSWER,
        }
        reply = f"{_GO_ON}\n\n{text}" if "tools" in talk.fields else text
        return _plan_turn(talk, index, (*messages, said, {"role": "user", "content": reply}))
    calls = [_clean_call(call, index, n) for n, call in enumerate(answer.tool_calls)]
    said = {"role": "assistant", "content": answer.text, "tool_calls": calls}
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "done" if n else text}
        for n, call in enumerate(calls)
    ]
    return _plan_turn(talk, index, (*messages, said, *results))


def _clean_call(call: Mapping[str, Plain], index: int, number: int) -> dict[str, Plain]:
    """A call as a server takes it back: engines refuse arguments that are no JSON object, which is
    what a call is that was cut short."""
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments = function.get("arguments")
    return {
        "id": str(call.get("id") or f"call_{index}_{number}"),
        "type": "function",
        "function": {
            "name": str(function.get("name") or "unknown"),
            "arguments": arguments if _is_object(arguments) else "{}",
        },
    }


def _is_object(text: Plain) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def asked_of(fields: Mapping[str, Plain]) -> int | None:
    """The answer's length that a body asks for."""
    for name in ("max_completion_tokens", "max_tokens"):
        if isinstance(value := fields.get(name), int):
            return value
    return None


@cache
def load_tools() -> tuple[Mapping[str, Plain], ...]:
    """The tools that a tool loop offers, from our own package. Raises DataError."""
    try:
        found = json.loads(files("stoker.bench").joinpath("texts", "tools.json").read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"the tools of the tool loop cannot be read: {error}") from error
    return tuple(found)


def plan_calibration(
    workload: Workload,
    *,
    model: str,
    rng: Chance,
    extra: Mapping[str, Plain] | None = None,
    words: Sequence[int] = CALIBRATION_WORDS,
) -> tuple[CalibrationRequest, ...]:
    """Requests with prompts of known words and an answer of one token, for ``calibrate``."""
    fields = {**make_fields(model, extra or {}, {}), "max_tokens": 1}
    numbers = itertools.count(pick(rng, _NUMBER_ROOM))
    maker = _Maker(workload=workload, chance=rng, numbers=numbers, tokens_per_word=1.0)
    return tuple(
        CalibrationRequest(
            planned=plan_talk(
                Talk(session=session, turns=(Turn(text=maker.write(count)),), fields=fields)
            ),
            words=count,
        )
        for session, count in enumerate(words)
    )


def most_tokens(workload: Workload) -> int:
    """What the longest conversation of a workload may need of a server's context, in tokens."""
    turns = workload.turns
    written = workload.prefix_tokens + longest(workload.prompt_tokens)
    written += (turns - 1) * longest(workload.turn_tokens)
    answered = turns * longest(workload.output_tokens)
    added = _TEMPLATE_TOKENS + (_TOOLS_TOKENS if workload.shape == "tool_loop" else 0)
    return written + round(written * _INEXACT_SHARE) + answered + added


def judge_lengths(workload: Workload, context_tokens: int | None) -> str | None:
    """One sentence where a workload does not fit into a server's context; None where it does or
    where the context is not known."""
    needed = most_tokens(workload)
    if context_tokens is None or needed <= context_tokens or workload.shape == "file":
        return None
    return (
        f"the workload {workload.name} needs up to {needed:,} tokens of context for one "
        f"conversation (prompts, answers and what the template adds), and the server's context "
        f"holds {context_tokens:,}: choose a shorter workload, or serve a longer context"
    )
