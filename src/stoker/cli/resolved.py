"""The verb `resolved`: what an engine decided at its start.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside the verb.
"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from stoker.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(resolved)


def resolved(
    *,
    name: Annotated[
        Optional[str],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
        typer.Argument(metavar="[NAME]", help="The deployment; may be left out if there is one."),
    ] = None,
    log: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Read this log instead of a deployment's."),
    ] = None,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Which engine wrote the log, where its lines do not tell."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what the engine decided at its start: memory, tokens, backends."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.folders import absolute_path
    from stoker.commands.resolved import read_deployment, read_log
    from stoker.report.resolved_text import render_resolved

    if log is None and engine is not None:
        raise UsageError("--engine tells who wrote a log", "add --log FILE, or leave it out")
    if log is not None and name is not None:
        raise UsageError("a deployment and a log are two things", "name one of them")
    world = build_world(SilentReporter())
    found = (
        read_deployment(world, name) if log is None else read_log(world, absolute_path(log), engine)
    )
    if as_json:
        print_value(found)
    else:
        print_text(render_resolved(found))
