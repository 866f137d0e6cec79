"""The verbs about a model without a deployment: `model show`.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside each verb.
"""

from __future__ import annotations

import os
from typing import Annotated, Optional

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the group of verbs to the command."""
    group = typer.Typer(
        help="What a model's own files say of it.", no_args_is_help=True, rich_markup_mode=None
    )
    group.callback()(_about)  # with a single verb the group would become that verb
    group.command()(show)
    app.add_typer(group, name="model")


def _about() -> None:
    """What a model's own files say of it."""


def show(
    *,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A model's folder, a .safetensors or .gguf file, or a config.json."
        ),
    ],
    tensor: Annotated[
        Optional[int],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
        typer.Option("--tp", min=1, max=4096, help="Divide it among so many GPUs."),
    ] = None,
    expert: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--ep", min=1, max=4096, help="Share its experts among so many GPUs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a model's shape, quantization and template, and its size on each GPU."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.model_show import show_model
    from stoker.report.model_text import render_model

    world = build_world(SilentReporter())
    shown = show_model(world, os.path.abspath(path), tensor=tensor, expert=expert)
    if as_json:
        print_value(shown)
    else:
        print_text(render_model(shown))
