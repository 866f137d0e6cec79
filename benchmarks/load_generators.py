"""How load generators compare: what each reaches, says and costs, against a server of exact timing.

Called by `make bench-report`. By default it ends within ten minutes: rivals that are installed are
run, and those that can be installed in the time that is left; FULL=1 installs all and takes the
median of three tries. Each tool gets the same tries, and no tool always goes first. It asserts
nothing; the aims stand beside the figures for a person to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic

from benchmarks.load_generators_report import render
from benchmarks.load_generators_tokenizer import write_tokenizer
from benchmarks.load_generators_tools import (
    PROJECT,
    NotRun,
    Tool,
    estimate_install,
    find_program,
    install,
    load_tools,
)
from benchmarks.load_generators_trial import Load, Trial, try_tool

#: One request after the other is paced quicker, so that as many tokens come in the same time.
LOADS = (
    Load(name="c1", concurrency=1, requests=10, ttft_ms=50.0, itl_ms=5.0),
    Load(name="c64", concurrency=64, requests=320),
    Load(name="c256", concurrency=256, requests=1280),
    Load(name="c512", concurrency=512, requests=2048),
    Load(
        name="flat-out",
        concurrency=16,
        requests=320,
        tokens=512,
        ttft_ms=0.0,
        itl_ms=0.0,
        events_per_write=16,
    ),
)

#: The target ends within ten minutes, the making of .venv included.
_BUDGET_SECONDS = 500.0
_TRIES = 2
_FULL_TRIES = 3
_FULL_INSTALL_SECONDS = 1800.0
#: The slowest tool of those known takes 24 s for one load.
_TRIAL_SECONDS = 120.0
#: What one tool takes for one load on average, start-up included.
_USUAL_TRIAL_SECONDS = 16.0

#: The tokenizer of a real model, where one was made for the tests of real engines.
_REAL_TOKENIZER = ".cache/engines/models/smollm2-hf"


@dataclass(slots=True)
class Budget:
    """The time that is left; None is no bound."""

    seconds: float | None
    _started: float = field(default_factory=monotonic)

    @property
    def left_seconds(self) -> float:
        """May be negative."""
        if self.seconds is None:
            return float("inf")
        return self.seconds - (monotonic() - self._started)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report."""
    arguments = _parse(argv)
    budget = Budget(arguments.budget_seconds or None)
    loads = [each for each in LOADS if not arguments.load or each.name in arguments.load]
    loads = [_change(each, arguments) for each in loads]
    known = load_tools()
    wanted = [tool for tool in known if not arguments.tool or tool.name in arguments.tool]
    tools, not_run = prepare(wanted, loads, budget, may_install=not arguments.no_install)
    with tempfile.TemporaryDirectory(prefix="load-generators-") as folder:
        _place_tokenizer(Path(folder) / "tokenizer")
        kept = Path(arguments.keep) if arguments.keep else None
        rounds = Rounds(folder=Path(folder), budget=budget, kept=kept)
        trials = run_rounds(tools, loads, arguments.tries, rounds)
    print(render(trials, loads, known))
    for line in not_run:
        print(f"not run: {line}")
    if arguments.json:
        told = {"trials": [asdict(trial) for trial in trials], "not_run": not_run}
        Path(arguments.json).write_text(json.dumps(told, indent=1), "utf-8")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    is_full = bool(os.environ.get("FULL"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_generators")
    add = parser.add_argument
    add("--tool", action="append", choices=[tool.name for tool in load_tools()], help="this alone")
    add("--load", action="append", choices=[load.name for load in LOADS], help="this alone")
    add("--tries", type=int, default=_FULL_TRIES if is_full else _TRIES, help="of each, at most")
    add("--tokens", type=int, help="of each answer, where the server keeps a pace")
    add("--concurrency", type=int, help="in place of the load's own")
    add("--requests", type=int, help="in place of the load's own")
    add("--json", metavar="FILE", help="write every trial there too")
    add("--keep", metavar="FOLDER", help="copy what the tools and the server write into it")
    add("--no-install", action="store_true", help="run only what is installed")
    add(
        "--budget-seconds",
        type=float,
        default=0.0 if is_full else _BUDGET_SECONDS,
        help="begin nothing that would end later; 0 for no bound",
    )
    return parser.parse_args(argv)


def _change(load: Load, arguments: argparse.Namespace) -> Load:
    paced = arguments.tokens if load.itl_ms else None
    return replace(
        load,
        tokens=paced or load.tokens,
        concurrency=arguments.concurrency or load.concurrency,
        requests=arguments.requests or load.requests,
    )


def prepare(
    tools: Sequence[Tool], loads: Sequence[Load], budget: Budget, *, may_install: bool
) -> tuple[list[Tool], list[str]]:
    """Those that can be run, and a sentence for each other; what is not there is installed where
    the time allows."""
    ready: list[Tool] = []
    not_run: list[str] = []
    for tool in sorted(tools, key=_is_missing):
        try:
            if _is_missing(tool) and may_install:
                _install(tool, len(loads) * (len(ready) + 1) * _USUAL_TRIAL_SECONDS, budget)
            find_program(tool)
            ready.append(tool)
        except NotRun as error:
            not_run.append(f"{tool.name}: {error}")
    return ready, not_run


def _is_missing(tool: Tool) -> bool:
    try:
        find_program(tool)
    except NotRun:
        return True
    return False


def _install(tool: Tool, kept_seconds: float, budget: Budget) -> None:
    """Install a tool if enough time is kept to run all. Raises NotRun."""
    left_seconds = budget.left_seconds - kept_seconds
    takes_seconds = estimate_install(tool)
    if takes_seconds > left_seconds:
        raise NotRun(
            f"installing it takes about {takes_seconds:.0f} s, which is more than is left; "
            f"to have it: {tool.get}"
        )
    _say(f"installing {tool.name}, about {takes_seconds:.0f} s")
    install(tool, min(left_seconds, _FULL_INSTALL_SECONDS))


def _place_tokenizer(place: Path) -> None:
    real = PROJECT / _REAL_TOKENIZER
    if (real / "tokenizer.json").is_file():
        place.symlink_to(real)
    else:
        write_tokenizer(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Where the trials work, how long they may, and where their files are kept, if anywhere."""

    folder: Path
    budget: Budget
    kept: Path | None = None


def run_rounds(
    tools: Sequence[Tool], loads: Sequence[Load], tries: int, rounds: Rounds
) -> list[Trial]:
    """Every tool under every load, so often; a further round begins only if all of it fits."""
    trials: list[Trial] = []
    took_seconds: dict[str, float] = {}
    for attempt in range(tries):
        for number, load in enumerate(loads):
            if attempt and took_seconds.get(load.name, 0.0) > rounds.budget.left_seconds:
                continue
            began = monotonic()
            trials += [_try(tool, load, rounds) for tool in _rotate(tools, attempt + number)]
            took_seconds[load.name] = monotonic() - began
    return trials


def _rotate(tools: Sequence[Tool], by: int) -> list[Tool]:
    start = by % len(tools) if tools else 0
    return [*tools[start:], *tools[:start]]


def _try(tool: Tool, load: Load, rounds: Rounds) -> Trial:
    left_seconds = rounds.budget.left_seconds
    if left_seconds <= 0:
        return Trial(tool=tool.name, load=load, failure="no time was left")
    folder = rounds.folder / tool.name
    folder.mkdir()
    try:
        trial = try_tool(tool, load, folder, min(_TRIAL_SECONDS, left_seconds))
        if rounds.kept is not None:
            # The latest try of several.
            kept = rounds.kept / f"{load.name}-{tool.name}"
            shutil.copytree(folder, kept, dirs_exist_ok=True)
    finally:
        shutil.rmtree(folder)
    _say(f"{load.name}: {tool.name}: {trial.failure or _describe(trial)}")
    return trial


def _describe(trial: Trial) -> str:
    if trial.truth is None or trial.spent is None:
        return "nothing"
    return f"{trial.truth.tokens_per_second:,.0f} tokens/s, {trial.spent.wall_seconds:.1f} s"


def _say(line: str) -> None:
    """Progress, for whoever waits."""
    sys.stderr.write(f"  {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
