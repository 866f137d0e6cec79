"""Arithmetic with figures that are known within bounds.

Called by all of the package. A :class:`~stoker.model.capacity.Span` has a least, a likely and a
most; sums of independent parts add their bounds, which is wider than chance would have it and so
never claims too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.model.capacity import Span

_MIB = 1 << 20


def exact(value: float) -> Span:
    """A figure that is known."""
    return Span(low=value, likely=value, high=value)


def about(value: float, *, less: float = 0.0, more: float = 0.0) -> Span:
    """A figure that may be so much less or more."""
    return Span(low=value - less, likely=value, high=value + more)


def mebibytes(triple: Sequence[float]) -> Span:
    """A least, a likely and a most in MiB, in bytes."""
    low, likely, high = (part * _MIB for part in triple)
    return Span(low=low, likely=likely, high=high)


def add(*parts: Span) -> Span:
    """The sum."""
    return Span(
        low=sum(part.low for part in parts),
        likely=sum(part.likely for part in parts),
        high=sum(part.high for part in parts),
    )


def subtract(whole: Span, *parts: Span) -> Span:
    """What is left of the whole."""
    gone = add(*parts)
    return Span(
        low=whole.low - gone.high, likely=whole.likely - gone.likely, high=whole.high - gone.low
    )


def scale(span: Span, factor: float) -> Span:
    """So many times the figure; the factor is not negative."""
    return Span(low=span.low * factor, likely=span.likely * factor, high=span.high * factor)


def spread(value: float, shares: Sequence[float]) -> Span:
    """A likely figure with a least and a most as shares of it."""
    return Span(low=value * shares[0], likely=value, high=value * shares[1])


def rising(span: Span, function: Callable[[float], float]) -> Span:
    """What a function that never falls makes of each bound."""
    return Span(low=function(span.low), likely=function(span.likely), high=function(span.high))


def in_order(span: Span) -> Span:
    """The same where whole slots and pages, taken off each bound, have put one before another."""
    return Span(
        low=min(span.low, span.likely), likely=span.likely, high=max(span.likely, span.high)
    )


def at_least(span: Span, least: float = 0.0) -> Span:
    """No bound below the least."""
    return rising(span, lambda value: max(least, value))


def cover(span: Span, others: Sequence[Span | None]) -> Span:
    """As likely as the first, within the bounds of all that are known."""
    known = [span, *(other for other in others if other is not None)]
    low, high = min(each.low for each in known), max(each.high for each in known)
    return Span(low=low, likely=span.likely, high=high)
