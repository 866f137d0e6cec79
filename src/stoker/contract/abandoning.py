"""Reckoning whether a server went on computing for clients that had gone.

Used by the check of cancelling. After clients have left, a server needs some time until it has
room again: none, or as long as it takes to look who is still there, or until the abandoned answers
have come to their ends. The last depends on how long these were to be, and nothing else does; so
long and short ones are left in turn. No clock and no pace is trusted, only comparisons. Pure.
"""

from __future__ import annotations

#: Of the tokens of a long answer, what a short one has.
SHORT_SHARE = 0.2

#: Beside an abandoned answer the next question is nothing; waiting for it takes many times as long.
_SUSPECT_TIMES = 4.0
_SUSPECT_SECONDS = 0.3

#: How much less short ones must take than long ones. A server that frees after a fixed time takes
#: as long for both.
_FOLLOWING_SHARE = 0.38

#: Engines look for clients that have gone every few seconds (SGLang waits for 2 s).
_PATIENCE_SECONDS = 6.0
_PATIENCE_TIMES = 10.0


def is_suspect(wait_seconds: float, *, alone_seconds: float) -> bool:
    """Whether it took long until there was room again, by what a question takes by itself."""
    return wait_seconds > _SUSPECT_TIMES * alone_seconds + _SUSPECT_SECONDS


def is_too_late(wait_seconds: float, *, alone_seconds: float) -> bool:
    """Whether every engine would have looked for clients that have gone by then."""
    return wait_seconds > _PATIENCE_TIMES * alone_seconds + _PATIENCE_SECONDS


def follows_length(*, long_seconds: tuple[float, float], short_seconds: float) -> bool:
    """Whether the waits were as long as the answers that were left, both times."""
    return short_seconds < _FOLLOWING_SHARE * min(long_seconds)
