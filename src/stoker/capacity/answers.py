"""Plain answers from a capacity: how many requests, how long a context, how much for a gigabyte.

Called by the commands that show a capacity and by those that compare two.
"""

from __future__ import annotations

from stoker.capacity.intervals import rising
from stoker.model.capacity import Capacity, Span


def requests_at(capacity: Capacity, context_tokens: int) -> Span | None:
    """Whole requests of so many tokens at the same time; None where the pool is not known."""
    if capacity.kv_tokens is None or context_tokens <= 0:
        return None
    most = capacity.state_requests

    def count(tokens: float) -> float:
        found = tokens // context_tokens
        return found if most is None else min(found, float(most))

    return rising(capacity.kv_tokens, count)


def longest_context(capacity: Capacity, parallel: int) -> Span | None:
    """Tokens for each of so many requests at the same time, no more than the model's context.

    None where the pool is not known, or where its states let fewer requests run.
    """
    if capacity.kv_tokens is None or parallel <= 0:
        return None
    if capacity.state_requests is not None and parallel > capacity.state_requests:
        return None
    most = capacity.context_tokens

    def share(tokens: float) -> float:
        found = tokens // parallel
        return found if most is None else min(found, float(most))

    return rising(capacity.kv_tokens, share)


def tokens_per_gb(capacity: Capacity) -> float | None:
    """Tokens of the pool for each 1,000,000,000 bytes of one GPU."""
    if not capacity.token_bytes:
        return None
    return 1e9 / capacity.token_bytes
