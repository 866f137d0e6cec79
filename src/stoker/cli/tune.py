"""The verb `tune`: better settings for a deployment, honestly found.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside the verb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import typer

from stoker.cli import tune_options as options
from stoker.cli.exit import ExitCode
from stoker.errors import UsageError

if TYPE_CHECKING:
    from stoker.commands.tune import TuneWish
    from stoker.commands.tune_work import Tuned
    from stoker.commands.world import World

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_Number = Optional[float]  # noqa: UP045
_Words = Optional[list[str]]  # noqa: UP045


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(tune)


def tune(
    *,
    file: options.File = None,
    objective: options.Objective = "throughput",
    concurrency: options.Concurrency = "8",
    workload: options.Workload = "chat",
    restarts: options.Restarts = 0,
    minutes: options.Minutes = 0.0,
    measure: options.Measure = "15s",
    repetitions: options.Repetitions = 2,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    e2e: options.E2e = None,
    free: options.Free = None,
    consent: options.Consent = None,
    seed: options.Seed = 0,
    fresh: options.Fresh = False,
    dry_run: options.DryRun = False,
    ask: options.Ask = None,
    show: options.Show = None,
    as_json: options.AsJson = False,
) -> None:
    """Find better settings for a deployment at the price of few restarts, and confirm them.

    The deployment is restarted with other settings again and again; at the end the best that was
    confirmed runs and stands in the file. Ends with 130 if it was interrupted: the same command
    goes on with it.
    """
    from stoker.cli.progress import JsonReporter, SilentReporter, TextReporter
    from stoker.cli.world import build_world

    if show is not None:
        _show(build_world(SilentReporter()), show, as_json=as_json)
        return
    if file is None:
        raise UsageError("which deployment?", "name its file: stoker tune FILE")
    wish = _make_wish(
        metric=objective,
        concurrency=concurrency,
        workload=workload,
        budget=(restarts, minutes),
        effort=(measure, repetitions, seed),
        objectives={"ttft_ms": ttft, "tpot_ms": tpot, "e2e_ms": e2e},
        wishes=(free or [], consent or []),
        is_fresh=fresh,
    )
    if dry_run or ask:
        _look(build_world(SilentReporter()), file, wish, ask or [], as_json=as_json)
        return
    from stoker.commands.tune import tune as tune_file

    reporter = JsonReporter() if as_json else TextReporter()
    try:
        world = build_world(reporter)
        done = tune_file(world, file, wish)
    finally:
        reporter.close()
    _print(world, done, as_json=as_json)


def _make_wish(  # one option each
    *,
    metric: str,
    concurrency: str,
    workload: str,
    budget: tuple[int, float],
    effort: tuple[str, int, int],
    objectives: dict[str, float | None],
    wishes: tuple[list[str], list[str]],
    is_fresh: bool,
) -> TuneWish:
    from stoker.cli.bench_loads import parse_counts
    from stoker.commands.soaking import parse_duration
    from stoker.commands.tune import TuneWish
    from stoker.knowledge.spaces import Wishes
    from stoker.model.campaign import Effort
    from stoker.model.tuning import Aim, Budget

    seconds, repetitions, seed = effort
    return TuneWish(
        aim=Aim(
            metric=metric,
            concurrencies=parse_counts(concurrency),
            objectives={name: value for name, value in objectives.items() if value is not None},
            workload=workload,
        ),
        budget=Budget(restarts=budget[0], minutes=budget[1]),
        effort=Effort(seconds=parse_duration(seconds), repetitions=repetitions, seed=seed),
        wishes=Wishes(free=frozenset(wishes[0]), consents=frozenset(wishes[1])),
        is_fresh=is_fresh,
    )


def _look(world: World, file: str, wish: TuneWish, ask: list[str], *, as_json: bool) -> None:
    from stoker.cli.output import print_text, print_value
    from stoker.cli.tune_space import render_space
    from stoker.commands.tune import prepare_tuning
    from stoker.commands.tune_answer import answer
    from stoker.commands.tuning_space import describe_space

    prepared = prepare_tuning(world, file, wish)
    if ask:
        found = answer(world, prepared, ask)
        if as_json:
            print_value({"schema": "tuning-answers/1", "answers": list(found)})
        else:
            print_text("\n".join(found))
        return
    described = describe_space(world, prepared, wish.budget)
    if as_json:
        print_value(described)
    else:
        print_text(render_space(described))


def _show(world: World, wanted: str, *, as_json: bool) -> None:
    from stoker.cli.output import print_text, print_value
    from stoker.commands.tune_table import make_table
    from stoker.report.tuning_text import render_tuning
    from stoker.state.campaigns import read_campaign

    table = make_table(world, read_campaign(world.host, world.folders, wanted))
    if as_json:
        print_value(table)
    else:
        print_text(render_tuning(table))


def _print(world: World, done: Tuned, *, as_json: bool) -> None:
    from stoker.cli.output import print_text, print_value
    from stoker.commands.tune_table import make_table
    from stoker.report.tuning_text import render_tuning

    table = make_table(world, done.campaign)
    if as_json:
        print_value(table)
    else:
        print_text(render_tuning(table))
    end = done.campaign.end
    if done.was_interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if end is not None and end.unwritten:
        raise typer.Exit(ExitCode.ROLLED_BACK)
