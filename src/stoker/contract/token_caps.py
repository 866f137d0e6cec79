"""Servers that allow no long answers: they are asked for shorter ones, and judged by those.

An operator may bound what one request can ask for. A check that needs a long answer would take the
refusal for one of what it is about (tools, thoughts). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stoker.contract.judgement import Judgement, skipped
from stoker.contract.procedure import Procedure, Steps
from stoker.contract.reply import describe_status, find_message
from stoker.contract.tool_flaws import find_short_context
from stoker.model.contract import Exchange, Request, Subject

#: Asked for where the server does not say how much it allows.
_USUAL_TOKENS = 128

#: A smaller number in the message is no bound of an answer's length.
_LEAST_TOKENS = 8

_FIELDS = ("max_tokens", "max_completion_tokens")

#: A message about the length that was asked for: the field and a word of limits near each other,
#: with no data quoted in between.
_FIELD = r"max_(?:completion_|new_|output_)?tokens"
_LIMIT = (
    r"exceed|at most|less than|up to|limit|maximum|larger|greater|too (?:large|big|high|many)|cap"
)
_CAPPED = re.compile(
    rf"{_FIELD}\b[^{{}}]{{0,60}}?(?:{_LIMIT}|between)|\b(?:{_LIMIT})[^{{}}]{{0,60}}?{_FIELD}\b",
    re.IGNORECASE,
)


def within_cap(procedure: Procedure, expected: str) -> Procedure:
    """The same procedure with shorter answers where the server refuses long ones.

    Where it refuses those as well, the check is skipped. ``expected`` is what the check expects.
    """

    def capped(subject: Subject) -> Steps[Judgement]:
        steps = procedure(subject)
        cap: int | None = None
        try:
            batch = next(steps)
            while True:
                cap, answered = yield from _ask_within(batch, cap)
                if refused := next(filter(is_capped, answered), None):
                    return skipped(expected, f"no room for it: {describe_status(refused)}")
                batch = steps.send(answered)
        except StopIteration as ended:
            judgement: Judgement = ended.value
            return judgement

    return capped


def _ask_within(
    batch: Sequence[Request], cap: int | None
) -> Steps[tuple[int | None, tuple[Exchange, ...]]]:
    """The answers, and the bound that is known by then. Asked twice where one is found."""
    answered = yield [_shorten(request, cap) for request in batch]
    found = _find_cap(answered)
    if found is None:
        return cap, answered
    answered = yield [_shorten(request, found) for request in batch]
    return found, answered


def is_capped(exchange: Exchange) -> bool:
    """Whether a request was refused for the length of the answer that it asked for."""
    if exchange.error or not 400 <= exchange.status < 500 or find_short_context(exchange, ""):
        return False
    return bool(_CAPPED.search(find_message(exchange.body)))


def _find_cap(exchanges: tuple[Exchange, ...]) -> int | None:
    """The shortest answer that a refusal leaves, None where there was no such refusal."""
    caps = [_read_cap(exchange) for exchange in exchanges if is_capped(exchange)]
    return min(caps, default=None)


def _read_cap(exchange: Exchange) -> int:
    asked = _read_asked(exchange.request)
    numbers = map(int, re.findall(r"(?<![\w.])\d{1,9}(?![\w])", find_message(exchange.body)))
    allowed = [number for number in numbers if _LEAST_TOKENS <= number < asked]
    return min(allowed, default=min(_USUAL_TOKENS, asked))


def _read_asked(request: Request) -> int:
    values = [(request.body or {}).get(name) for name in _FIELDS]
    return max((value for value in values if isinstance(value, int)), default=0)


def _shorten(request: Request, cap: int | None) -> Request:
    """The request for an answer of ``cap`` tokens at most; the same one where it asks for less."""
    if cap is None or _read_asked(request) <= cap:
        return request
    shorter = {name: cap for name in _FIELDS if name in (request.body or {})}
    return replace(request, body={**(request.body or {}), **shorter})
