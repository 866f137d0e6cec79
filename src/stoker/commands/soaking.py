"""How long a soak takes, and the soak itself: the same question again and again, under load.

Called by `stoker verify --level soak`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stoker.commands.recording import redact
from stoker.commands.trial import INTERRUPTED, Tried, with_note
from stoker.commands.world import World
from stoker.contract.soak import soak
from stoker.errors import UsageError
from stoker.model.contract import Verification
from stoker.ports import Endpoint
from stoker.state.documents import write_soak

DEFAULT_SECONDS = 600.0
#: Of a server that does not say how many requests it answers at once; and never more by itself.
DEFAULT_PARALLEL = 8
MOST_PARALLEL = 64
#: How the soak says that it was cut short.
_INTERRUPTED = "it was interrupted"
_LONGEST_SECONDS = 7 * 24 * 3600
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)(s|m|h|d)?")


def parse_duration(text: str) -> float:
    """The seconds of ``90s``, ``10m``, ``2h`` or a bare number. Raises UsageError."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2] or ""] if found else 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise UsageError(f"{text} is no time that a trial can take", "write 90s, 10m or 2h")
    return seconds


def add_soak(
    world: World, endpoint: Endpoint, tried: Tried, *, seconds: float, parallel: int | None
) -> Tried:
    """The trial with a soak behind it, unless it was interrupted before.

    ``parallel``: as many requests at once as the server answers where it is None.
    """
    if tried.was_interrupted or tried.verification.cut_short:
        return tried
    at_once = parallel or min(tried.subject.parallel_requests or DEFAULT_PARALLEL, MOST_PARALLEL)
    try:
        result, history = soak(
            endpoint,
            tried.subject,
            world.clock,
            world.reporter,
            seconds=seconds,
            parallel=at_once,
        )
    except KeyboardInterrupt:
        tried = with_note(tried, "interrupted before the soak began")
        told = replace(tried.verification, cut_short=INTERRUPTED)
        return replace(tried, verification=told, was_interrupted=True)
    found = tried.verification
    was_interrupted = _INTERRUPTED in result.found
    result = replace(result, exchanges=tuple(map(redact, result.exchanges)))
    return replace(
        tried,
        verification=replace(
            found,
            results=(*found.results, result),
            history=history,
            cut_short=INTERRUPTED if was_interrupted else "",
        ),
        was_interrupted=was_interrupted,
    )


def keep_history(world: World, verification: Verification) -> None:
    """Keep how a deployment stood its last soak, beside its newest verification."""
    if verification.history:
        write_soak(world.host, world.folders, verification)
