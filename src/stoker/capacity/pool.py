"""What an engine's arithmetic answers: the pool of tokens, and what lies beside it on each GPU.

Made by the arithmetic of each engine, read by whoever shows or scores it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.model.capacity import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The pool of one copy of the model. Bytes are of one GPU; tokens of the whole copy.

    ``token_bytes`` is the price of one token of ``tokens``. ``window_tokens`` of a pool that
    sliding layers have for themselves. ``ratio_tokens``: those that a cache in host memory is a
    multiple of, on one rank.
    """

    tokens: Span
    token_bytes: float
    pool_bytes: Span
    rank_tokens: Span
    state_bytes: Span | None = None
    state_requests: int | None = None
    draft_bytes: Span | None = None
    window_tokens: float | None = None
    requests: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What comes before the pool, in bytes of one GPU: free before the weights, the weights, what
    is left for pools, the rest that the engine leaves alone (``slack``), the share taken."""

    free_before: Span | None
    weights: Span | None
    pools: Span
    share: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why no figure is given; ``reasons`` are sentences that name the reading which settles it."""

    reasons: tuple[str, ...]
