"""What others and earlier starts chose, as a reason to try a choice early.

Called by :mod:`stoker.commands.tuning_space`. It reads the collections of recipes that are kept,
and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.commands.recipes import find_lifetimes, seek
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.errors import HostError, StateError
from stoker.knowledge.present import Present
from stoker.model.facts import Plain
from stoker.model.launch import Setting
from stoker.model.tuning import Choice, Space
from stoker.model.units import write_word
from stoker.recipes.fit import fit_recipe
from stoker.recipes.match import Match, match_recipes, say_status
from stoker.state.recipes import list_collections, read_recipes

#: How much a choice gains that others have made, as the logarithm of a ratio: about as much as a
#: knob is thought to matter, so that it is tried among the first; less where something differs.
_SAME, _NEAR = 0.1, 0.05
#: Recipes for other hardware and other releases say little; of those that come nearest so many.
_MOST_NEAR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What somebody has set, how much that counts, and who it was in a sentence."""

    settings: tuple[Setting, ...]
    value: float
    says: str


def with_recipes(world: World, resolved: Resolved, space: Space, present: Present) -> Space:
    """The space with the priors raised of what recipes, or repairs that worked, have chosen."""
    words = [*_evidence(resolved), *_recipes(world, resolved)]
    knobs = []
    for knob in space.knobs:
        choices = tuple(
            each if each.id == knob.default else _raise(each, words, present)
            for each in knob.choices
        )
        knobs.append(replace(knob, choices=choices))
    return replace(space, knobs=tuple(knobs))


def _raise(choice: Choice, words: Sequence[_Word], present: Present) -> Choice:
    for word in words:
        if _says(choice, word.settings, present):
            because = "; ".join(filter(None, (word.says, choice.because)))
            return replace(choice, prior=round(choice.prior + word.value, 4), because=because)
    return choice


def _says(choice: Choice, settings: Sequence[Setting], present: Present) -> bool:
    """Whether these settings are the choice: all that it sets, and nothing that it leaves out."""
    catalogue = present.subject.table.catalogue
    told = {catalogue.identify(each.name, each.kind): each for each in settings}
    wanted = {**choice.settings, **choice.variables}
    if not any(value is not None for value in wanted.values()):
        return False
    return all(
        _is_said(name, value, told.get(present.identify(name))) for name, value in wanted.items()
    )


def _is_said(name: str, value: Plain, setting: Setting | None) -> bool:
    if value is None or setting is None:
        return value is None and setting is None
    if value is True:
        return setting.value is None and setting.name.lstrip("-") == name
    return setting.value == write_word(value)


def _evidence(resolved: Resolved) -> Iterator[_Word]:
    if resolved.kept:
        yield _Word(
            settings=resolved.kept,
            value=_SAME,
            says="a repair that worked here has it",
        )


def _recipes(world: World, resolved: Resolved) -> Iterator[_Word]:
    """What recipes for this checkpoint set, those that fit best first."""
    try:
        matches = list(_match(world, resolved))[:_MOST_NEAR]
    except (HostError, StateError):
        return
    for match in matches:
        fitted = fit_recipe(
            match.recipe,
            resolved.deployment,
            resolved.table,
            find_lifetimes(resolved.table.kind),
        )
        doubts = f", for other circumstances: {'; '.join(match.doubts)}" if match.doubts else ""
        yield _Word(
            settings=fitted.settings,
            value=_NEAR if match.doubts else _SAME,
            says=f"the recipe {match.recipe.id} has it ({say_status(match.recipe)}{doubts})",
        )


def _match(world: World, resolved: Resolved) -> tuple[Match, ...]:
    sought = seek(resolved.deployment, resolved.facts, resolved.table, resolved.place)
    names = {name.lower().rpartition("/")[2] for name in (*sought.names, *sought.base_names)}
    recipes = [
        recipe
        for collection in list_collections(world.host, world.folders)
        if collection.engine == resolved.table.kind
        for entry in collection.entries
        if names & {model.lower().rpartition("/")[2] for model in entry.models}
        for recipe in read_recipes(world.host, world.folders, collection, entry).recipes
    ]
    return match_recipes(recipes, sought)
