"""Whether a streamed turn with tools says and calls what the plain one does.

One turn alone does not show that a second call or a text before it is lost. The same question may
be answered in other words the second time, so the two are compared where the server made as many
tokens for both, and what could still be chance is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.procedure import Steps, ask_one
from stoker.contract.reply import parse_json
from stoker.contract.tool_calls import Turn, read_turn
from stoker.model.contract import Request
from stoker.model.facts import Unknown

_EXPECTED = "the same text and calls plain and streamed"


def compare_forms(requests: Sequence[Request], turns: Sequence[Turn]) -> Steps[Judgement | None]:
    """What differs in the two forms of a turn although both have as many tokens, None if nothing.

    ``requests`` are those of the plain and of the streamed turn.
    """
    flaw = find_form_flaw(*turns)
    if flaw is None or _is_certain(*turns):
        return flaw
    again: list[Turn] = []
    for request in requests:
        exchange = yield from ask_one(replace(request, is_new=True))
        again.append(read_turn(exchange))
    is_repeated = all(
        turn.flaw is None and _read_all(turn) == _read_all(first)
        for turn, first in zip(again, turns, strict=True)
    )
    return flaw if is_repeated else None


def find_form_flaw(plain: Turn, streamed: Turn) -> Judgement | None:
    """What one form has and the other has not; None where the counts of tokens differ."""
    if plain.completion_tokens != streamed.completion_tokens:
        return None
    if plain.was_cut or streamed.was_cut:
        return None
    if len(plain.calls) != len(streamed.calls):
        found = f"{len(plain.calls)} calls plain, {len(streamed.calls)} streamed"
        return _describe(f"{found}, in as many tokens")
    texts = plain.text.strip(), streamed.text.strip()
    if texts[0] != texts[1]:
        return _describe(f"the text {quote(texts[0])} plain, {quote(texts[1])} streamed")
    calls = _read_calls(plain), _read_calls(streamed)
    if calls[0] != calls[1]:
        found = f"the calls {quote(list(calls[0]))} plain, {quote(list(calls[1]))} streamed"
        return _describe(found)
    return None


def _is_certain(plain: Turn, streamed: Turn) -> bool:
    """As many tokens, and one form has all of the other and more: that is no other wording."""
    if plain.completion_tokens is None:
        return False
    if len(plain.calls) != len(streamed.calls):
        return True
    short, long = sorted((plain.text.strip(), streamed.text.strip()), key=len)
    rest = iter(long)
    return short != long and all(each in rest for each in short)


def _describe(found: str) -> Judgement:
    return failed(_EXPECTED, found, "tool_forms_differ")


def _read_all(turn: Turn) -> tuple[str, tuple[str, ...]]:
    return turn.text.strip(), _read_calls(turn)


def _read_calls(turn: Turn) -> tuple[str, ...]:
    """The calls as texts that are the same for the same values."""
    return tuple(f"{call.name} {_sort(str(call.arguments))}" for call in turn.calls)


def _sort(arguments: str) -> str:
    data = parse_json(arguments)
    return arguments if isinstance(data, Unknown) else json.dumps(data, sort_keys=True)
