"""What is shown of recipes: the list of all models, and the recipes of one.

Made by the command layer, printed by the report and as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.model.recipe import Recipe, RecipeCollection


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeLine:
    """One file of a collection: the model that it is about, and its other checkpoints."""

    model: str
    others: tuple[str, ...]
    engine: str
    task: str
    recipe_count: int
    collection: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRecipes:
    """All of them, and the collections that they are from (without their entries)."""

    SCHEMA: ClassVar[str] = "recipes/1"

    collections: tuple[RecipeCollection, ...]
    lines: tuple[RecipeLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecipe:
    """A recipe, and the command line that the collection gives with it."""

    recipe: Recipe
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecipes:
    """The recipes about one model, in the order of the collections, and which of them contradict
    each other, as sentences."""

    SCHEMA: ClassVar[str] = "shown-recipes/1"

    model: str
    recipes: tuple[ShownRecipe, ...]
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedRecipes:
    """The collections that were just read."""

    SCHEMA: ClassVar[str] = "recipes-sync/1"

    collections: tuple[RecipeCollection, ...]
