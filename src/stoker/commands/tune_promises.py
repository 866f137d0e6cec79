"""Which promises of the full contract a running deployment breaks.

Called by :mod:`stoker.commands.tune` for its finalists: a setting that makes wrong answers faster
is no improvement.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.commands.verify import Wish, verify_target
from stoker.commands.world import World
from stoker.model.contract import Verdict

LEVEL = "full"


def find_broken(world: World, name: str) -> Mapping[str, str]:
    """The broken promises by check, with what was found; empty where all were kept.

    Raises KeyboardInterrupt where the person interrupted it, and what verifying raises.
    """
    tried = verify_target(world, Wish(target=name, level=LEVEL))
    if tried.was_interrupted:
        raise KeyboardInterrupt
    return {
        each.check: f"expected {each.expected}; found {each.found}"
        for each in tried.verification.results
        if each.verdict in (Verdict.FAILED, Verdict.ERROR)
    }
