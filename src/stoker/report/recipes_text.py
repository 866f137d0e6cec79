"""Recipes as text: the collections and their models, and the recipes of one model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from stoker.model.recipe import Recipe, RecipeCollection
from stoker.model.recipe_view import ListedRecipes, ShownRecipe, ShownRecipes
from stoker.model.visible import visible
from stoker.report.table import render_table

_MOST_COMPLAINTS = 10


def render_collection(collection: RecipeCollection) -> str:
    """What a reading brought: where from, how much, and what of it was not understood."""
    recipes = sum(entry.recipe_count for entry in collection.entries)
    lines = [
        f"{_head(collection)}",
        f"  {recipes} recipes from {len(collection.entries)} files",
    ]
    told = collection.complaints
    if told:
        lines.append(f"  {len(told)} places were not understood:")
    for each in told[:_MOST_COMPLAINTS]:
        place = f" {each.place}" if each.place else ""
        lines.append(f"    {visible(each.file)}{visible(place)}: {visible(each.sentence)}")
    if len(told) > _MOST_COMPLAINTS:
        lines.append(f"    and {len(told) - _MOST_COMPLAINTS} more (--json tells all)")
    return "\n".join(lines) + "\n"


def render_recipes(found: ListedRecipes) -> str:
    """One line a file of a collection."""
    rows = [
        (
            visible(line.model),
            line.engine,
            visible(line.task),
            str(line.recipe_count),
            str(len(line.others)) if line.others else "",
        )
        for line in found.lines
    ]
    heads = "".join(f"{_head(each)}\n" for each in found.collections)
    return heads + render_table(("MODEL", "ENGINE", "TASK", "RECIPES", "OTHER CHECKPOINTS"), rows)


def render_shown(found: ShownRecipes) -> str:
    """Every recipe of a model, each with its command line."""
    lines = [line for each in found.recipes for line in _lines(each)]
    if found.contradictions:
        lines += [
            "these contradict each other:",
            *(f"  {visible(t)}" for t in found.contradictions),
        ]
    return "\n".join(lines) + "\n"


def _head(collection: RecipeCollection) -> str:
    read_at = datetime.fromtimestamp(collection.read_at_seconds, UTC)
    where = f"{visible(collection.repository)} at {visible(collection.commit)[:12]}"
    return f"{collection.name} ({collection.engine}): {where}, read {read_at:%Y-%m-%d %H:%M} UTC"


def _lines(shown: ShownRecipe) -> Iterator[str]:
    recipe = shown.recipe
    yield visible(recipe.id)
    yield f"  {_says(recipe)}"
    yield f"  {visible(recipe.model)}, {visible(recipe.precision)}, strategy {recipe.strategy}" + (
        f", {recipe.engine} {recipe.versions}" if recipe.versions else ""
    )
    env = [f"{each.name}={each.value}" for each in recipe.settings if each.kind == "env"]
    yield f"  $ {visible(' '.join([*map(_quote_pair, env), shlex.join(shown.argv)]))}"
    off = [feature.name for feature in recipe.features if not feature.is_on]
    if off:
        yield f"  may be added: {visible(', '.join(off))}"
    for note in recipe.notes:
        yield f"  note: {visible(note)}"
    yield f"  from {visible(recipe.source.where)} at {visible(recipe.source.version)[:12]}"


def _says(recipe: Recipe) -> str:
    hardware = recipe.hardware
    machines = f" on {hardware.host_count} machines" if hardware.host_count > 1 else ""
    own = f" (the collection's word: {visible(hardware.said)})" if hardware.said else ""
    return (
        f"{hardware.status.value}{own} for {visible(hardware.word)}, "
        f"{hardware.gpu_count} GPUs{machines}"
    )


def _quote_pair(pair: str) -> str:
    name, _, value = pair.partition("=")
    return f"{name}={shlex.quote(value)}"
