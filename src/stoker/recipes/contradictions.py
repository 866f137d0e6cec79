"""Recipes that contradict each other: two files about the same checkpoint, hardware and layout.

Called by whoever shows recipes or scores them. Pure; it says what differs and takes no side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stoker.knowledge.recipes import load_recipe_words
from stoker.model.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two recipes, and the sentences that say in what they differ."""

    one: Recipe
    other: Recipe
    differences: tuple[str, ...]


def find_contradictions(recipes: Iterable[Recipe]) -> tuple[Contradiction, ...]:
    """The pairs that differ: of one engine in any setting, of two engines in how many GPUs the
    checkpoint is divided among.

    Recipes of one file never contradict: they are a choice. Where a file says one thing in
    several layouts, its first one speaks for it.
    """
    groups: dict[tuple[str, ...], list[Recipe]] = {}
    for recipe in recipes:
        if recipe.hardware.host_count == 1:
            kind = recipe.hardware.gpu or recipe.hardware.word.lower()
            groups.setdefault((recipe.model.lower(), kind), []).append(recipe)
    found = [pair for group in groups.values() for pair in _pairs(group)]
    made = (_compare(one, other) for one, other in found)
    return tuple(each for each in made if each.differences)


def _pairs(group: list[Recipe]) -> Iterator[tuple[Recipe, Recipe]]:
    """Those of one engine with the same strategy in two files, and the first of each engine."""
    by_strategy: dict[tuple[str, str], Recipe] = {}
    first: dict[str, Recipe] = {}
    for recipe in group:
        key = (recipe.engine, recipe.strategy)
        known = by_strategy.setdefault(key, recipe)
        if known.source.where != recipe.source.where:
            yield known, recipe
        first.setdefault(recipe.engine, recipe)
    one, *others = first.values()
    for other in others:
        yield one, other


def _compare(one: Recipe, other: Recipe) -> Contradiction:
    ours, theirs = _values(one), _values(other)
    if one.engine == other.engine:
        told = [
            f"{name}: {_say(ours, name)} or {_say(theirs, name)}"
            for name in dict.fromkeys((*ours, *theirs))
            if (name in ours, ours.get(name)) != (name in theirs, theirs.get(name))
        ]
    else:
        mine, its = _tensor_size(one, ours), _tensor_size(other, theirs)
        sizes = f"tensor parallel: {one.engine} {mine}, {other.engine} {its}"
        told = [] if mine == its else [sizes]
    return Contradiction(one=one, other=other, differences=tuple(told))


def _values(recipe: Recipe) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in recipe.settings}


def _say(values: Mapping[str, str | None], name: str) -> str:
    if name not in values:
        return "not set"
    value = values[name]
    return "set" if value is None else value[:60]


def _tensor_size(recipe: Recipe, values: Mapping[str, str | None]) -> str:
    flag = f"--{load_recipe_words().flags[recipe.engine].tensor}"
    return values.get(flag) or "1"
