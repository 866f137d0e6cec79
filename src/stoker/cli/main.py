"""The ``stoker`` command: verbs, their options, and the one place where errors become words.

Commands are imported inside each verb, so that `stoker --help` loads nothing of them. This is
one of the three places with a broad ``except``: what reaches it is a bug of ours and is shown
as one.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker import __version__
from stoker.cli import bench as bench_verbs
from stoker.cli import bundle as bundle_verb
from stoker.cli import capacity as capacity_verb
from stoker.cli import dev as dev_verbs
from stoker.cli import diagnose as diagnose_verb
from stoker.cli import engine as engine_verbs
from stoker.cli import model as model_verbs
from stoker.cli import recipe_import, repairing, resolved, takeover
from stoker.cli import recipes as recipe_verbs
from stoker.cli import tune as tune_verb
from stoker.cli import verify as verify_verb
from stoker.cli.exit import ExitCode
from stoker.cli.failed import telling_cause
from stoker.errors import StokerError, UsageError

if TYPE_CHECKING:
    from stoker.commands.converge import Converged
    from stoker.commands.world import World

app = typer.Typer(
    name="stoker",
    help="One deployment file becomes a verified, supervised model server on your own machine.\n\n"
    "Begin with `stoker up` (an embedded example), then `stoker init` for your own model.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

#: A flag may be asked for as it is written, dashes and all.
_TAKES_FLAGS = {"ignore_unknown_options": True}
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="The deployment file (YAML).")]
EndHolders = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="PID[,PID...]",
        help="End these processes before the start: they hold the GPUs or the port.",
    ),
]
Name = Annotated[
    Optional[str],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
    typer.Argument(metavar="[NAME]", help="The deployment; may be left out if there is one."),
]


def run() -> None:
    """The entry point: runs the command line and ends the process with a documented code."""
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        from stoker.cli.streams import open_closed_streams

        open_closed_streams()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        app(prog_name="stoker")
    except StokerError as error:
        from stoker.cli.output import print_error

        print_error(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)
    except SystemExit as ending:
        if ending.code == ExitCode.INTERRUPTED:  # Typer's word for a KeyboardInterrupt in a verb
            sys.stderr.write("interrupted\n")
        raise
    except KeyboardInterrupt:  # before the verb began
        sys.stderr.write("interrupted\n")
        sys.exit(ExitCode.INTERRUPTED)
    except Exception:
        traceback.print_exc()
        sys.stderr.write("error: this is a bug in Stoker; please report the lines above\n")
        sys.exit(ExitCode.BUG)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """A polite request to end is treated like Ctrl-C: what was begun is rolled back."""
    raise KeyboardInterrupt


@contextmanager
def _world(*, as_json: bool, is_quiet: bool = False) -> Iterator[World]:
    """The world with the reporter that was asked for; a quiet one where the result tells all."""
    from stoker.cli.progress import JsonReporter, SilentReporter, TextReporter
    from stoker.cli.world import build_world

    loud = JsonReporter() if as_json else TextReporter()
    reporter = SilentReporter() if is_quiet else loud
    try:
        yield build_world(reporter)
    finally:
        reporter.close()


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001
    if is_wanted:
        sys.stdout.write(f"stoker {__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Read the options that come before a verb."""


@app.command()
def init(
    *,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="hf:ORG/NAME@REVISION, path:/absolute/path or package:NAME"),
    ] = None,
    output: Annotated[str, typer.Option(help="The file to write.")] = "deployment.yaml",
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Which engine serves it."),
    ] = None,
    environment: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Where the engine is: path:/a/virtual/environment, system or embedded."),
    ] = None,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The deployment's name; from the model if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a commented deployment file for this machine and a model."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.init import Wish, init_deployment

    wish = Wish(model=model, engine=engine, environment=environment, name=name, output=output)
    with _world(as_json=as_json) as world:
        written = init_deployment(world, wish)
    if as_json:
        print_value({"schema": "init/1", "file": written.path, "editor_schema": written.schema})
    else:
        print_text(
            f"Wrote {written.path}, and {written.schema} for editors.\n"
            f"Read it, then: stoker plan {written.path}"
        )


@app.command()
def schema(*, as_json: AsJson = False) -> None:
    """Print the JSON Schema of deployment files, for editors."""
    from stoker.cli.output import print_value
    from stoker.knowledge.engines import engine_kinds
    from stoker.spec import deployment_schema

    print_value(deployment_schema(engine_kinds()))


