"""Promise: the token counts of a reply add up and stay within what was asked for.

Bills, limits and every measurement rest on these numbers. A plain reply must have them; in a
stream they are judged where they are present.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.completion import MAX_TOKENS, ask, read_chunks
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.plans import in_order
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, Unknown, read_path
from stoker.ports import Check

Usage = dict[str, Plain]

_EXPECTED = "token counts that add up"
_FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


def _requests(subject: Subject) -> Sequence[Request]:
    return (ask(subject.published_name), ask(subject.published_name, stream=True))


def _judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    plain, streamed = exchanges
    body = parse_json(plain.body)
    counts, stream_counts = _read_usage(body), _read_stream_usage(streamed)
    return (
        find_reply_flaw(plain)
        or _find_absence(body, counts)
        or _find_count_flaw("the plain reply", counts)
        or find_reply_flaw(streamed)
        or _find_count_flaw("the stream", stream_counts)
        or passed(_EXPECTED, _describe(counts) + ("" if stream_counts else "; none in the stream"))
    )


def _find_absence(body: Plain | Unknown, usage: Usage | None) -> Judgement | None:
    if usage is not None:
        return None
    found = body.reason if isinstance(body, Unknown) else f"none in the reply: {quote(body)}"
    return failed("token counts under usage", found, "no_usage")


def _read_usage(data: Plain | Unknown) -> Usage | None:
    usage = read_path(data, "usage")
    return usage if isinstance(usage, dict) else None


def _read_stream_usage(exchange: Exchange) -> Usage | None:
    """The last counts of the stream: some engines send them with every chunk, as they grow."""
    found = map(_read_usage, reversed(read_chunks(exchange.events)))
    return next((usage for usage in found if usage is not None), None)


def _find_count_flaw(where: str, usage: Usage | None) -> Judgement | None:
    if usage is None:
        return None
    counts: list[Plain] = [usage.get(field) for field in _FIELDS]
    if not all(map(_is_count, counts)):
        expected = f"whole numbers as {', '.join(_FIELDS)}"
        return failed(expected, f"in {where} {quote(usage)}", "wrong_shape")
    prompt, completion, total = counts
    if prompt + completion != total:
        return failed(_EXPECTED, f"in {where} {_describe(usage)}", "usage_does_not_add_up")
    cached = read_path(usage, "prompt_tokens_details.cached_tokens")
    if isinstance(cached, (int, float)) and not 0 <= cached <= prompt:
        found = f"in {where} {quote(cached)} of {prompt} tokens of the prompt from the cache"
        return failed(_EXPECTED, found, "usage_does_not_add_up", cached_tokens=cached)
    if not 1 <= completion <= MAX_TOKENS:
        expected = f"1 to {MAX_TOKENS} completion tokens, as asked for"
        found = f"{completion} in {where}"
        return failed(expected, found, "limit_ignored", limit=MAX_TOKENS, tokens=completion)
    return None


def _is_count(value: Plain) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _describe(usage: Usage | None) -> str:
    prompt, completion, total = ((usage or {}).get(field) for field in _FIELDS)
    return f"{prompt} of the prompt + {completion} of the answer, {total} in all"


CHECK = Check(
    id="usage_adds_up",
    title="The token counts add up",
    level="quick",
    plan=in_order(_requests),
    judge=_judge,
)
