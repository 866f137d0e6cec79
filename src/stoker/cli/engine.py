"""The verbs about an engine's releases and flags: `stoker engine ...`.

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
File = Annotated[str, typer.Argument(metavar="FILE", help="The deployment file (YAML).")]


def register(app: typer.Typer) -> None:
    """Add the group of verbs to the command."""
    group = typer.Typer(
        help="What the engine is, its flags, and what another release of it would mean.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command(context_settings={"ignore_unknown_options": True})(show)
    group.command("upgrade-check")(upgrade_check)
    group.command("fix-flags")(fix_flags)
    app.add_typer(group, name="engine")


@contextmanager
def _world(*, as_json: bool) -> Iterator[World]:
    """The world; the engine may take its time to tell its flags, so progress is shown."""
    from stoker.cli.progress import SilentReporter, TextReporter
    from stoker.cli.world import build_world

    reporter = SilentReporter() if as_json else TextReporter()
    try:
        yield build_world(reporter)
    finally:
        reporter.close()


def show(
    *,
    file: File,
    flag: Annotated[
        Optional[str],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
        typer.Argument(metavar="[FLAG]", help="One flag: its values, default and releases."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the engine that a deployment would start: its release, its stack, its flags."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.engine_shown import show_engine, show_flag
    from stoker.report.engine_text import render_engine, render_flag

    with _world(as_json=as_json) as world:
        if flag is not None:
            told = show_flag(world, file, flag)
        else:
            shown = show_engine(world, file)
    if as_json:
        print_value(told if flag is not None else shown)
    else:
        print_text(render_flag(told) if flag is not None else render_engine(shown))


def upgrade_check(
    *,
    file: File,
    to: Annotated[str, typer.Option(metavar="VERSION", help="The release to go to.")],
    since: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--from", metavar="VERSION", help="The release to come from; the installed."),
    ] = None,
    shows_all: Annotated[bool, typer.Option("--all", help="List every default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what another release changes for this file. Ends with 3 if something would break."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.upgrade_check import check_upgrade
    from stoker.report.upgrade_text import render_upgrade

    with _world(as_json=as_json) as world:
        upgrade = check_upgrade(world, file, to=to, since=since)
    if as_json:
        print_value(upgrade)
    else:
        print_text(render_upgrade(upgrade, shows_all=shows_all))
    if upgrade.breaks:
        raise typer.Exit(ExitCode.BLOCKED)


def fix_flags(
    *,
    file: File,
    to: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="VERSION", help="Names of this release; of the installed one."),
    ] = None,
    with_deprecated: Annotated[
        bool, typer.Option("--deprecated", help="Replace deprecated flags too.")
    ] = False,
    is_trial: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give the flags of a file the names that the engine has for them. Comments stay."""
    from stoker.cli.output import print_text, print_value
    from stoker.commands.upgrade_check import fix_flags as fix
    from stoker.report.upgrade_text import render_fixed

    with _world(as_json=as_json) as world:
        fixed = fix(world, file, to=to, with_deprecated=with_deprecated, is_trial=is_trial)
    if as_json:
        print_value(fixed)
    else:
        print_text(render_fixed(fixed))
