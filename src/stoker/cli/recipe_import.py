"""The verb `stoker recipes import`, which is added to the group of verbs about recipes.

As in :mod:`stoker.cli.main`, commands are imported inside the verb.
"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from stoker.cli.exit import ExitCode


def register(recipes: typer.Typer) -> None:
    """Add the verb to the group."""
    recipes.command("import")(import_)


def import_(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE-OR-URL", help="A file, a model's folder, or https:// to a raw text."
        ),
    ],
    command: Annotated[
        Optional[int],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
        typer.Option(min=1, help="Which engine command of the text, by its number."),
    ] = None,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only commands of this engine; whose flags a text speaks of."),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only commands for this model; the model of a text that names none."),
    ] = None,
    release: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="By whose flags to judge; of the image or the newest if left out."),
    ] = None,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="What to call the recipe; from the file's name if left out."),
    ] = None,
    consent: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="WHAT", help="Take this flag or variable though it is withheld; repeatable."
        ),
    ] = None,
    take: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="WHAT", help="Take this flag of the sentences, or all of them; repeatable."
        ),
    ] = None,
    into: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="DEPLOYMENT.yaml", help="Write the settings there; else they become a recipe."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Take the settings of an engine command out of a note, script, unit or manifest.

    The text is read, never run. With several commands in it, all are listed and none is taken.
    """
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.recipe_import import ImportWish, import_recipe
    from stoker.recipes.notes.read import Wish
    from stoker.report.recipe_import_text import render_import

    wish = Wish(
        number=command,
        engine=engine,
        model=model,
        release=release or "",
        consents=frozenset(word.lstrip("-") for word in consent or ()),
        takes=frozenset(word.lstrip("-") for word in take or ()),
    )
    imported = import_recipe(
        build_world(SilentReporter()), ImportWish(source=source, wish=wish, name=name, into=into)
    )
    if as_json:
        print_value(imported)
    else:
        print_text(render_import(imported))
    if not imported.recipe and not imported.into:
        raise typer.Exit(ExitCode.USAGE)
