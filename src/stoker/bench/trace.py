"""The user's own requests: a file with one of them a line, sent in turn or as it was recorded.

Called by the command that benchmarks. It reads from an open file and sends nothing. What a line
may be is told in :mod:`stoker.bench.lines`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stoker.bench.lines import BLOCK_TOKENS, BadLine, Line, count_characters, parse_line
from stoker.bench.prompts import Chance, count_words_of, load_text, pick, write_text
from stoker.bench.requests import (
    Planned,
    Talk,
    Turn,
    asked_of,
    make_fields,
    plan_talk,
    render_body,
)
from stoker.errors import UsageError
from stoker.model.benchmark import Lengths, Workload
from stoker.model.facts import Plain

#: Where reading ends, so that a file of any size costs bounded memory and a bounded wait.
MOST_REQUESTS = 100_000
_MOST_BYTES = 256 * 2**20
_MOST_LINE_BYTES = 16 * 2**20
#: Beyond so many wrong lines the file is of another form, and more of them say nothing new.
_MOST_PROBLEMS = 100
_SHOWN_PROBLEMS = 8
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")
#: More characters than a tokenizer puts into a token over a whole text: our prose has 4.6, words
#: without sense 6.4. A text that is too long by this figure surely is.
_MOST_CHARACTERS_A_TOKEN = 16
#: The usual figure, for the length of a recorded answer of which only the text is known.
_CHARACTERS_A_TOKEN = 4
_SEEDS = 2**53
_MASK = 2**64 - 1


class ByteLines(Protocol):
    """An open binary file."""

    def readline(self, size: int = -1, /) -> bytes:
        """The next line with its end, cut at ``size`` bytes; empty at the end of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The requests of a file. ``is_trace``: each says when it was sent, and they stand in that
    order. ``is_cut``: the file has more of them than were read."""

    name: str
    lines: tuple[Line, ...]
    is_trace: bool = False
    is_cut: bool = False


def read_requests(stream: ByteLines, *, name: str, most: int = MOST_REQUESTS) -> Recorded:
    """The first ``most`` requests of a file, read as far as they are needed.

    ``name`` of the file stands in messages. Raises UsageError: one sentence for all that is wrong.
    """
    lines: list[Line] = []
    problems: list[str] = []
    read_bytes = 0
    for number, raw in enumerate(_read_lines(stream), 1):
        text = _decode(raw, number=number, name=name, is_first=not lines and not problems)
        read_bytes += len(raw)
        if text.strip():
            _add_line(text, number, lines, problems)
        if len(lines) >= most or read_bytes > _MOST_BYTES or len(problems) >= _MOST_PROBLEMS:
            break
    if problems:
        raise UsageError(_describe_problems(name, problems), _FORMS)
    if not lines:
        raise UsageError(f"{name} holds no request: it is empty", _FORMS)
    recorded = Recorded(name=name, lines=tuple(lines), is_cut=bool(stream.readline(1)))
    return _order(recorded)


_FORMS = (
    'write one JSON object a line, such as {"messages": [{"role": "user", "content": "Hello"}], '
    '"max_tokens": 100}'
)


def _read_lines(stream: ByteLines) -> Iterator[bytes]:
    while raw := stream.readline(_MOST_LINE_BYTES + 1):
        yield raw


def _decode(raw: bytes, *, number: int, name: str, is_first: bool) -> str:
    if number == 1 and raw.startswith(_COMPRESSED):
        raise UsageError(f"{name} is compressed: unpack it first")
    if b"\0" in raw:
        raise UsageError(f"{name} is no text: there is a zero byte in line {number}", _FORMS)
    if len(raw) > _MOST_LINE_BYTES:
        size = f"{_MOST_LINE_BYTES // 2**20} MiB"
        raise UsageError(f"{name}: line {number} is longer than {size}", _FORMS)
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        message = f"{name} is no text in UTF-8: line {number}, byte {error.start + 1}"
        raise UsageError(message, _FORMS) from error
    if is_first and text.lstrip().startswith("["):
        raise UsageError(
            f"{name} begins with a JSON array, and wanted is one JSON object a line",
            "take the array apart: jq -c '.[]' FILE > LINES",
        )
    return text


def _add_line(text: str, number: int, lines: list[Line], problems: list[str]) -> None:
    try:
        lines.append(parse_line(text, number=number))
    except BadLine as problem:
        problems.append(f"line {number}: {problem}")


def _describe_problems(name: str, problems: Sequence[str]) -> str:
    shown = "; ".join(problems[:_SHOWN_PROBLEMS])
    count = len(problems)
    if count == 1:
        return f"{name} has a line that is no request: {shown}"
    rest = f"; and {count - _SHOWN_PROBLEMS} more" if count > _SHOWN_PROBLEMS else ""
    most = "at least " if count >= _MOST_PROBLEMS else ""
    return f"{name} has {most}{count} lines that are no requests: {shown}{rest}"


def _order(recorded: Recorded) -> Recorded:
    """The same with its moments in order. Raises UsageError where only some lines have one."""
    without = [line.number for line in recorded.lines if line.at_seconds is None]
    if len(without) == len(recorded.lines):
        return recorded
    if without:
        shown = ", ".join(map(str, without[:_SHOWN_PROBLEMS]))
        more = ", ..." if len(without) > _SHOWN_PROBLEMS else ""
        raise UsageError(
            f"{recorded.name}: {len(without)} of {len(recorded.lines)} requests have no timestamp "
            f"(lines {shown}{more})",
            "give all of them one to replay the file, or none to send it in turn",
        )
    lines = tuple(sorted(recorded.lines, key=_moment))
    return replace(recorded, lines=lines, is_trace=True)


def _moment(line: Line) -> float:
    return line.at_seconds or 0.0


def describe_workload(recorded: Recorded) -> Workload:
    """A file's requests as a workload of the shape ``file``, for results."""
    prompts = [line.prompt_tokens for line in recorded.lines if line.prompt_tokens]
    answers = [line.asked_tokens for line in recorded.lines if line.asked_tokens]
    count = len(recorded.lines)
    beginning = "the first " if recorded.is_cut else ""
    return Workload(
        name=recorded.name,
        title=f"{beginning}{count:,} requests of {recorded.name}",
        shape="file",
        prompt_tokens=_spread(prompts),
        output_tokens=_spread(answers),
        turns=max(max(1, len(line.said)) for line in recorded.lines),
        stops_early=any(not line.prompt_tokens for line in recorded.lines),
        source=recorded.name,
    )


