"""Promise: a prompt that does not fit is refused readably, never cut in silence.

A server that cuts the prompt answers 200 to a question that it has not read: its users get
confident nonsense. The count of the prompt's tokens tells. Where the context length is not known,
the prompt grows up to a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stoker.contract.aftermath import find_aftermath
from stoker.contract.completion import DONE, QUESTION, ask
from stoker.contract.errors import find_refusal_flaw, is_error_event
from stoker.contract.filler import write_filler
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.published import LIST, read_context_tokens, read_count
from stoker.contract.reply import find_message, find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, read_path
from stoker.ports import Check

_ASKED = "a prompt longer than the context"
_EXPECTED = f"{_ASKED} to be refused (HTTP 4xx) readably"
_SEED = 4

#: Of this many words the tokens are counted, to know how many words are how many tokens.
_MEASURED_WORDS = 100

#: A body may hold so much; requests that no server can take whole prove nothing.
_MOST_BYTES = 8 << 20

#: How much longer than the context, so that the count per word may be wrong by a fifth, and what
#: an answer must have counted of the prompt at least: a prompt that was cut to fit is less.
_MARGIN = 1.5
_UNCUT = 0.8

#: No tokenizer puts this many words of a text into one token: the counts are none.
_LEAST_RATE = 0.4

#: Sizes for a server that does not say what it holds, in tokens. Where the last still fits there
#: is nothing to be found out at a price that anybody would pay.
_GUESSES_TOKENS = (12_000, 60_000, 300_000)

#: Refusing takes no computation; counting so many tokens takes some seconds on a small machine.
_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """A prompt to try. ``is_certain``: the server itself says that it holds less."""

    words: int
    expected_tokens: int
    is_certain: bool


def _try(subject: Subject) -> Steps[Judgement]:
    listing = yield from ask_one(LIST)
    published = read_context_tokens(listing, subject.published_name)
    least = yield from ask_one(ask(subject.published_name, max_tokens=1))
    measured = yield from ask_one(_long(subject, _MEASURED_WORDS))
    tokens_per_word = _read_rate(least, measured)
    if tokens_per_word is None:
        # What is wrong with a plain question is another check's matter.
        flaw = find_reply_flaw(least) or find_reply_flaw(measured)
        return flaw or skipped(_EXPECTED, "the server does not count the tokens of a prompt")
    sizes = _sizes(published, subject.context_tokens, tokens_per_word)
    for size in sizes:
        exchange = yield from ask_one(_long(subject, size.words))
        if exchange.status == 200 or exchange.error_kind == "timeout":
            judgement = _judge_answer(exchange, size)
            if judgement:
                return judgement
            continue
        flaw = find_refusal_flaw(exchange, _ASKED)
        flaw = flaw or (yield from _try_stream(subject, size))
        flaw = flaw or (yield from find_aftermath(subject, _ASKED))
        return flaw or passed(_EXPECTED, _describe(exchange))
    if not sizes:
        return skipped(_EXPECTED, f"{published or subject.context_tokens} tokens are too many")
    held = sizes[-1].expected_tokens
    return skipped(_EXPECTED, f"about {held} tokens were still taken; no longer prompt was tried")


def _long(subject: Subject, words: int, *, stream: bool = False) -> Request:
    short = ask(subject.published_name, max_tokens=1, stream=stream)
    messages: list[Plain] = [{"role": "user", "content": write_filler(_SEED, words)}]
    body = {**(short.body or {}), "messages": messages}
    return replace(short, body=body, timeout_seconds=_TIMEOUT_SECONDS)


def _read_count(exchange: Exchange) -> int | None:
    return read_count(read_path(parse_json(exchange.body), "usage.prompt_tokens"))


def _read_rate(least: Exchange, measured: Exchange) -> float | None:
    """Tokens per word; what a chat template adds, which may be much, is in both and falls out."""
    counts = _read_count(least), _read_count(measured)
    if find_reply_flaw(least) or find_reply_flaw(measured) or None in counts:
        return None
    words = len(write_filler(_SEED, _MEASURED_WORDS).split()) - len(QUESTION.split())
    rate = ((counts[1] or 0) - (counts[0] or 0)) / words
    return rate if rate > _LEAST_RATE else None


def _sizes(published: int | None, promised: int | None, rate: float) -> tuple[_Size, ...]:
    """What to try, one after the other until one is refused."""
    if published is not None:
        wanted = [int(max(published, promised or 0) * _MARGIN) + 64]
    elif promised is not None:
        first = int(promised * _MARGIN) + 64
        wanted = [first, *(guess for guess in _GUESSES_TOKENS if guess > first)]
    else:
        wanted = list(_GUESSES_TOKENS)
    words = [int(tokens / rate) for tokens in wanted]
    return tuple(
        _Size(words=count, expected_tokens=tokens, is_certain=published is not None)
        for count, tokens in zip(words, wanted, strict=True)
        if count * 8 < _MOST_BYTES
    )


def _judge_answer(exchange: Exchange, size: _Size) -> Judgement | None:
    """What an answer says of a prompt that may have been too long; None: it may just have fitted.

    A timeout is none where it is not certain that the prompt was too long: it may be at work.
    """
    if exchange.error:
        found = f"{exchange.error}, to about {size.expected_tokens} tokens"
        if size.is_certain:
            return failed(_EXPECTED, found, "timeout", asked=_ASKED)
        return skipped(_EXPECTED, found)
    count = _read_count(exchange)
    if count is not None and count < size.expected_tokens * _UNCUT:
        found = f"an answer that counts {count} tokens of a prompt of about {size.expected_tokens}"
        return failed(
            _EXPECTED, found, "prompt_cut", counted=count, sent_about=size.expected_tokens
        )
    if size.is_certain:
        found = f"an answer to about {size.expected_tokens} tokens, more than the server publishes"
        return failed(_EXPECTED, found, "too_long_accepted", sent_about=size.expected_tokens)
    if count is None:
        return skipped(_EXPECTED, "an answer that does not say how many tokens were read")
    return None


def _try_stream(subject: Subject, size: _Size) -> Steps[Judgement | None]:
    """Streamed the same is refused, by the status or, at worst, by an error as its first event."""
    exchange = yield from ask_one(_long(subject, size.words, stream=True))
    events = [event for event in exchange.events if event != DONE]
    if exchange.status == 200 and events and is_error_event(parse_json(events[0])):
        return None
    flaw = find_refusal_flaw(exchange, f"{_ASKED}, streamed")
    if flaw and flaw.symptom == "wrong_accepted":
        found = quote(events[0]) if events else "a stream without events"
        return replace(flaw, found=f"HTTP 200 and {found}", symptom="too_long_accepted")
    return flaw


def _describe(exchange: Exchange) -> str:
    return f"HTTP {exchange.status}: {quote(find_message(exchange.body))}"


CHECK = Check(
    id="errors_too_long",
    title="A prompt that does not fit is refused readably",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
)
