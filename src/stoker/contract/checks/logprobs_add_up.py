"""Promise: the probabilities of tokens belong to the answer and are ones.

Classifiers and evaluations read them. They must be there for each token of the answer, be
logarithms of probabilities, and stand beside the likeliest other tokens, the best first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from stoker.contract.chat import (
    chat,
    count_tokens,
    find_form_flaw,
    is_declined,
    list_choices,
    no_thoughts,
    read_choice,
    read_pieces,
)
from stoker.contract.completion import QUESTION, has_text
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.contract.reply import describe_status
from stoker.model.contract import Exchange, Subject, Verdict
from stoker.model.facts import Plain, read_path
from stoker.ports import Check

Entry = dict[str, Any]

#: Whether tokens stand in their order shows in an answer of several; asked where one was shorter.
_LONGER_QUESTION = "Count from 1 to 5."
_LEAST_TOKENS = 4

_MAX_TOKENS = 48
_TOP = 3

#: Sums of rounded logarithms; a probability of 1 may come out a little above it.
_TOLERANCE = 0.01

#: Engines write some very low number for what is impossible; no number of a computer is lower.
_LOWEST = -1e300

_EXPECTED = "a logarithm of a probability for each token of the answer, beside the likeliest tokens"


def _procedure(subject: Subject) -> Steps[Judgement]:
    judgement, count = yield from _try_question(subject, QUESTION)
    if judgement.verdict is not Verdict.PASSED or count >= _LEAST_TOKENS:
        return judgement
    longer, _ = yield from _try_question(subject, _LONGER_QUESTION)
    return judgement if longer.verdict is Verdict.SKIPPED else longer


def _try_question(subject: Subject, question: str) -> Steps[tuple[Judgement, int]]:
    """The judgement, and of how many tokens."""
    requests = [
        chat(
            subject,
            question,
            max_tokens=_MAX_TOKENS,
            stream=stream,
            logprobs=True,
            top_logprobs=_TOP,
            **no_thoughts(subject),
        )
        for stream in (False, True)
    ]
    plain, streamed = yield from ask_each(requests)
    return _judge_pair(subject, plain, streamed), len(_read(plain))


def _judge_pair(subject: Subject, plain: Exchange, streamed: Exchange) -> Judgement:
    if is_declined(plain) and is_declined(streamed):
        return skipped(_EXPECTED, f"not offered: {describe_status(plain)}")
    flaws = [find_form_flaw(plain), find_form_flaw(streamed)]
    if not any(flaws) and not has_text(read_choice(plain).content):
        return skipped(_EXPECTED, f"no words in {_MAX_TOKENS} tokens, so nothing to compare with")
    if not any(flaws) and not subject.manners.engine and not (_read(plain) or _read(streamed)):
        return skipped(_EXPECTED, "not offered: none in either form")
    flaws += [_find_flaw("plain", plain), _find_flaw("streamed", streamed)]
    return next(filter(None, flaws), None) or passed(_EXPECTED, f"{len(_read(plain))} tokens")


def _read(exchange: Exchange) -> list[Plain]:
    """The entries of all tokens, in order; anything a server sends in their place is one, too."""
    entries: list[Plain] = []
    for piece in read_pieces(exchange):
        for choice in list_choices(piece)[:1]:
            content = read_path(choice, "logprobs.content")
            entries += content if isinstance(content, list) else []
    return entries


def _find_flaw(form: str, exchange: Exchange) -> Judgement | None:
    entries = _read(exchange)
    if not entries:
        found = f"none in the {form} reply"
        return failed(_EXPECTED, found, "no_logprobs", form=form)
    return (
        next(filter(None, (_find_entry_flaw(form, entry) for entry in entries)), None)
        or next(
            filter(None, (_find_top_flaw(form, entry) for entry in _shown(exchange, entries))), None
        )
        or _find_count_flaw(form, exchange, len(entries))
        or _find_text_flaw(form, exchange, [entry["token"] for entry in entries])
        or _find_bytes_flaw(form, exchange, entries)
    )


def _find_entry_flaw(form: str, entry: Plain) -> Judgement | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        found = f"in the {form} reply {quote(entry)}"
        return failed("a token with its logprob", found, "broken_logprobs", form=form)
    top = entry.get("top_logprobs")
    top = top if isinstance(top, list) else []
    for each in [entry, *top]:
        value = each.get("logprob") if isinstance(each, dict) else None
        if not _is_logprob(value):
            found = f"{quote(value)} for {quote(entry['token'])} in the {form} reply"
            expected = "logarithms of probabilities, which are finite and not above 0"
            return failed(expected, found, "broken_logprobs", form=form)
    return None


def _shown(exchange: Exchange, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries without the token that ends the answer: beside it engines list what they like."""
    content = read_choice(exchange).content
    last = entries[-1]["token"].strip()
    is_word = bool(last) and isinstance(content, str) and content.rstrip().endswith(last)
    return entries if is_word else entries[:-1]