def _spread(tokens: Sequence[int]) -> Lengths:
    """The least, the median and the most of lengths; nothing where none are known."""
    if not tokens:
        return Lengths()
    middle = sorted(tokens)[len(tokens) // 2]
    return Lengths(spread="uniform", median=middle, least=min(tokens), most=max(tokens))


def judge_recorded(recorded: Recorded, context_tokens: int | None) -> str | None:
    """One sentence where requests of a file surely do not fit into a server's context, else None.

    The tokens of a text are not known before it is sent: it is too long where it would be with
    more characters to a token than any tokenizer reaches.
    """
    if context_tokens is None:
        return None
    needed = {line.number: _least_tokens(line) for line in recorded.lines}
    too_long = [number for number, tokens in needed.items() if tokens > context_tokens]
    if not too_long:
        return None
    longest = max(too_long, key=lambda number: needed[number])
    noun = "request" if len(too_long) == 1 else "requests"
    return (
        f"{len(too_long):,} {noun} of {recorded.name} would not fit into the server's context of "
        f"{context_tokens:,} tokens (line {longest} needs {needed[longest]:,} or more): take "
        "them out, or serve a longer context"
    )


def _least_tokens(line: Line) -> int:
    texts = count_characters(line) // _MOST_CHARACTERS_A_TOKEN
    return texts + line.prompt_tokens + (line.asked_tokens or 0)


def plan_recorded(
    recorded: Recorded,
    *,
    model: str,
    rng: Chance,
    tokens_per_word: float,
    extra: Mapping[str, Plain] | None = None,
    whole_length: Mapping[str, Plain] | None = None,
    speed: float = 1.0,
) -> Iterator[Planned]:
    """The first requests of a file's conversations, in order.

    A trace ends with its last request; each is due when it was recorded, from the first one on and
    ``speed`` times as fast. Other files begin again behind their end. What a line says of its body
    goes before ``extra``; ``model`` is the server's own in any case. ``whole_length`` is for traces
    without texts, whose answers have a length that is known. Raises UsageError for a speed that is
    none.
    """
    if not (speed > 0.0 and math.isfinite(speed)):
        raise UsageError(f"a trace cannot be replayed {speed:g} times as fast: give more than 0")
    maker = _Maker(
        model=model,
        extra=extra or {},
        whole_length=whole_length or {},
        seed=pick(rng, _SEEDS),
        tokens_per_word=tokens_per_word,
    )
    begin = _moment(recorded.lines[0])
    lines = recorded.lines if recorded.is_trace else itertools.cycle(recorded.lines)
    for session, line in enumerate(lines):
        due = (_moment(line) - begin) / speed if recorded.is_trace else None
        yield maker.plan(line, session, due)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Makes requests of lines."""

    model: str
    extra: Mapping[str, Plain]
    whole_length: Mapping[str, Plain]
    seed: int
    tokens_per_word: float

    def plan(self, line: Line, session: int, due_seconds: float | None) -> Planned:
        if line.prompt_tokens:
            fields = make_fields(self.model, self.extra, self.whole_length)
            turns: tuple[Turn, ...] = (
                Turn(text=self._write(line), fields={"max_tokens": line.asked_tokens}),
            )
            first: tuple[Mapping[str, Plain], ...] = ()
        elif line.said:
            fields = make_fields(self.model, self.extra, {})
            turns = tuple(_plan_said(each.text, each.answer_characters) for each in line.said)
            first = tuple(line.body["messages"])
        else:
            return self._plan_body(line, session, due_seconds)
        talk = Talk(
            session=session, turns=turns, fields=fields, first=first, due_seconds=due_seconds
        )
        return plan_talk(talk)

    def _plan_body(self, line: Line, session: int, due_seconds: float | None) -> Planned:
        fields = {**make_fields(self.model, self.extra, {}), **line.body, "model": self.model}
        return Planned(
            path=line.path,
            body=render_body(fields),
            session=session,
            asked_tokens=asked_of(fields),
            due_seconds=due_seconds,
        )

    def _write(self, line: Line) -> str:
        """A text whose blocks follow from their ids alone, so that equal ids are equal texts."""
        # The request's own line stands in for the ids that it lacks, below the ids of others.
        count = -(-line.prompt_tokens // BLOCK_TOKENS)
        ids = line.blocks or [-(line.number * _MOST_BLOCKS + n) for n in range(count)]
        lengths = [BLOCK_TOKENS] * (count - 1)
        lengths.append(line.prompt_tokens - BLOCK_TOKENS * (count - 1))
        return "\n\n".join(map(self._write_block, ids, lengths))

    def _write_block(self, identity: int, tokens: int) -> str:
        words = count_words_of(tokens, self.tokens_per_word)
        chance = Mixer((self.seed ^ (identity * _ODD)) & _MASK)
        # The seed keeps two replays of one file apart, the identity two blocks.
        number = (self.seed + identity) % _SEEDS
        return write_text(load_text("prose"), words, chance=chance, number=number)


#: More blocks than any prompt that is accepted has.
_MOST_BLOCKS = 2**20
#: The golden ratio's 64 bits, odd: the increment of SplitMix64.
_ODD = 0x9E3779B97F4A7C15


class Mixer:
    """A small source of chance that costs nothing to begin: SplitMix64 (Steele, Lea and Flood,
    Fast Splittable Pseudorandom Number Generators, 2014)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def random(self) -> float:
        """The next number, from 0 up to but not including 1."""
        self._state = (self._state + _ODD) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return float((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53


def _plan_said(text: str, answer_characters: int) -> Turn:
    if not answer_characters:
        return Turn(text=text)
    # No tokenizer is here: the answer is about as long as the recorded one.
    return Turn(text=text, fields={"max_tokens": max(1, answer_characters // _CHARACTERS_A_TOKEN)})
