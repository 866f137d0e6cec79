"""What shows that a server speculates, and how well it guesses: in its replies and its metrics.

The checks of speculation use this. Pure and total.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.contract.chat import read_pieces
from stoker.contract.interview import Heard
from stoker.contract.metrics import sum_counters
from stoker.model.contract import Acceptance, Exchange
from stoker.model.facts import Plain, Unknown, read_path

_LINE = "The old mill stands by the river and the wheel turns slowly. "

#: Tasks whose answers repeat themselves and the prompt, so that even a plain look-up of earlier
#: words guesses many of the next.
REPETITIVE = (
    f"Repeat this text word for word, ten times: {(_LINE * 6).strip()}",
    "Count from 1 to 40 and put a comma after each number.",
)

#: So few guesses prove nothing.
_LEAST_DRAFTS = 8
_MOST_COUNTED = 1 << 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Guessed tokens that were kept, and whether enough was guessed to say something of it.

    ``per_step`` is how many tokens a step made on the average; None where that cannot be told.
    """

    accepted: float
    is_tried: bool
    per_step: float | None = None


def read_drafts(exchange: Exchange) -> Drafts | None:
    """What a reply says of its own guesses (llama.cpp's timings), None where it says nothing."""
    for piece in reversed(read_pieces(exchange)):
        drafted = _number(read_path(piece, "timings.draft_n"))
        accepted = _number(read_path(piece, "timings.draft_n_accepted"))
        made = _number(read_path(piece, "timings.predicted_n"))
        if drafted is not None and accepted is not None:
            steps = made - accepted if made else 0.0
            per_step = made / steps if made and steps > 0 else None
            return Drafts(accepted=accepted, is_tried=drafted >= _LEAST_DRAFTS, per_step=per_step)
    return None


def has_drafts(heard: Heard) -> bool:
    """Whether a reply says that something was guessed for it."""
    drafts = read_drafts(heard.exchange)
    return drafts is not None and (drafts.is_tried or drafts.accepted > 0)


def compare_metrics(before: str, after: str, names: Acceptance) -> Drafts | None:
    """What the metrics say of the time between two readings, None where they say nothing."""
    accepted = _difference(before, after, names.accepted)
    drafts = _difference(before, after, names.drafts)
    if accepted is not None and drafts is not None:
        per_step = 1 + accepted / drafts if drafts else None
        return Drafts(accepted=accepted, is_tried=drafts >= _LEAST_DRAFTS, per_step=per_step)
    length = sum_counters(after, names.length)
    if length is None:
        return None
    # The gauge is a mean of the last steps; 0 is how it stands before the first.
    return Drafts(accepted=max(0.0, length - 1), is_tried=length > 0, per_step=length or None)


def _difference(before: str, after: str, names: tuple[str, ...]) -> float | None:
    last = sum_counters(after, names)
    # A counter may not be there before its first event.
    return None if last is None else last - (sum_counters(before, names) or 0.0)


def _number(value: Plain | Unknown) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _MOST_COUNTED else None