@app.command()
def facts(
    *,
    file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[FILE]", help="A deployment file: its model and engine too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what this machine is: memory, disks, GPUs, ports."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.facts import read_facts
    from stoker.report.facts_text import render_facts

    with _world(as_json=as_json) as world:
        found = read_facts(world, file)
    if as_json:
        print_value(found)
    else:
        print_text(render_facts(found))


@app.command()
def plan(
    *,
    file: File,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Write the plan to this file as well, for `stoker apply PLAN`."),
    ] = None,
    end_holders: EndHolders = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 4 if there is something to do.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what apply would do, and why. Changes nothing."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.holders import parse_pids
    from stoker.commands.plan import plan_file, write_plan_file
    from stoker.report.plan_text import render_plan

    with _world(as_json=as_json) as world:
        planned = plan_file(world, file, end_holders=parse_pids(end_holders))
        if out is not None:
            write_plan_file(world, planned.plan, out)
    if as_json:
        print_value(planned.plan)
    else:
        print_text(render_plan(planned.plan))
        if not planned.plan.is_empty and not planned.plan.blocked_by:
            print_text(f"\nTo do exactly this: stoker apply {out or planned.path}")
    if planned.plan.blocked_by:
        raise typer.Exit(ExitCode.BLOCKED)
    if exit_code and not planned.plan.is_empty:
        raise typer.Exit(ExitCode.CHANGES_PENDING)


@app.command(context_settings=_TAKES_FLAGS)
def explain(
    *,
    file: File,
    flag: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[FLAG]", help="One flag or variable; all settings if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say of each setting who chose it, why, from which source, and what would be without it."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.explain import explain_file
    from stoker.report.explained_text import render_explained

    with _world(as_json=as_json, is_quiet=as_json) as world:
        explained = explain_file(world, file, flag=flag)
    if as_json:
        print_value(explained)
    else:
        print_text(render_explained(explained))


@app.command()
def apply(
    *,
    file: File,
    end_holders: EndHolders = None,
    repair: repairing.IsWanted = False,
    attempts: repairing.Attempts = None,
    budget: repairing.Budget = None,
    consent: repairing.Consent = None,
    as_json: AsJson = False,
) -> None:
    """Make it so: change, start, wait until verified; or roll back by itself.

    FILE is a deployment file, or a plan that `stoker plan` saved. With --repair a start that fails
    is diagnosed, mended and tried again, and the file gets what was verified.
    """
    from stoker.cli.applied import print_applied, print_repaired
    from stoker.commands.apply import apply_file
    from stoker.commands.holders import parse_pids
    from stoker.commands.repair import apply_repairing

    wish = repairing.read_wish(repair, attempts=attempts, budget=budget, consent=consent)
    pids = parse_pids(end_holders)
    with _world(as_json=as_json) as world:
        if wish is not None:
            repaired = apply_repairing(world, file, wish, end_holders=pids)
        else:
            with telling_cause(world):
                applied = apply_file(world, file, end_holders=pids)
    if wish is not None:
        print_repaired(repaired, as_json=as_json)
    else:
        print_applied(applied, as_json=as_json)


@app.command()
def up(
    *,
    file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[FILE]", help="A deployment file; the embedded example if none."),
    ] = None,
    port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=65535, help="Another port for the embedded example."),
    ] = None,
    end_holders: EndHolders = None,
    repair: repairing.IsWanted = False,
    attempts: repairing.Attempts = None,
    budget: repairing.Budget = None,
    consent: repairing.Consent = None,
    as_json: AsJson = False,
) -> None:
    """Short for apply; without a file it serves a small embedded model."""
    from stoker.cli.applied import print_applied
    from stoker.commands.holders import parse_pids
    from stoker.commands.up import up_deployment

    if repair and file is None:
        raise UsageError("--repair writes what it found into a deployment file", "name one")
    repairing.read_wish(repair, attempts=attempts, budget=budget, consent=consent)
    if file is not None and repair:
        if port is not None:
            raise UsageError("--port is for the embedded example alone", f"set it in {file}")
        apply(
            file=file,
            end_holders=end_holders,
            repair=repair,
            attempts=attempts,
            budget=budget,
            consent=consent,
            as_json=as_json,
        )
        return
    with _world(as_json=as_json) as world, telling_cause(world):
        applied = up_deployment(world, file, port=port, end_holders=parse_pids(end_holders))
    print_applied(applied, as_json=as_json)


