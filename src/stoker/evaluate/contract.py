"""How many broken promises the contract finds, how often it cries wolf, and what that costs.

Run by hand: ``python -m stoker.evaluate.contract [--json]``. Every switch of the fake engine is
tried, and correct servers with other timing, pieces and words each time; Stoker and, where it can
be installed, the live probe of canitoolcall are run on the very same servers. What a tool says of
a correct server of the same kind counts as found on none. ``FULL=1`` tries more correct servers.
Prints a table; it must never change what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from typing import TypeVar

from stoker.contract.selection import SOAK
from stoker.errors import UsageError
from stoker.evaluate.contract_tools import (
    BY_CLIENT,
    CONTEXT_TOKENS,
    KEY,
    OURS,
    REQUEST_SECONDS,
    RIVAL,
    Way,
    ask,
    install_rival,
)
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.script import (
    ALL_FEATURES,
    MANNERS,
    USUAL_FEATURES,
    Delivery,
    Limits,
    Script,
    Timing,
)
from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.switches import discover_faults

#: Checks whose promises the rival looks at too.
_SHARED = ("tools_", "reasoning_")
_CORRECT, _SHARED_AREA, _OTHER_AREA = "correct", "tools and reasoning", "everything else"
_AT_ONCE = 3
#: Where the connection itself is broken a reply may never end, and each check would wait for it.
_BROKEN_REQUEST_SECONDS = 2.0

_Found = frozenset[str]
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One tool on one server: what it found wrong, and how long it took.

    ``is_named``: all checks that are there for the fault are among it.
    """

    tool: str
    server: str
    area: str
    found: _Found = frozenset()
    is_named: bool = False
    seconds: float = 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 1 where Stoker blames a correct server. What it missed is listed."""
    arguments = _parse(argv)
    rival, reason = ("", f"{RIVAL}: not run (--no-rival)")
    if not arguments.no_rival:
        rival, reason = install_rival()
    faults = _choose(arguments.fault)
    began = time.monotonic()
    with _mapping(arguments.at_once) as map_all:
        trials = [
            *_try_all_correct(rival, arguments.correct, map_all),
            *_try_all_faults(rival, faults, map_all),
        ]
    seconds = round(time.monotonic() - began, 1)
    tools = (OURS, RIVAL) if rival else (OURS,)
    rows = {name: _sum_up([each for each in trials if each.tool == name]) for name in tools}
    if arguments.json:
        missed = {"missed": _missed(trials), "not_named": _not_named(trials)}
        told = {"tools": rows, "not_run": reason, "seconds": seconds, **missed}
        _write(json.dumps(told, indent=1))
    else:
        _print(rows, reason, trials)
        _write(f"\n{seconds} s in all")
    ours = rows[OURS]
    return int(bool(ours["false_alarms"]))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    runs = 200 if os.environ.get("FULL") else 12
    parser = argparse.ArgumentParser(prog="python -m stoker.evaluate.contract")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    parser.add_argument("--fault", action="append", default=[], help="this one alone; repeatable")
    parser.add_argument("--correct", type=int, default=runs, help="how many correct servers")
    parser.add_argument("--no-rival", action="store_true", help="try Stoker alone")
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help="how many at the same time")
    return parser.parse_args(argv)


def _choose(names: Sequence[str]) -> list[Fault]:
    known = discover_faults()
    for name in names:
        if name not in known:
            raise UsageError(f"there is no fault {name}", "stoker dev fake-engine --list")
    return [known[name] for name in names] if names else list(known.values())


@contextmanager
def _mapping(at_once: int) -> Iterator[_Map]:
    """A map over processes, since most of a trial is computed by the fake engine; one by one
    in this process for 1."""
    if at_once <= 1:
        yield _Map(None)
        return
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        yield _Map(pool)


class _Map:
    """What a function makes of many values, in their order."""

    def __init__(self, pool: ProcessPoolExecutor | None) -> None:
        self._pool = pool

    def __call__(
        self, function: Callable[[_Given], _Made], values: Iterable[_Given]
    ) -> Iterable[_Made]:
        return self._pool.map(function, values) if self._pool else map(function, values)


# --- correct servers ---


def _try_all_correct(rival: str, runs: int, map_all: _Map) -> Iterator[Trial]:
    """Correct servers in all manners, no two alike."""
    for number, trials in enumerate(map_all(partial(_try_correct, rival), range(runs))):
        _say(f"correct servers: {number + 1} of {runs}")
        yield from trials


def _try_correct(rival: str, number: int) -> list[Trial]:
    script = _correct(number)
    name = f"correct {number} ({script.manners})"
    trials = []
    for tool in (OURS, RIVAL) if rival else (OURS,):
        way = Way(tool=tool, manners=script.manners, features=script.features)
        with EngineServer(script) as server:
            found, seconds = _time(partial(ask, rival, way, server))
        trials.append(Trial(tool=tool, server=name, area=_CORRECT, found=found, seconds=seconds))
    return trials


def _correct(number: int) -> Script:
    """Another server for each number: manners, words, pieces, pauses and features."""
    return Script(
        manners=MANNERS[number % len(MANNERS)],
        api_key=KEY if number % 3 else "",
        limits=Limits(context_tokens=CONTEXT_TOKENS),
        features=ALL_FEATURES if number % 2 else Script().features,
        timing=Timing(first_token_seconds=0.001 * (number % 4)),
        delivery=Delivery(
            seed=number,
            most_tokens_per_chunk=1 + number % 5,
            most_writes_per_event=1 + number % 3,
            comment_rate=0.1 * (number % 3),
        ),
        seed=number,
    )


# --- broken servers ---


def _try_all_faults(rival: str, faults: Sequence[Fault], map_all: _Map) -> Iterator[Trial]:
    names = [fault.name for fault in faults]
    for trials in map_all(partial(_try_fault, rival), names):
        _say("; ".join([f"fault {trials[0].server}", *map(_describe, trials)]))
        yield from trials


def _describe(trial: Trial) -> str:
    outcome = "named" if trial.is_named else "found" if trial.found else "nothing"
    return f"{trial.tool}: {outcome} in {trial.seconds:.1f} s"


@cache
def _ask_correct(rival: str, way: Way) -> frozenset[str]:
    """What a tool says of the same server without a fault; once in each process."""
    with EngineServer(way.script) as server:
        return ask(rival, way, server)


def _ways(fault: Fault) -> list[Way]:
    """How a fault is tried until it shows: some can be seen in the manners of one engine only."""
    # A soak is long, and the client library comes with the command alone.
    is_apart = fault.level == SOAK or fault.killed_by == BY_CLIENT
    return [
        Way(
            tool=OURS,
            manners=manners,
            features=features,
            only=fault.killed_by if is_apart else frozenset(),
            level=fault.level,
            request_seconds=_BROKEN_REQUEST_SECONDS if fault.wire else REQUEST_SECONDS,
        )
        for features, manners in product((USUAL_FEATURES, ALL_FEATURES), MANNERS)
    ]


def _try_fault(rival: str, name: str) -> list[Trial]:
    """The fault until Stoker names it; the rival in the same ways until it finds anything."""
    fault = discover_faults()[name]
    area = _SHARED_AREA if any(map(_is_shared, fault.killed_by)) else _OTHER_AREA
    ours = Trial(tool=OURS, server=name, area=area)
    theirs = replace(ours, tool=RIVAL)
    for way in _ways(fault):
        ours = _try_way(rival, fault, ours, way)
        if rival and not theirs.found:
            theirs = _try_way(rival, fault, theirs, Way.of_rival(way))
        if ours.is_named:
            break
    return [ours, theirs] if rival else [ours]


def _try_way(rival: str, fault: Fault, trial: Trial, way: Way) -> Trial:
    with EngineServer(way.script, fault=fault) as server:
        failed, seconds = _time(partial(ask, rival, way, server, fault.killed_by))
    found = failed - _ask_correct(rival, way.correct) if failed else failed
    return replace(
        trial,
        found=trial.found | found,
        is_named=fault.killed_by <= found,
        seconds=trial.seconds + seconds,
    )


def _is_shared(check: str) -> bool:
    return check.startswith(_SHARED)


def _time(ask: Callable[[], _Found]) -> tuple[_Found, float]:
    began = time.monotonic()
    found = ask()
    return found, time.monotonic() - began


# --- what came of it ---


def _sum_up(trials: Sequence[Trial]) -> dict[str, float]:
    correct = [each for each in trials if each.area == _CORRECT]
    faults = [each for each in trials if each.area != _CORRECT]
    shared = [each for each in faults if each.area == _SHARED_AREA]
    return {
        "faults": len(faults),
        "found": sum(bool(each.found) for each in faults),
        "found_by_name": sum(each.is_named for each in faults),
        "shared_faults": len(shared),
        "shared_found": sum(bool(each.found) for each in shared),
        "shared_found_by_name": sum(each.is_named for each in shared),
        "correct_servers": len(correct),
        "false_alarms": sum(bool(each.found) for each in correct),
        "seconds_a_correct_server": _mean([each.seconds for each in correct]),
        "seconds": round(sum(each.seconds for each in trials), 1),
    }


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 2) if values else 0.0


def _missed(trials: Sequence[Trial]) -> list[str]:
    """The faults on which Stoker found nothing."""
    ours = [each for each in trials if each.tool == OURS and each.area != _CORRECT]
    return [each.server for each in ours if not each.found]


def _not_named(trials: Sequence[Trial]) -> list[str]:
    """The faults on which Stoker found something, but not all that is there for them."""
    ours = [each for each in trials if each.tool == OURS and each.area != _CORRECT]
    return [each.server for each in ours if each.found and not each.is_named]


def _print(rows: Mapping[str, Mapping[str, float]], reason: str, trials: Sequence[Trial]) -> None:
    shared = "in tools and reasoning"
    _write(
        f"| tool | found | found by name | {shared} | of those by name | false alarms | seconds |"
    )
    _write("|---|---|---|---|---|---|---|")
    for tool, row in rows.items():
        # The rival's scenarios have names of their own.
        is_ours = tool == OURS
        _write(
            f"| {tool} | {row['found']} of {row['faults']}"
            f" | {row['found_by_name'] if is_ours else '-'}"
            f" | {row['shared_found']} of {row['shared_faults']}"
            f" | {row['shared_found_by_name'] if is_ours else '-'}"
            f" | {row['false_alarms']} in {row['correct_servers']} correct servers"
            f" | {row['seconds_a_correct_server']} a correct server, {row['seconds']} in all |"
        )
    if reason:
        _write(f"\n{reason}")
    for trial in trials:
        if trial.area == _CORRECT and trial.found:
            _write(f"\n{trial.tool} blames {trial.server}: {'; '.join(sorted(trial.found))[:400]}")
    for text, names in (("missed", _missed(trials)), ("did not name", _not_named(trials))):
        if names:
            _write(f"\nStoker {text}: {', '.join(names)}")


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"  {text}\n")


if __name__ == "__main__":
    sys.exit(main())
