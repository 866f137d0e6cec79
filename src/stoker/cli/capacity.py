"""The verb `capacity`: where the memory lies, what fits, and what would give more.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside the verb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker.errors import HostError, UsageError

if TYPE_CHECKING:
    from stoker.commands.capacity import AppliedOption, FoundCapacity
    from stoker.commands.world import World

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_Count = Optional[int]  # noqa: UP045


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(capacity)


def capacity(
    *,
    file: Annotated[_Text, typer.Argument(metavar="[FILE]", help="The deployment file.")] = None,
    running: Annotated[
        _Text, typer.Option(metavar="NAME", help="A deployment that runs, with what it told.")
    ] = None,
    log: Annotated[
        _Text, typer.Option(metavar="FILE", help="An engine's log, alone or of this file's start.")
    ] = None,
    engine: Annotated[
        _Text, typer.Option(help="Which engine wrote the log, where its lines do not tell.")
    ] = None,
    context: Annotated[
        _Count, typer.Option(min=1, help="How many requests of so many tokens fit?")
    ] = None,
    parallel: Annotated[
        _Count, typer.Option(min=1, help="How long may so many requests at the same time be?")
    ] = None,
    svg: Annotated[
        _Text, typer.Option(metavar="FILE", help="Draw the maps of memory into this file too.")
    ] = None,
    apply: Annotated[
        _Count, typer.Option(metavar="N", min=1, help="Write option N into the deployment file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show where every gigabyte lies, how much context fits, and what would give more."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.capacity import Question, apply_option, find_capacity
    from stoker.report.capacity_text import render_capacity

    question = Question(
        file=file,
        running=running,
        log=log,
        engine=engine,
        context_tokens=context,
        parallel=parallel,
    )
    world = build_world(SilentReporter())
    found = find_capacity(world, question)
    applied = apply_option(world, found, apply) if apply is not None else None
    if svg is not None:
        _draw(world, found, svg)
    if as_json:
        print_value(found.shown.capacity)
    elif applied is not None:
        print_text(_render_applied(applied))
    else:
        print_text(render_capacity(found.shown))


def _draw(world: World, found: FoundCapacity, path: str) -> None:
    """Into a new file, or over a picture; whatever else lies there is somebody's."""
    import os

    from stoker.commands.folders import absolute_path
    from stoker.report.capacity_svg import SVG_START, render_svg

    content = render_svg(found.shown.capacity).encode()
    target = os.path.realpath(absolute_path(path))
    try:
        there = world.host.stat(target)
        if there is not None and there.kind == "file" and there.size_bytes:
            start = world.host.read_bytes(target, 0, len(SVG_START))
            if start != SVG_START.encode():
                raise UsageError(
                    f"{path} is there already, and is no picture of this kind",
                    "choose another file, or remove it",
                )
        world.host.write_file(target, content, 0o644)
    except HostError as error:
        raise UsageError(f"the picture cannot be written: {error.summary}", error.hint) from error


def _render_applied(applied: AppliedOption) -> str:
    changes = [f"  {key}: {value}" for key, value in applied.changes.items()]
    return "\n".join(
        [
            f"Wrote into {applied.file}: {applied.option.title}",
            *changes,
            f"Nothing is changed on the machine yet; `stoker plan {applied.file}` shows it.",
        ]
    )
