"""Run the fake engine for others: correct, or broken in the ways that they name.

No deployment and no state is touched: it needs no world. The command line waits, and tells.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.errors import UsageError
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.script import (
    ALL_FEATURES,
    MANNERS,
    USUAL_FEATURES,
    Limits,
    Script,
    Timing,
    read_wits,
)
from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.switches import discover_faults


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeOrders:
    """What was asked for. ``script_path``: a table of what the model knows besides.

    ``with_features``: more than an ordinary model has. ``tokens_per_second`` 0: at once.
    """

    manners: str = MANNERS[-1]
    faults: tuple[str, ...] = ()
    with_features: tuple[str, ...] = ()
    script_path: str = ""
    model: str = "smollm2"
    context_tokens: int = 2048
    key_path: str = ""
    tokens_per_second: float = 0.0
    first_token_seconds: float = 0.0
    seed: int = 0
    port: int = 0


def list_switches() -> Sequence[Fault]:
    """All that can be broken, by name."""
    return sorted(discover_faults().values(), key=lambda fault: fault.name)


@contextmanager
def running(orders: FakeOrders) -> Iterator[EngineServer]:
    """The fake engine as it was ordered, for as long as the block runs.

    Raises UsageError for what there is not and for a port that cannot be had, DataError for a
    table that cannot be used.
    """
    script, faults = make_script(orders), choose_faults(orders.faults)
    try:
        server = EngineServer(script, faults=faults, port=orders.port)
    except OSError as error:
        raise UsageError(f"port {orders.port} cannot be had: {error.strerror or error}") from None
    with server:
        yield server


def make_script(orders: FakeOrders) -> Script:
    """The set-up that was ordered. Errors as above."""
    _check(orders)
    pace = orders.tokens_per_second
    timing = Timing(
        first_token_seconds=orders.first_token_seconds,
        seconds_per_token=1 / pace if pace else 0.0,
    )
    script = Script(
        names=(orders.model,),
        manners=orders.manners,
        limits=Limits(context_tokens=orders.context_tokens),
        features=USUAL_FEATURES | set(orders.with_features),
        api_key=_read_key(orders.key_path) if orders.key_path else "",
        timing=timing,
        seed=orders.seed,
    )
    if orders.script_path:
        script = replace(script, wits=read_wits(Path(orders.script_path)))
    return script


def _check(orders: FakeOrders) -> None:
    _choose("manners", orders.manners, MANNERS)
    for feature in orders.with_features:
        _choose("feature", feature, sorted(ALL_FEATURES))
    if orders.tokens_per_second < 0 or orders.first_token_seconds < 0:
        raise UsageError("a time cannot be less than nothing")
    if orders.context_tokens < 1:
        raise UsageError(f"a context of {orders.context_tokens} tokens holds nothing")
    if not 0 <= orders.port < 1 << 16:
        raise UsageError(f"{orders.port} is not a port", "0 takes any that is free")


def choose_faults(names: Sequence[str]) -> tuple[Fault, ...]:
    """The switches with these names. Raises UsageError for one that there is not."""
    known = discover_faults()
    return tuple(known[_choose("fault", name, sorted(known))] for name in names)


def _choose(noun: str, name: str, known: Sequence[str]) -> str:
    if name in known:
        return name
    nearest = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {nearest[0]}? " if nearest else ""
    few = len(known) <= 10
    listing = f"there are: {', '.join(known)}" if few else "see stoker dev fake-engine --list"
    raise UsageError(f"there is no {noun} {name}", f"{question}{listing}")


def _read_key(path: str) -> str:
    try:
        key = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the key in {path} cannot be read: {error}") from None
    if not key:
        raise UsageError(f"{path} holds no key")
    return key
