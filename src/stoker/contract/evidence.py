"""What is kept of exchanges: bounded, and such that every file and terminal takes it.

Called by :mod:`stoker.contract.run`. Pure. Evidence is for reading and a verification is stored for
good, so no more of what a server sent is kept than a person can look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from stoker.contract.completion import read_answer
from stoker.contract.reply import parse_json
from stoker.model.contract import Exchange
from stoker.model.facts import Plain

EVIDENCE_BYTES = 16 << 10

#: Of many exchanges the first and the last are kept, so many in all.
MOST_EXCHANGES = 12


def keep_evidence(exchanges: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """The exchanges, shortened; of very many the first and the last."""
    half = MOST_EXCHANGES // 2
    few = exchanges if len(exchanges) <= MOST_EXCHANGES else [*exchanges[:half], *exchanges[-half:]]
    return tuple(map(shorten, few))


def read_text(exchange: Exchange) -> str:
    """The answer's text, bounded, and such that every file and terminal encoding takes it."""
    text = read_answer(parse_json(exchange.body)).text
    return _cut(text.encode("utf-8", "replace").decode("utf-8"))


def shorten(exchange: Exchange) -> Exchange:
    """The exchange with its long parts cut, those of a long prompt too."""
    request = exchange.request
    if request.body is not None:
        body = {name: _cut_texts(value) for name, value in request.body.items()}
        request = replace(request, body=body)
    return replace(
        exchange,
        request=request,
        body=_cut(exchange.body),
        events=_cut_events(exchange.events),
    )


def _cut_texts(value: Plain) -> Plain:
    if isinstance(value, str):
        return _cut(value.encode("utf-8", "replace").decode("utf-8"))
    if isinstance(value, list):
        return [_cut_texts(each) for each in value]
    if isinstance(value, dict):
        return {name: _cut_texts(each) for name, each in value.items()}
    return value


def _cut(text: str, limit_bytes: int = EVIDENCE_BYTES) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= limit_bytes:
        return text
    note = f" [cut: {len(encoded)} bytes in all]"
    return encoded[: limit_bytes - len(note)].decode("utf-8", "ignore") + note


def _cut_events(events: Sequence[str]) -> tuple[str, ...]:
    """Both ends of a long stream: how it opened, and how it ended."""
    half = EVIDENCE_BYTES // 2
    short = [_cut(event, half) for event in events]
    opening = _take(short, half)
    rest = short[len(opening) :]
    closing = _take(rest[::-1], half)[::-1]
    left_out = len(rest) - len(closing)
    note = (f"[{left_out} events left out]",) if left_out else ()
    return (*opening, *note, *closing)


def _take(events: Sequence[str], limit_bytes: int) -> Sequence[str]:
    """As many events as fit, from the first on."""
    sizes = accumulate(len(event.encode("utf-8")) for event in events)
    return events[: sum(size <= limit_bytes for size in sizes)]
