"""The verbs about recipes: `stoker recipes sync`, `list` and `show`.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside each verb. Further
verbs about recipes are added to ``recipes``.
"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Engine = Annotated[
    Optional[str],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
    typer.Option(help="Only those for this engine."),
]

recipes = typer.Typer(
    name="recipes",
    help="Settings that others found good: read public collections, and look into them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the group of verbs to the command."""
    app.add_typer(recipes)


@recipes.command()
def sync(
    *,
    source: Annotated[
        str, typer.Argument(metavar="DIR-OR-GIT-URL", help="A folder, or https://, ssh://, file://")
    ],
    commit: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Which commit a folder without git is, as far as you know."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a collection of recipes: vLLM's recipes, SGLang's cookbook. Runs nothing of it."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import JsonReporter, TextReporter
    from stoker.cli.world import build_world
    from stoker.commands.recipe_sync import sync_recipes
    from stoker.model.recipe_view import SyncedRecipes
    from stoker.report.recipes_text import render_collection

    reporter = JsonReporter() if as_json else TextReporter()
    try:
        found = sync_recipes(build_world(reporter), source, commit=commit)
    finally:
        reporter.close()
    if as_json:
        print_value(SyncedRecipes(collections=found))
    else:
        print_text("".join(map(render_collection, found)))


@recipes.command("list")
def list_(*, engine: Engine = None, as_json: AsJson = False) -> None:
    """List the models that the collections are about."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.recipes import list_recipes
    from stoker.report.recipes_text import render_recipes

    found = list_recipes(build_world(SilentReporter()), engine)
    if as_json:
        print_value(found)
    else:
        print_text(render_recipes(found))


@recipes.command()
def show(
    *,
    model: Annotated[str, typer.Argument(help="ORG/NAME, NAME, or a recipe's id.")],
    engine: Engine = None,
    gpu: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only those for this GPU, as the driver or the collection calls it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the recipes of a model: status, hardware, strategy, command line and source."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.recipes import show_recipes
    from stoker.report.recipes_text import render_shown

    found = show_recipes(build_world(SilentReporter()), model, engine=engine, gpu=gpu)
    if as_json:
        print_value(found)
    else:
        print_text(render_shown(found))
