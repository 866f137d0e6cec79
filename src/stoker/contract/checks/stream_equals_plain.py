"""Promise: a stream joins to the very answer that comes in one piece.

A chunk that is lost, doubled or misplaced leaves a text that looks well and is wrong. Engines
compute a little differently with each batch, so one answer may part from another; what is looked
for is a stream that parts always, or that is the plain answer with pieces missing.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.chat import ask_long, count_tokens, find_form_flaw, read_choice
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.model.contract import Exchange, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

#: That as many streams part by chance from a plain answer which never changes is hardly possible.
_ROUNDS = 5

_EXPECTED = "a stream that joins to the plain answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What one form said. Engines trim the ends of a plain text and not those of a stream."""

    reasoning: str
    content: str
    finish_reason: Plain
    tokens: int | None

    @property
    def words(self) -> list[str]:
        """All words, thoughts first."""
        return f"{self.reasoning}\n{self.content}".split()


def _procedure(subject: Subject) -> Steps[Judgement]:
    plains: list[_Form] = []
    streams: list[_Form] = []
    for number in range(_ROUNDS):
        plain, streamed = yield from ask_each(ask_long(subject, is_new=number > 0))
        flaw = find_form_flaw(plain) or find_form_flaw(streamed)
        if flaw:
            return flaw
        plains.append(_read(plain))
        streams.append(_read(streamed))
        flaw = _find_loss(plains[-1], streams[-1])
        if flaw:
            return flaw
        if any(_is_same(plain, streamed) for plain in plains for streamed in streams):
            return passed(_EXPECTED, f"{len(plains[-1].words)} words in both")
    return _judge_all(plains, streams)


def _read(exchange: Exchange) -> _Form:
    answer = read_choice(exchange)
    reasoning, content = (
        value.strip() if isinstance(value, str) else ""
        for value in (answer.reasoning, answer.content)
    )
    return _Form(
        reasoning=reasoning,
        content=content,
        finish_reason=answer.finish_reason,
        tokens=count_tokens(exchange, "completion_tokens"),
    )


def _is_same(plain: _Form, streamed: _Form) -> bool:
    is_counted = plain.tokens is not None and streamed.tokens is not None
    return (
        plain.reasoning == streamed.reasoning
        and plain.content == streamed.content
        and plain.finish_reason == streamed.finish_reason
        and (plain.tokens == streamed.tokens or not is_counted)
    )


def _find_loss(plain: _Form, streamed: _Form) -> Judgement | None:
    """As many tokens and fewer or more words, all others the same: no computing does that."""
    if plain.tokens is None or plain.tokens != streamed.tokens:
        return None
    if plain.finish_reason != streamed.finish_reason or plain.words == streamed.words:
        return None
    kind = _find_missing(plain.words, streamed.words)
    return _tell(plain, streamed, kind) if kind else None


def _find_missing(plain: Sequence[str], streamed: Sequence[str]) -> str:
    """Whether words are only ``lost`` in the stream or only ``added``; empty for other changes."""
    matcher = difflib.SequenceMatcher(a=plain, b=streamed, autojunk=False)
    changes = {tag for tag, *_ in matcher.get_opcodes()} - {"equal"}
    if changes == {"delete"} and streamed:
        return "lost"
    return "added" if changes == {"insert"} and plain else ""


def _tell(plain: _Form, streamed: _Form, kind: str) -> Judgement:
    if kind == "finish_reason":
        found = f"plain {quote(plain.finish_reason)}, streamed {quote(streamed.finish_reason)}"
    elif kind == "tokens":
        found = f"{plain.tokens} tokens plain, {streamed.tokens} streamed, for the same text"
    else:
        found = f"plain {quote(_show(plain, streamed))}, streamed {quote(_show(streamed, plain))}"
    return failed(_EXPECTED, found, "stream_differs", kind=kind)


def _show(form: _Form, other: _Form) -> str:
    """The text from a little before the place where it parts from the other one."""
    text, other_text = (f"{each.reasoning} {each.content}".strip() for each in (form, other))
    same = next(
        (place for place, (a, b) in enumerate(zip(text, other_text, strict=False)) if a != b),
        min(len(text), len(other_text)),
    )
    start = max(0, same - 20)
    return f"{'...' if start else ''}{text[start : start + 80]}"


def _judge_all(plains: Sequence[_Form], streams: Sequence[_Form]) -> Judgement:
    """No stream was like any plain answer."""
    # The first question is computed without the cache, and may be answered otherwise for that.
    plain, streamed = plains[-1], streams[-1]
    if any(each != plain for each in plains[1:]):
        return skipped(_EXPECTED, f"another answer each time, {_ROUNDS} times in both forms")
    return _tell(plain, streamed, _name_difference(plain, streamed))


def _name_difference(plain: _Form, streamed: _Form) -> str:
    """In what two forms differ."""
    if plain.words != streamed.words:
        return _find_missing(plain.words, streamed.words) or "changed"
    if plain.content.split() != streamed.content.split():
        return "place"
    if (plain.reasoning, plain.content) != (streamed.reasoning, streamed.content):
        return "spaces"
    return "finish_reason" if plain.finish_reason != streamed.finish_reason else "tokens"


CHECK = Check(
    id="stream_equals_plain",
    title="A stream is the plain answer",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