@app.command()
def status(*, name: Name = None, as_json: AsJson = False) -> None:
    """Show what runs, and whether it is verified."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.status import read_status
    from stoker.report.status_text import render_status

    with _world(as_json=as_json) as world:
        found = read_status(world, name)
    if as_json:
        print_value(found)
    else:
        print_text(render_status(found))


@app.command()
def logs(
    *,
    name: Name = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it is written.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many at first.")] = 50,
    journal: Annotated[
        bool, typer.Option("--journal", help="What the supervisor itself wrote of the service.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the engine wrote."""
    from stoker.cli.output import print_chunk, print_value
    from stoker.commands.logs import follow_logs, read_logs, read_messages

    if journal and follow:
        raise UsageError("--journal cannot be followed", "leave -f out, or --journal")
    read = read_messages if journal else read_logs
    with _world(as_json=as_json) as world:
        found = read(world, name, line_count=lines)
        if as_json and not follow:
            print_value({"schema": "logs/1", "lines": list(found)})
            return
        shape = json_lines if as_json else str
        if found:
            print_chunk(shape("\n".join(found) + "\n"))
        for text in follow_logs(world, name) if follow else ():
            if not print_chunk(shape(text)):
                return


def json_lines(text: str) -> str:
    """A followed log as JSON: one object for each line of the engine."""
    lines = (json.dumps({"line": line}, ensure_ascii=False) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


@app.command()
def start(*, name: Name = None, end_holders: EndHolders = None, as_json: AsJson = False) -> None:
    """Start a stopped deployment and wait until it is verified."""
    from stoker.commands.holders import parse_pids
    from stoker.commands.service import start_deployment

    with _world(as_json=as_json) as world, telling_cause(world):
        done = start_deployment(world, name, end_holders=parse_pids(end_holders))
    _print_done(done, "runs and is verified", as_json=as_json)


@app.command()
def stop(*, name: Name = None, as_json: AsJson = False) -> None:
    """Stop a deployment; `stoker start` brings it back."""
    from stoker.commands.service import stop_deployment

    with _world(as_json=as_json) as world:
        done = stop_deployment(world, name)
    _print_done(done, "is stopped", as_json=as_json)


@app.command()
def down(*, name: Name = None, as_json: AsJson = False) -> None:
    """Stop a deployment and remove what apply made; models are kept."""
    from stoker.commands.service import remove_deployment

    with _world(as_json=as_json) as world:
        done = remove_deployment(world, name)
    _print_done(done, "is down; its model files are kept", as_json=as_json)


@app.command()
def rollback(
    *,
    words: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="[N] [NAME]",
            help="The generation (the one before if left out) and the deployment.",
        ),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the generations.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring an earlier generation back, verified like any start.

    It becomes a new generation; so a second rollback returns to where you were.
    """
    from stoker.commands.service import rollback_deployment

    generation, name = split_rollback_words(words or [])
    if list_them:
        _print_generations(name, as_json=as_json)
        return
    with _world(as_json=as_json) as world:
        done = rollback_deployment(world, name, generation)
    _print_done(done, "is rolled back, runs and is verified", as_json=as_json)


def split_rollback_words(words: list[str]) -> tuple[int | None, str | None]:
    """A number and a name in either order, each at most once. Raises UsageError."""
    numbers = [word for word in words if word.isdecimal()]
    names = [word for word in words if not word.isdecimal()]
    if len(numbers) > 1 or len(names) > 1:
        raise UsageError(f"one generation and one deployment, not: {' '.join(words)}")
    return (int(numbers[0]) if numbers else None), (names[0] if names else None)


def _print_generations(name: str | None, *, as_json: bool) -> None:
    from stoker.cli.output import print_text, print_value
    from stoker.commands.generations import read_generations
    from stoker.report.generations_text import render_generations

    with _world(as_json=as_json) as world:
        found = read_generations(world, name)
    if as_json:
        print_value(found)
    else:
        print_text(render_generations(found))


def _print_done(done: Converged, text: str, *, as_json: bool) -> None:
    from stoker.cli.output import print_text, print_value

    if as_json:
        print_value({"schema": "done/1", "name": done.plan.name, "run": done.run})
    else:
        nothing = "" if done.run else " (nothing had to change)"
        print_text(f"{done.plan.name} {text}{nothing}")


capacity_verb.register(app)
bench_verbs.register(app)
bundle_verb.register(app)
diagnose_verb.register(app)
verify_verb.register(app)
takeover.register(app)
tune_verb.register(app)
engine_verbs.register(app)
model_verbs.register(app)
resolved.register(app)
recipe_verbs.register(app)
recipe_import.register(recipe_verbs.recipes)
dev_verbs.register(app)
