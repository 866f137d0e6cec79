"""The verbs about servers that Stoker did not start: `adopt` and `diff`.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside each verb.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker.cli.exit import ExitCode

if TYPE_CHECKING:
    from stoker.commands.world import World

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_SIDE = "FILE, NAME, NAME@GENERATION, pid:N, port:N or run:ID"
Side = Annotated[str, typer.Argument(metavar="SIDE", help=_SIDE)]


def register(app: typer.Typer) -> None:
    """Add both verbs to the command."""
    app.command()(adopt)
    app.command()(diff)


@contextmanager
def _world() -> Iterator[World]:
    """The world with a reporter that says nothing: the result tells all."""
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world

    reporter = SilentReporter()
    try:
        yield build_world(reporter)
    finally:
        reporter.close()


def adopt(
    *,
    pid: Annotated[
        Optional[int],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
        typer.Option(min=1, help="The server's process."),
    ] = None,
    port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=65535, help="The port that it listens on."),
    ] = None,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Which engine it is, where its name does not tell."),
    ] = None,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The deployment's name; from the published name if left out."),
    ] = None,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The file to write; NAME.yaml if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a deployment file for a server that was started by hand. Ends nothing.

    Without --pid and --port it takes the only server that runs here.
    """
    from stoker.cli.output import print_text, print_value
    from stoker.commands.adopt import Wish, adopt_server
    from stoker.report.adoption_text import render_adoption

    wish = Wish(pid=pid, port=port, engine=engine, name=name, output=output)
    with _world() as world:
        adoption = adopt_server(world, wish)
    if as_json:
        print_value(adoption)
    else:
        print_text(render_adoption(adoption))


def diff(
    *,
    a: Side,
    b: Side,
    compares_all: Annotated[
        bool, typer.Option("--all", help="Compare all variables, not only those of engines.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two starts of a server, flag by flag. Ends with 0 if same, 4 if different.

    Each side is a deployment file, a deployment (NAME, or NAME@3 for a generation), a running
    process (pid:N, port:N), or a stored plan, generation or launch (run:ID, or its file).
    """
    from stoker.cli.output import print_text, print_value
    from stoker.commands.diff import diff_sides
    from stoker.report.comparison_text import render_comparison

    with _world() as world:
        comparison = diff_sides(world, a, b, compares_all=compares_all)
    if as_json:
        print_value(comparison)
    else:
        print_text(render_comparison(comparison))
    if not comparison.is_same:
        raise typer.Exit(ExitCode.DIFFERENT)
