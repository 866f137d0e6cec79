"""Promise: the context length that the server publishes is one, and no less than was promised.

Clients cut their prompts by it. The OpenAI interface has no field for it, so a server that
publishes none breaks nothing; whether so many tokens can be used is the matter of another check.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.plans import in_order
from stoker.contract.published import LIST, find_entry, read_context_field, read_context_tokens
from stoker.contract.reply import find_reply_flaw
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Unknown
from stoker.ports import Check


def _requests(subject: Subject) -> Sequence[Request]:
    return (LIST,)


def _judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    (listing,) = exchanges
    return find_reply_flaw(listing) or _judge_listing(subject, listing)


def _judge_listing(subject: Subject, listing: Exchange) -> Judgement:
    promised, name = subject.context_tokens, subject.published_name
    expected = f"a context length of {promised or 'some'} tokens or more in {LIST.path}"
    entry = find_entry(listing, name)
    if isinstance(entry, Unknown):
        return failed(expected, f"no model in {quote(listing.body)}", "no_model_listed")
    field, value = read_context_field(entry)
    if not field:
        return skipped(expected, "none is published; the interface has no field for it")
    tokens = read_context_tokens(listing, name)
    if tokens is None:
        found = f"{field} {quote(value)}, which is no number of tokens"
        return failed(expected, found, "context_nonsense", field=field)
    if promised is not None and tokens < promised:
        found = f"{field} {tokens}"
        return failed(
            expected, found, "context_smaller", field=field, published=tokens, promised=promised
        )
    return passed(expected, f"{field} {tokens}")


CHECK = Check(
    id="context_published",
    title="The published context length is true",
    level="quick",
    plan=in_order(_requests),
    judge=_judge,
)