def _is_logprob(value: Plain) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return _LOWEST < value <= _TOLERANCE


def _find_top_flaw(form: str, entry: Entry) -> Judgement | None:
    top = entry.get("top_logprobs")
    top = top if isinstance(top, list) else []
    where = f"for {quote(entry['token'])} in the {form} reply"
    # An engine may put the chosen token in addition to the likeliest.
    if len(top) not in (_TOP, _TOP + 1):
        found = f"{len(top)} {where}"
        return failed(f"{_TOP} likeliest tokens", found, "wrong_top_logprobs", form=form)
    values = [each["logprob"] for each in top]
    # vLLM puts the chosen token first, however likely it was.
    ordered = values[1:] if top[0].get("token") == entry["token"] else values
    if any(later > earlier + _TOLERANCE for earlier, later in pairwise(ordered)):
        found = f"{quote(values)} {where}"
        return failed(
            "the likeliest tokens, the best first", found, "wrong_top_logprobs", form=form
        )
    if sum(map(math.exp, values)) > 1 + _TOLERANCE * len(values):
        found = f"{quote(values)} {where}, which is more than 1 in all"
        return failed("probabilities", found, "broken_logprobs", form=form)
    return _find_chosen_flaw(form, entry, top)


def _find_chosen_flaw(form: str, entry: Entry, top: Sequence[Entry]) -> Judgement | None:
    """The chosen token stands among the likeliest with its own value, or is no likelier."""
    chosen = entry["logprob"]
    same = [each["logprob"] for each in top if each.get("token") == entry["token"]]
    is_listed = any(abs(value - chosen) <= _TOLERANCE for value in same)
    if is_listed or chosen <= min(each["logprob"] for each in top) + _TOLERANCE:
        return None
    found = f"{chosen} for {quote(entry['token'])} in the {form} reply, and not among the likeliest"
    return failed("the chosen token among the likeliest", found, "wrong_top_logprobs", form=form)


def _find_count_flaw(form: str, exchange: Exchange, count: int) -> Judgement | None:
    """The token that ends an answer may be counted and not be listed; so may thoughts."""
    tokens = count_tokens(exchange, "completion_tokens")
    is_thinking = has_text(read_choice(exchange).reasoning)
    if tokens is None or (1 if is_thinking else tokens - 1) <= count <= tokens:
        return None
    found = f"{count} in the {form} reply, of {tokens} tokens"
    return failed(
        "one for each token", found, "logprobs_missing", form=form, tokens=tokens, count=count
    )


def _find_text_flaw(form: str, exchange: Exchange, tokens: Sequence[str]) -> Judgement | None:
    """The tokens make the answer. Engines show a token alone without its space, or in brackets."""
    content = read_choice(exchange).content
    joined, wanted = (
        _squeeze("".join(tokens)),
        _squeeze(content if isinstance(content, str) else ""),
    )
    # A token that is part of a character cannot be shown, and vLLM may show numbers for all.
    if all(token.startswith("token_id:") for token in tokens):
        return None
    if "\ufffd" in joined or "\ufffd" in wanted or wanted in joined:
        return None
    found = f"{quote(''.join(tokens))} in the {form} reply for {quote(content)}"
    return failed("tokens that join to the answer", found, "logprobs_of_another_text", form=form)


def _find_bytes_flaw(form: str, exchange: Exchange, entries: Sequence[Entry]) -> Judgement | None:
    """The bytes make the answer, where each token has some; a cut character is not judged."""
    content = read_choice(exchange).content
    wanted = _squeeze(content if isinstance(content, str) else "")
    try:
        joined = b"".join(bytes(entry["bytes"]) for entry in entries if entry["bytes"] is not None)
        text = joined.decode("utf-8")
    except (KeyError, TypeError, ValueError):
        return None
    if not text or "\ufffd" in f"{text}{wanted}" or wanted in _squeeze(text):
        return None
    found = f"bytes of {quote(text)} in the {form} reply for {quote(content)}"
    return failed("bytes that are the answer", found, "logprobs_of_another_text", form=form)


def _squeeze(text: str) -> str:
    return "".join(text.split())


CHECK = Check(
    id="logprobs_add_up",
    title="The probabilities of tokens add up",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
