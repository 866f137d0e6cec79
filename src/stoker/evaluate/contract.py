"""How many broken promises the contract finds, how often it cries wolf, and what that costs.

Run by hand: ``python -m stoker.evaluate.contract [--json]``. Every switch of the fake engine is
tried, and correct servers with other timing, pieces and words each time; Stoker and, where it can
be installed, the live probe of canitoolcall are run on the very same servers. ``FULL=1`` tries more
correct servers. Prints a table; it must never change what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stoker.commands.addresses_of import Access, parse_url
from stoker.commands.discovery import find_server
from stoker.contract.run import Selection, verify
from stoker.contract.selection import FULL, QUICK
from stoker.endpoints.limited import LimitedEndpoint
from stoker.errors import HostError, StokerError
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.script import ALL_FEATURES, MANNERS, Delivery, Limits, Script, Timing
from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.switches import discover_faults
from stoker.guard.asking import Silent, WallClock
from stoker.hosts.local import LocalHost
from stoker.model.contract import Feature, Offer, Offered, Subject, Verdict
from stoker.ports import Clock, Command, Endpoint

#: The rival: the nearest tool that tries a live server. It looks at tool calls and reasoning.
_RIVAL, _RIVAL_VERSION = "canitoolcall", "0.1.1"
_OURS = "Stoker"
_RIVALS = Path(".cache/rivals")
_INSTALL_SECONDS = 240.0
_PROBE_SECONDS = 60.0
_TRIAL_SECONDS = 120.0
_CONTEXT_TOKENS = 4096
#: Checks whose promises the rival looks at too.
_SHARED = ("tools_", "reasoning_")

_BY_CLIENT = frozenset({"openai_client"})
_AT_ONCE = 3
#: Of the servers here alone.
_KEY = "sk-of-the-report"

_Found = tuple[str, ...]
_Probe = Callable[[EngineServer, str], _Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One tool on one server: what it found wrong, and how long it took."""

    tool: str
    server: str
    area: str
    found: _Found
    seconds: float


def main() -> int:
    """Print the report; 1 where a fault was missed or a correct server was blamed by Stoker."""
    parser = argparse.ArgumentParser(prog="python -m stoker.evaluate.contract")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    arguments = parser.parse_args()
    tools: dict[str, _Probe] = {_OURS: _ask_stoker}
    rival, reason = _install_rival()
    if rival:
        tools[_RIVAL] = lambda server, level: _ask_rival(rival, server, level)
    runs = 200 if os.environ.get("FULL") else 12
    trials = [
        *_try_correct(tools, runs),
        *_try_faults(tools),
    ]
    rows = {name: _sum_up([each for each in trials if each.tool == name]) for name in tools}
    if arguments.json:
        _write(json.dumps({"tools": rows, "not_run": reason}, indent=1))
    else:
        _print(rows, reason, trials)
    ours = rows[_OURS]
    return int(bool(ours["false_alarms"]) or ours["found"] < ours["faults"])


def _try_correct(tools: Mapping[str, _Probe], runs: int) -> Iterator[Trial]:
    """Correct servers in all manners, no two alike."""
    for number in range(runs):
        script = _correct(number)
        name = f"correct {number} ({script.manners})"
        for tool, probe in tools.items():
            with EngineServer(script) as server:
                yield _time(tool, name, "correct", partial(probe, server, FULL))
        _say(f"correct servers: {number + 1} of {runs}")


