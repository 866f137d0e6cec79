"""Which recipes are about a deployment, how well each fits, and which one applies.

Called by the command layer. Pure. A recipe applies by itself only where the checkpoint, the GPUs,
their number and the engine's release are what it was written for; anything weaker is shown with
what differs, for its owner to name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.knowledge.recipes import load_recipe_words
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.recipe import Recipe, RecipeStatus

#: The words of a deployment's key ``recipe`` that are no recipe's id.
AUTO, NONE = "auto", "none"
#: Between a recipe's id and a feature that is wanted with it.
_AND = "+"
_ORDER = {status: rank for rank, status in enumerate(RecipeStatus)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What a recipe is looked for. What is not known is empty, or 0.

    ``names``: of the checkpoint itself; ``base_names``: of what it was made of. ``gpu_name`` is
    the driver's, ``gpu_count`` how many the deployment has; ``uses_none``: it surely has none.
    """

    engine: str
    names: tuple[str, ...]
    base_names: tuple[str, ...] = ()
    quantization: str = ""
    gpu_name: str = ""
    arch: str = ""
    gpu_count: int = 0
    uses_none: bool = False
    release: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A recipe about the model. ``doubts`` say what differs; without any it may apply by itself.

    ``reasons`` say what agrees. ``score``: lower is better.
    """

    recipe: Recipe
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    score: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing differs from what the recipe was written for."""
        return not self.doubts


def match_recipes(recipes: Iterable[Recipe], sought: Sought) -> tuple[Match, ...]:
    """The recipes about this model, the best first; those of equal worth in their own order."""
    of_engine = [recipe for recipe in recipes if recipe.engine == sought.engine]
    found = [_match(recipe, sought) for recipe in of_engine]
    return tuple(sorted(filter(None, found), key=lambda match: match.score))


def choose_match(matches: Sequence[Match], wish: str) -> Match | None:
    """The one that applies: the best whole one for ``auto``, else the one that is named."""
    if wish == NONE:
        return None
    if wish == AUTO:
        return next((match for match in matches if match.is_whole), None)
    wanted = split_wish(wish)[0]
    return next((match for match in matches if match.recipe.id == wanted), None)


def split_wish(wish: str) -> tuple[str, tuple[str, ...]]:
    """The id, or ``auto``, and the features that are wanted with it: ``ID+FEATURE+FEATURE``."""
    recipe, *features = wish.split(_AND)
    return recipe, tuple(features)


def _match(recipe: Recipe, sought: Sought) -> Match | None:
    rank = _rank_model(recipe, sought)
    if rank is None:
        return None
    judged = [
        _judge_model(recipe, rank),
        _judge_precision(recipe, sought),
        _judge_hardware(recipe, sought),
        _judge_count(recipe, sought),
        _judge_release(recipe, sought),
        _judge_status(recipe),
    ]
    distance = abs(recipe.hardware.host_gpus - sought.gpu_count)
    score = (
        *(worth for worth, _ in judged),
        _ORDER[recipe.hardware.status],
        distance,
        *(-part for part in _newest_first(recipe)),
    )
    return Match(
        recipe=recipe,
        reasons=tuple(sentence for worth, sentence in judged if not worth and sentence),
        doubts=tuple(sentence for worth, sentence in judged if worth),
        score=score,
    )


def _newest_first(recipe: Recipe) -> tuple[int, int, int]:
    found = parse_version_range(recipe.versions) or ()
    first = (*found[0][1], 0, 0, 0) if found else (0, 0, 0)
    return first[0], first[1], first[2]


def _rank_model(recipe: Recipe, sought: Sought) -> int | None:
    """0 for the checkpoint itself, 1 for another one of the same model, None for another model."""
    if any(_is_same(recipe.model, name) for name in sought.names):
        return 0
    named = (*sought.names, *sought.base_names)
    return 1 if any(_is_same(model, name) for model in recipe.models for name in named) else None


def _is_same(model: str, name: str) -> bool:
    """Whether two names are one, in any case; a name without an owner is any owner's."""
    ours, theirs = model.lower(), name.lower()
    return ours == theirs if "/" in theirs else ours.rpartition("/")[2] == theirs


def _judge_model(recipe: Recipe, rank: int) -> tuple[int, str]:
    if rank:
        return 1, f"it is for the checkpoint {recipe.model}"
    return 0, f"it is for {recipe.model}"


def _judge_precision(recipe: Recipe, sought: Sought) -> tuple[int, str]:
    covered = load_recipe_words().covers.get(recipe.precision)
    if not covered or not sought.quantization or sought.quantization in covered:
        return 0, ""
    return 1, f"it is for {recipe.precision} weights, and these are {sought.quantization}"


def _judge_hardware(recipe: Recipe, sought: Sought) -> tuple[int, str]:
    word = recipe.hardware.word
    if sought.uses_none:
        return 3, f"it is for {word}, and the deployment uses no GPU"
    if not sought.gpu_name:
        return 3, f"it is for {word}, and which GPUs there are is not known"
    if load_recipe_words().is_hardware(word, sought.gpu_name):
        return 0, f"it is for {word}"
    if recipe.hardware.arch and recipe.hardware.arch == sought.arch:
        return 1, f"it is for {word}, which only has the same architecture ({sought.arch})"
    return 2, f"it is for {word}, and there is {sought.gpu_name}"


def _judge_count(recipe: Recipe, sought: Sought) -> tuple[int, str]:
    hardware = recipe.hardware
    if hardware.host_count > 1:
        return 2, f"it takes {hardware.host_count} machines"
    if sought.gpu_count and hardware.gpu_count > sought.gpu_count:
        return 1, f"it takes {hardware.gpu_count} GPUs, and there are {sought.gpu_count}"
    return 0, f"it takes {hardware.gpu_count} of {sought.gpu_count or 'the'} GPUs"


def _judge_release(recipe: Recipe, sought: Sought) -> tuple[int, str]:
    wanted = parse_version_range(recipe.versions)
    version = parse_version(sought.release)
    if wanted is None or version is None or version_is_in(version, wanted):
        return 0, f"it is for releases {recipe.versions}" if wanted else ""
    return 1, f"it is for releases {recipe.versions}, and this is {sought.release}"


def _judge_status(recipe: Recipe) -> tuple[int, str]:
    hardware = recipe.hardware
    if hardware.status is RecipeStatus.UNSUPPORTED:
        return 1, f"the collection says that it does not work on {hardware.word}"
    return 0, say_status(recipe)


def say_status(recipe: Recipe) -> str:
    """What the collection says of a recipe on its hardware, as a phrase."""
    word = recipe.hardware.word
    match recipe.hardware.status:
        case RecipeStatus.VERIFIED:
            return f"verified on {word}"
        case RecipeStatus.STATED:
            return f"stated for {word}, without a word of a test"
        case RecipeStatus.UNTESTED:
            return f"untested on {word}"
    return f"said not to work on {word}"


def matches_gpu(recipe: Recipe, word: str) -> bool:
    """Whether a person who writes ``h200`` or ``RTX PRO 6000`` means this recipe's hardware."""
    known = load_recipe_words().find_hardware(recipe.hardware.word)
    plain, own = _plain(word), _plain(recipe.hardware.word)
    is_named = known is not None and known.is_named(word)
    return plain == own or is_named or plain == recipe.hardware.arch.replace("_", "")


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())
