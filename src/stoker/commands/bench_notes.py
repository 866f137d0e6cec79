"""What is said of a load beside its figures: why it ended early, and what a person can do about it.

Called by :mod:`stoker.commands.bench`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.bench.load_values import Ran
from stoker.model.benchmark import Arrival, Load, Point

#: What to do where a server refuses requests with this status.
_ADVICE = {
    401: "The server wants an API key: --key-file FILE.",
    403: "The server does not let this key in: is it the right one?",
    404: "The server does not know the path or the model: --published-name says which is meant.",
    429: "The server limits requests{wait}: ask for fewer at once or at a lower rate, or raise its "
    "limit; figures are of what it let through.",
}


def make_notes(point: Point, ran: Ran) -> Iterator[str]:
    """Sentences about a load that did not go as it was to."""
    if ran.said and not ran.was_interrupted:
        yield f"{describe_load(point.load)} {ran.said}"
    for status, advice in _ADVICE.items():
        if any(error.startswith(f"HTTP status {status}:") for error in point.errors):
            wait = f" and asked to wait {ran.wait_seconds:g} s" if ran.wait_seconds else ""
            yield advice.format(wait=wait)
    if ran.samples and not point.window.requests and not point.errors:
        yield (
            f"All {len(ran.samples):,} requests were warm-up or outside of the window: measure "
            "longer (--for), or with fewer requests before (--warmup)."
        )


def describe_load(load: Load) -> str:
    """A load in few words."""
    if load.arrival is Arrival.CLOSED:
        return f"{load.concurrency} at once"
    if load.arrival is Arrival.REPLAY:
        return "the recorded trace"
    return f"{load.rate_per_second:g} requests/s ({load.arrival.value})"
