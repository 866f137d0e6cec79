"""Promise: characters of all languages come back whole, in one piece and in a stream.

A character is often several tokens, and its bytes may come in several chunks. An engine that
decodes each for itself gives question marks. Only wholeness is judged: a small model may repeat
badly, and may even write bytes that are no character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.contract.chat import assistant, chat, find_form_flaw, no_thoughts, read_choice, user
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.left_marks import find_mark_flaw
from stoker.contract.nonsense import has_broken_characters
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.model.contract import Exchange, Request, Subject
from stoker.ports import Check

#: Emoji of several characters, East Asian, right to left, marks that stand on other letters.
_TEXTS = (
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \U0001f1ee\U0001f1f8",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0 \u6c49\u5b57 \ud55c\uad6d\uc5b4",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644 \u0928\u092e\u0938\u094d\u0924\u0947",
    "e\u0301a\u0308 n\u0303o\u0302 u\u0328\u0301 \u1e9e\u0142\u00f8",
)
_MAX_TOKENS = 96

#: Engines do not answer the same way each time, so a difference must come back to count.
_ROUNDS = 3

_EXPECTED = "whole characters, plain and streamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One text as it came back in both forms."""

    asked: str
    plain: str
    streamed: str
    is_plain_broken: bool
    is_stream_broken: bool

    @property
    def lost(self) -> str:
        """The form in which a character is lost that the other has; empty for neither."""
        wanted = {character for character in self.asked if not character.isascii()}
        if self.is_stream_broken != self.is_plain_broken:
            return "streamed" if self.is_stream_broken else "plain"
        missing = wanted & set(self.plain) - set(self.streamed)
        return "streamed" if missing else ""


def _procedure(subject: Subject) -> Steps[Judgement]:
    pairs: list[_Pair] = []
    for text in _TEXTS:
        pair = yield from _ask_pair(subject, text, 0)
        if isinstance(pair, Judgement):
            return pair
        if pair.lost:
            judgement = yield from _ask_again(subject, pair)
            if judgement:
                return judgement
        pairs.append(pair)
    return _judge_all(pairs)


def _requests(subject: Subject, text: str) -> list[Request]:
    # Having seen itself repeat the text, even a small model does so again.
    question = f"Repeat this text exactly: {text}"
    messages = [user(question), assistant(text), user(question)]
    return [
        chat(subject, messages, max_tokens=_MAX_TOKENS, stream=stream, **no_thoughts(subject))
        for stream in (False, True)
    ]


def _ask_pair(subject: Subject, text: str, number: int) -> Steps[_Pair | Judgement]:
    requests = [replace(each, is_new=number > 0) for each in _requests(subject, text)]
    exchanges = yield from ask_each(requests)
    for exchange in exchanges:
        flaw = (
            find_form_flaw(exchange)
            or _find_surrogate(exchange)
            or _find_mojibake(text, exchange)
            or find_mark_flaw(subject, read_choice(exchange))
        )
        if flaw:
            return flaw
    plain, streamed = exchanges
    return _Pair(
        asked=text,
        plain=_read_text(plain),
        streamed=_read_text(streamed),
        is_plain_broken=_is_broken(plain),
        is_stream_broken=_is_broken(streamed),
    )


def _ask_again(subject: Subject, first: _Pair) -> Steps[Judgement | None]:
    """Whether the same form loses characters each time."""
    pair = first
    for number in range(1, _ROUNDS):
        again = yield from _ask_pair(subject, first.asked, number)
        if isinstance(again, Judgement):
            return again
        if again.lost != first.lost:
            return None
        pair = again
    whole = pair.plain if pair.lost == "streamed" else pair.streamed
    broken = pair.streamed if pair.lost == "streamed" else pair.plain
    other = "plain" if pair.lost == "streamed" else "streamed"
    found = f"{other} {quote(whole)}, {pair.lost} {quote(broken)}"
    return failed(_EXPECTED, found, "broken_characters", form=pair.lost)


def _judge_all(pairs: Sequence[_Pair]) -> Judgement:
    broken = [pair for pair in pairs if pair.is_plain_broken and pair.is_stream_broken]
    if len(broken) == len(pairs):
        found = f"broken ones in all answers, {quote(broken[0].plain)} for one"
        return failed(_EXPECTED, found, "broken_characters", form="both")
    whole = next(
        (pair.plain for pair in pairs if not pair.plain.isascii() and pair not in broken), ""
    )
    if not whole:
        return skipped(_EXPECTED, "the model answered in plain letters alone")
    return passed(_EXPECTED, quote(whole))


def _read_text(exchange: Exchange) -> str:
    """Content alone: thoughts are free to speak of characters by their bytes."""
    content = read_choice(exchange).content
    return content if isinstance(content, str) else ""


def _is_broken(exchange: Exchange) -> bool:
    was_cut = read_choice(exchange).finish_reason == "length"
    return has_broken_characters(_read_text(exchange), was_cut=was_cut)


def _find_surrogate(exchange: Exchange) -> Judgement | None:
    """Half a character is no matter of the model: JSON was written from the wrong text."""
    text = _read_text(exchange)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return None
    form = "streamed" if exchange.request.stream else "plain"
    return failed(
        _EXPECTED, f"half characters, {form}: {quote(text)}", "broken_characters", form=form
    )


def _find_mojibake(asked: str, exchange: Exchange) -> Judgement | None:
    """The bytes of the text, each as a character of its own."""
    text = _read_text(exchange)
    form = "streamed" if exchange.request.stream else "plain"
    for codec in ("latin-1", "cp1252"):
        decoded = text.encode(codec, "ignore").decode("utf-8", "ignore")
        recovered = {character for character in decoded if not character.isascii()}
        if recovered & set(asked) - set(text):
            found = f"the bytes of characters, {form}: {quote(text)}"
            return failed(_EXPECTED, found, "broken_characters", form=form)
    return None


CHECK = Check(
    id="unicode_whole",
    title="Characters of all languages stay whole",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
