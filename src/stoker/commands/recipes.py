"""`stoker recipes list` and `show`, and what a recipe sets for a deployment.

Reads the collections that `stoker recipes sync` kept; writes nothing. The choice is made by
:mod:`stoker.recipes.match`, the settings are fitted by :mod:`stoker.recipes.fit`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.commands.world import World
from stoker.engines.settings import render_argv
from stoker.errors import HostError, StateError, UsageError
from stoker.knowledge.derived.checkpoint import derive_checkpoint
from stoker.knowledge.derived.hardware import derive_hardware
from stoker.knowledge.derived.stack import derive_stack
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.lifetimes import Lifetimes, lifetime_kinds, load_lifetimes
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Observation, Plain, Unknown
from stoker.model.launch import Setting
from stoker.model.recipe import Recipe, RecipeCollection, RecipeEntry
from stoker.model.recipe_view import ListedRecipes, RecipeLine, ShownRecipe, ShownRecipes
from stoker.recipes.contradictions import find_contradictions
from stoker.recipes.fit import FittedRecipe, fit_recipe
from stoker.recipes.match import (
    AUTO,
    NONE,
    Match,
    Sought,
    choose_match,
    match_recipes,
    matches_gpu,
    say_status,
    split_wish,
)
from stoker.state.recipes import list_collections, read_recipes

#: The observation that says which recipe took part in a plan, and what of it did not.
OBSERVATION = "recipe"
#: Of recipes that almost fit so many are told.
_MOST_NEAR = 3
_SYNC_HINT = "`stoker recipes sync DIR-OR-GIT-URL` reads a collection"


#: What is told where no recipe takes part.
_EMPTY: Mapping[str, Plain] = {
    **dict.fromkeys(("id", "status", "says")),
    **{name: [] for name in ("reasons", "doubts", "near", "consent", "withheld", "notes")},
    "settings": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeChoice:
    """What recipes set for a deployment, and the fact of it for rules and reports."""

    settings: tuple[Setting, ...]
    observation: Observation

    def noted(self, facts: Facts) -> Facts:
        """The facts with what was chosen."""
        return replace(facts, observations={**facts.observations, OBSERVATION: self.observation})


def choose_recipe(
    world: World, deployment: Deployment, facts: Facts, table: EngineTable, *, place: Place
) -> RecipeChoice:
    """The recipe that applies to a deployment here, fitted to the engine that is there.

    Raises UsageError where the deployment names a recipe or a feature that nobody has read.
    Collections that cannot be read choose nothing, and the observation says why.
    """
    wish, features = split_wish(deployment.recipe)
    if wish == NONE:
        return _nothing({"wish": NONE})
    sought = seek(deployment, facts, table, place)
    try:
        recipes = list(_recipes_about(world, table.kind, sought, wish))
    except (HostError, StateError) as error:
        if wish != AUTO:
            raise
        return _nothing(error.summary)
    matches = match_recipes(recipes, sought)
    match = _named(recipes, matches, wish, sought) if wish != AUTO else choose_match(matches, wish)
    if match is None:
        return _nothing({"wish": wish, **_near(matches)})
    fitted = fit_recipe(
        match.recipe, deployment, table, find_lifetimes(table.kind), features=features
    )
    if fitted.unknown_features:
        known = ", ".join(feature.name for feature in match.recipe.features) or "none"
        raise UsageError(
            f"the recipe {match.recipe.id} has no feature {', '.join(fitted.unknown_features)}",
            f"it has: {known}",
        )
    value = {"wish": wish, **_told(match, fitted)}
    observation = Observation(probe=OBSERVATION, value=value, source=match.recipe.source.where)
    return RecipeChoice(settings=fitted.settings, observation=observation)


def recipe_settings(
    world: World, deployment: Deployment, facts: Facts, table: EngineTable, *, place: Place
) -> tuple[Setting, ...]:
    """What :func:`choose_recipe` sets."""
    return choose_recipe(world, deployment, facts, table, place=place).settings


def seek(deployment: Deployment, facts: Facts, table: EngineTable, place: Place) -> Sought:
    """What a recipe for this deployment has to be for. Pure."""
    subject = Subject(
        deployment=deployment, facts=facts, table=table, build=place.build, settings=()
    )
    hardware, checkpoint = derive_hardware(subject), derive_checkpoint(subject)
    return Sought(
        engine=table.kind,
        names=_names(checkpoint.get("names")),
        base_names=_names(checkpoint.get("base_names")),
        quantization=_word(checkpoint.get("quantization")),
        gpu_name=_word(hardware.get("name")),
        arch=_word(hardware.get("arch")),
        gpu_count=hardware["count"] if isinstance(hardware.get("count"), int) else 0,
        uses_none=hardware.get("count") == 0,
        release=_word(derive_stack(subject).get("version")),
    )


def _word(value: Plain | Unknown) -> str:
    return value if isinstance(value, str) else ""


def _names(value: Plain | Unknown) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def find_lifetimes(engine: str) -> Lifetimes | None:
    """Which releases of an engine had which flag; None for an engine of which nobody knows."""
    return load_lifetimes(engine) if engine in lifetime_kinds() else None


def _nothing(value: Plain) -> RecipeChoice:
    """No recipe: ``value`` says which almost fit, or is a sentence why they cannot be read."""
    unknown = value if isinstance(value, str) else ""
    told = None if unknown else {**_EMPTY, **value}
    observation = Observation(probe=OBSERVATION, value=told, unknown=unknown, source="recipes")
    return RecipeChoice(settings=(), observation=observation)


def _near(matches: Sequence[Match]) -> dict[str, Plain]:
    near = [f"{each.recipe.id} ({'; '.join(each.doubts)})" for each in matches[:_MOST_NEAR]]
    return {"near": near}


def _told(match: Match, fitted: FittedRecipe) -> dict[str, Plain]:
    """The fact of a recipe that takes part."""
    recipe = match.recipe
    return {
        "id": recipe.id,
        "status": recipe.hardware.status.value,
        "says": say_status(recipe),
        "reasons": list(match.reasons),
        "doubts": list(match.doubts),
        "near": [],
        "settings": len(fitted.settings),
        "consent": [
            f"{each.setting.name} {each.setting.value or ''}".strip() + f" ({each.reason})"
            for each in fitted.withheld
            if each.kind == "consent"
        ],
        "withheld": [
            f"{each.setting.name}: {each.reason}"
            for each in fitted.withheld
            if each.kind in ("release", "without")
        ],
        "notes": list(recipe.notes),
    }


def _named(recipes: Sequence[Recipe], matches: Sequence[Match], wish: str, sought: Sought) -> Match:
    """The recipe that the owner names, whatever differs. Raises UsageError."""
    if (match := choose_match(matches, wish)) is not None:
        return match
    recipe = next((each for each in recipes if each.id == wish), None)
    if recipe is None:
        raise UsageError(f"there is no recipe {wish}", f"`stoker recipes list` says; {_SYNC_HINT}")
    if recipe.engine != sought.engine:
        raise UsageError(f"the recipe {wish} is for {recipe.engine}, and this is {sought.engine}")
    named = replace(sought, names=(recipe.model,))
    (made,) = match_recipes([recipe], named)
    other = f"it is for {recipe.model}, which the deployment does not serve"
    return replace(made, doubts=(other, *made.doubts))


def _recipes_about(world: World, engine: str, sought: Sought, wish: str) -> Iterator[Recipe]:
    """The recipes of all files that are about the model, or that hold the one that is named."""
    names = {name.lower() for name in (*sought.names, *sought.base_names)}
    bare = {name for name in names if "/" not in name}
    for collection in list_collections(world.host, world.folders):
        for entry in collection.entries:
            models = [model.lower() for model in entry.models]
            is_about = any(model in names or model.rpartition("/")[2] in bare for model in models)
            is_named = any(f":{model}/" in wish.lower() for model in models)
            if (is_about and collection.engine == engine) or is_named:
                yield from read_recipes(world.host, world.folders, collection, entry).recipes


def list_recipes(world: World, engine: str | None = None) -> ListedRecipes:
    """Every model that the collections are about. Raises UsageError for an engine without any."""
    collections = _collections_for(world, engine)
    if not collections:
        about = f" for {engine}" if engine else ""
        raise UsageError(f"no collection of recipes{about} was read yet", _SYNC_HINT)
    lines = [
        RecipeLine(
            model=entry.models[0] if entry.models else "",
            others=entry.models[1:],
            engine=each.engine,
            task=entry.task,
            recipe_count=entry.recipe_count,
            collection=each.name,
            file=entry.file,
        )
        for each in collections
        for entry in each.entries
    ]
    lines.sort(key=lambda line: (line.model.lower(), line.engine))
    heads = tuple(replace(each, entries=()) for each in collections)
    return ListedRecipes(collections=heads, lines=tuple(lines))


def _collections_for(world: World, engine: str | None) -> tuple[RecipeCollection, ...]:
    """The collections, of one engine where it is named. Raises UsageError for one that is none."""
    collections = list_collections(world.host, world.folders)
    if engine is None:
        return collections
    load_engine_table(engine)  # says which there are, if there is none of that name
    return tuple(each for each in collections if each.engine == engine)


def show_recipes(
    world: World, model: str, *, engine: str | None = None, gpu: str | None = None
) -> ShownRecipes:
    """Every recipe about a model, with the command line that it gives. Raises UsageError."""
    if engine is not None:
        load_engine_table(engine)
    found = [
        recipe
        for collection, entry in _entries_about(world, model)
        if engine in (None, collection.engine)
        for recipe in read_recipes(world.host, world.folders, collection, entry).recipes
        if _is_about(recipe, model) and (gpu is None or matches_gpu(recipe, gpu))
    ]
    wanted = model.removeprefix("hf:").lower()
    found.sort(key=lambda recipe: wanted not in (recipe.model.lower(), recipe.id.lower()))
    if not found:
        about = f" on {gpu}" if gpu else ""
        raise UsageError(
            f"no recipe is about {model}{about}", f"`stoker recipes list` says; {_SYNC_HINT}"
        )
    told = tuple(
        f"{each.one.id} and {each.other.id}: {'; '.join(each.differences)}"
        for each in find_contradictions(found)
    )
    shown = tuple(ShownRecipe(recipe=each, argv=argv_of(each)) for each in found)
    return ShownRecipes(model=model, recipes=shown, contradictions=told)


def _is_about(recipe: Recipe, model: str) -> bool:
    """Whether a person who writes this means the recipe: by a model's name, or by its own id."""
    wanted = model.removeprefix("hf:").partition("@")[0].lower()
    names = [each.lower() for each in recipe.models]
    bare = [each.rpartition("/")[2] for each in names]
    return wanted in (*names, *bare) or model.lower() == recipe.id.lower()


def _entries_about(world: World, model: str) -> Iterator[tuple[RecipeCollection, RecipeEntry]]:
    wanted = model.removeprefix("hf:").partition("@")[0].lower()
    for collection in list_collections(world.host, world.folders):
        for entry in collection.entries:
            models = [each.lower() for each in entry.models]
            is_named = any(f":{each}/" in model.lower() for each in models)
            bare = [each.rpartition("/")[2] for each in models]
            if wanted in models or wanted in bare or is_named:
                yield collection, entry


def argv_of(recipe: Recipe) -> tuple[str, ...]:
    """The command line as the collection gives it, with the checkpoint; nothing is withheld here.

    For showing alone.
    """
    table = load_engine_table(recipe.engine)
    command = posixpath.basename(table.command)
    row = table.settings.get("model_path")
    is_flag = row is not None and row.kind == "flag"
    head = (row.flag, recipe.model) if row and is_flag else (recipe.model,)
    return render_argv(command, recipe.settings, (*table.arguments, *head))
