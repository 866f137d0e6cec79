"""Reading the fixtures of both formats, and texts that a test makes up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from stoker.model.recipe import Recipe, RecipeFile
from stoker.recipes import sglang, vllm
from stoker.recipes.collection import Format, Provenance

FIXTURES = Path(__file__).parent / "fixtures"
FORMATS: Mapping[str, Format] = {"vllm": vllm.FORMAT, "sglang": sglang.FORMAT}
MADE = Provenance(repository="https://example.org/recipes", commit="a" * 40)


def paths_of(folder: Path) -> list[str]:
    """The files below a folder, as paths below it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@cache
def read_files(engine: str) -> Mapping[str, RecipeFile]:
    """What every file of the fixture of one format becomes."""
    root, form = FIXTURES / engine, FORMATS[engine]
    shared, entries = form.choose(paths_of(root))
    texts = {path: (root / path).read_text("utf-8") for path in shared}
    return {
        path: form.read(path, (root / path).read_text("utf-8"), texts, MADE) for path in entries
    }


def recipes_of(engine: str) -> dict[str, Recipe]:
    """All recipes of a fixture by their ids."""
    return {recipe.id: recipe for file in read_files(engine).values() for recipe in file.recipes}


def flags_of(recipe: Recipe) -> dict[str, str | None]:
    """The flags of a recipe and their values."""
    return {each.name: each.value for each in recipe.settings if each.kind == "flag"}


def env_of(recipe: Recipe) -> dict[str, str | None]:
    """The variables of a recipe and their values."""
    return {each.name: each.value for each in recipe.settings if each.kind == "env"}