def _correct(number: int) -> Script:
    """Another server for each number: manners, words, pieces, pauses and features."""
    return Script(
        manners=MANNERS[number % len(MANNERS)],
        api_key=_KEY if number % 3 else "",
        limits=Limits(context_tokens=_CONTEXT_TOKENS),
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


def _try_faults(tools: Mapping[str, _Probe]) -> Iterator[Trial]:
    """Every switch; some at the same time, since most of a trial is waiting."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for trials in pool.map(partial(_try_fault, tools), discover_faults().values()):
            _say(f"fault {trials[0].server}")
            yield from trials


def _try_fault(tools: Mapping[str, _Probe], fault: Fault) -> Sequence[Trial]:
    """The fault in the manners of each engine, until a tool has found it.

    The rival speaks to every engine alike, so one is enough for it.
    """
    area = "tools and reasoning" if _is_shared(fault) else "everything else"
    trials: list[Trial] = []
    for tool, probe in tools.items():
        # The client library comes with the command alone.
        ask = _ask_command if tool == _OURS and fault.killed_by == _BY_CLIENT else probe
        trial = Trial(tool=tool, server=fault.name, area=area, found=(), seconds=0.0)
        for manners in MANNERS if tool == _OURS else MANNERS[:1]:
            script = Script(
                manners=manners, api_key=_KEY, limits=Limits(context_tokens=_CONTEXT_TOKENS)
            )
            with EngineServer(script, fault=fault) as server:
                timed = _time(tool, fault.name, area, partial(ask, server, fault.level))
            trial = replace(timed, seconds=trial.seconds + timed.seconds)
            if trial.found:
                break
        trials.append(trial)
    return trials


def _is_shared(fault: Fault) -> bool:
    return any(check.startswith(_SHARED) for check in fault.killed_by)


def _time(tool: str, server: str, area: str, probe: Callable[[], _Found]) -> Trial:
    began = time.monotonic()
    found = probe()
    seconds = time.monotonic() - began
    return Trial(tool=tool, server=server, area=area, found=found, seconds=seconds)


def _ask_stoker(server: EngineServer, level: str) -> _Found:
    """What `stoker verify URL` says: the checks that failed, or the one sentence of a refusal."""
    clock = WallClock()
    key = server.script.api_key or None

    def wrap(endpoint: Endpoint, address: str) -> Endpoint:
        return _limit(endpoint, clock)

    try:
        found = find_server(parse_url(server.url), Access(key=key), published_name="", wrap=wrap)
        tried = verify(
            found.endpoint,
            name=server.url,
            subject=_declare(found.subject),
            clock=clock,
            reporter=Silent(),
            selection=Selection(level=level if level == QUICK else FULL),
        )
    except StokerError as error:
        return (error.summary,)
    bad = (Verdict.FAILED, Verdict.ERROR)
    return tuple(result.check for result in tried.results if result.verdict in bad)


def _declare(subject: Subject) -> Subject:
    """As `contract.promises` of a deployment would: a model that thinks can be told not to."""
    switch = Offered(offer=Offer.PROMISED, reason="declared")
    return replace(subject, features={**subject.features, Feature.THINKING_SWITCH: switch})


def _ask_command(server: EngineServer, level: str) -> _Found:
    """What the command says with the official client library, which it brings itself."""
    argv = (
        *(sys.executable, "-m", "stoker", "verify", server.url, "--json", "--level", level),
        *(word for check in _BY_CLIENT for word in ("--only", check)),
        *("--key-file", str(_write_key())),
    )
    folders = {"STOKER_STATE": ".cache/report/state", "STOKER_DATA": ".cache/report/data"}
    env = {**os.environ, **{name: str(Path(path).absolute()) for name, path in folders.items()}}
    ran = LocalHost().run(Command(argv=argv, timeout_seconds=_TRIAL_SECONDS, env=env))
    bad = (Verdict.FAILED, Verdict.ERROR)
    if ran.exit_status not in (0, 5):
        return (_last_line(ran.stderr or ran.stdout),)
    results = json.loads(ran.stdout)["results"]
    return tuple(each["check"] for each in results if each["verdict"] in bad)


def _write_key() -> Path:
    """The key as a file that only we can read, as the command wants it."""
    path = Path(".cache/report/key").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(_KEY, "utf-8")
    return path


def _limit(endpoint: Endpoint, clock: Clock) -> Endpoint:
    return LimitedEndpoint(endpoint, clock, _TRIAL_SECONDS)


def _ask_rival(python: str, server: EngineServer, level: str) -> _Found:
    """What the probe says in its own report; it has one level."""
    argv = (
        *(python, "-m", _RIVAL, "probe", "--base-url", f"{server.url}/v1"),
        *("--model", server.script.name, "--timeout", "10", "--json", "-"),
    )
    env = {"CANITOOLCALL_API_KEY": server.script.api_key} if server.script.api_key else {}
    ran = LocalHost().run(Command(argv=argv, timeout_seconds=_PROBE_SECONDS, env=env))
    try:
        outcomes = json.loads(ran.stdout)["outcomes"]
        bad = [each for each in outcomes if each["status"] in ("fail", "error")]
    except (ValueError, KeyError, TypeError):
        return ("it could not be probed",)
    return tuple(f"{each['scenario_id']}: {each['detail']}" for each in bad)


def _install_rival() -> tuple[str, str]:
    """The interpreter that has the rival, or why there is none."""
    # Commands run in the root folder.
    folder = (_RIVALS / f"{_RIVAL}-{_RIVAL_VERSION}").absolute()
    python = str(folder / "bin" / "python")
    steps = (
        (sys.executable, "-m", "venv", str(folder)),
        (python, "-m", "pip", "install", "--quiet", f"{_RIVAL}=={_RIVAL_VERSION}"),
    )
    check = Command(
        argv=(python, "-m", _RIVAL, "--version"), timeout_seconds=_PROBE_SECONDS, env={}
    )
    host = LocalHost()
    try:
        if Path(python).exists() and not host.run(check).exit_status:
            return python, ""
        _say(f"installing {_RIVAL} {_RIVAL_VERSION} into {folder}")
        for argv in steps:
            ran = host.run(Command(argv=argv, timeout_seconds=_INSTALL_SECONDS, env=os.environ))
            if ran.exit_status:
                return "", f"{_RIVAL}: not run ({_last_line(ran.stderr)})"
    except HostError as error:
        return "", f"{_RIVAL}: not run ({error.summary})"
    return python, ""


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason was given"])[-1][:200]


def _sum_up(trials: Sequence[Trial]) -> dict[str, float]:
    correct = [each for each in trials if each.area == "correct"]
    faults = [each for each in trials if each.area != "correct"]
    shared = [each for each in faults if each.area == "tools and reasoning"]
    return {
        "faults": len(faults),
        "found": sum(bool(each.found) for each in faults),
        "shared_faults": len(shared),
        "shared_found": sum(bool(each.found) for each in shared),
        "correct_servers": len(correct),
        "false_alarms": sum(bool(each.found) for each in correct),
        "seconds_a_correct_server": _mean([each.seconds for each in correct]),
        "seconds": round(sum(each.seconds for each in trials), 1),
    }


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 2) if values else 0.0


def _print(rows: Mapping[str, Mapping[str, float]], reason: str, trials: Sequence[Trial]) -> None:
    _write("| tool | faults found | of those in tools and reasoning | false alarms | seconds |")
    _write("|---|---|---|---|---|")
    for tool, row in rows.items():
        _write(
            f"| {tool} | {row['found']} of {row['faults']}"
            f" | {row['shared_found']} of {row['shared_faults']}"
            f" | {row['false_alarms']} in {row['correct_servers']} correct servers"
            f" | {row['seconds_a_correct_server']} a correct server, {row['seconds']} in all |"
        )
    if reason:
        _write(f"\n{reason}")
    for trial in trials:
        if trial.area == "correct" and trial.found:
            _write(f"\n{trial.tool} blames {trial.server}: {'; '.join(trial.found)[:400]}")
        if trial.area != "correct" and trial.tool == _OURS and not trial.found:
            _write(f"\nStoker missed {trial.server}")


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"  {text}\n")


if __name__ == "__main__":
    sys.exit(main())
