"""A recipe's settings as they fit this engine's release and this deployment.

Called by the command layer. Pure. What the release calls by another name is translated; what it
lacks, what the deployment says elsewhere and what needs the owner's word is withheld and named.
Nothing is left out in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.knowledge.derived.values import fits
from stoker.knowledge.lifetimes import Lifetimes
from stoker.knowledge.notes import load_note_forms
from stoker.knowledge.recipes import load_recipe_words
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, FlagCatalogue
from stoker.model.launch import Origin, Setting
from stoker.model.recipe import Recipe
from stoker.recipes.match import say_status

#: ``$NAME``, ``${NAME}``, ``$(command)`` and backquotes.
_SHELL = re.compile(r"\$[A-Za-z_{(]|`")
_MOST_TEXTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A setting of a recipe that does not take part, and why; ``kind`` says in one word.

    ``deployment``: the deployment says it under a key of its own. ``consent``: the owner has to
    set it. ``release``: this release has no such flag or value. ``without``: it means nothing
    without another one that is withheld.
    """

    setting: Setting
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRecipe:
    """What of a recipe takes part, and what does not."""

    recipe: Recipe
    settings: tuple[Setting, ...]
    withheld: tuple[Withheld, ...] = ()
    unknown_features: tuple[str, ...] = ()


def fit_recipe(
    recipe: Recipe,
    deployment: Deployment,
    table: EngineTable,
    lifetimes: Lifetimes | None,
    *,
    features: Sequence[str] = (),
) -> FittedRecipe:
    """The settings of a recipe, with those of the named features, for this engine's own flags."""
    known = {feature.name: feature for feature in recipe.features}
    wanted = [known[name] for name in features if name in known and not known[name].is_on]
    told = _with_features(recipe.settings, [each.settings for each in wanted], table.catalogue)
    settings = [*told, *_untold_size(recipe, told, table.catalogue)]
    status = say_status(recipe)
    kept: list[Setting] = []
    withheld: list[Withheld] = []
    for setting in settings:
        named = replace(setting, reason=f"{setting.reason} ({status})")
        fitted = _fit(named, deployment, table, lifetimes)
        if isinstance(fitted, Withheld):
            withheld.append(fitted)
        else:
            kept.append(fitted)
    alone = tuple(_find_alone(kept, withheld, deployment, table))
    lost = {each.setting for each in alone}
    return FittedRecipe(
        recipe=recipe,
        settings=tuple(setting for setting in kept if setting not in lost),
        withheld=(*withheld, *alone),
        unknown_features=tuple(name for name in features if name not in known),
    )


def _with_features(
    settings: Sequence[Setting], more: Sequence[Sequence[Setting]], catalogue: FlagCatalogue
) -> list[Setting]:
    """A feature's settings stand in place of the recipe's own about the same."""
    added = [setting for group in more for setting in group]
    told = {catalogue.identify(each.name, each.kind) for each in added}
    kept = [each for each in settings if catalogue.identify(each.name, each.kind) not in told]
    return [*kept, *added]


def _untold_size(
    recipe: Recipe, settings: Sequence[Setting], catalogue: FlagCatalogue
) -> Iterator[Setting]:
    """A recipe that divides a model by data or by layers alone says by that what tensor
    parallelism is: none. Left open, a rule of ours would divide it once more."""
    flags = load_recipe_words().flags.get(recipe.engine)
    told = {catalogue.identify(each.name) for each in settings if each.kind == "flag"}
    if flags is None or catalogue.identify(flags.tensor) in told:
        return
    if {catalogue.identify(flags.data), catalogue.identify(flags.pipeline)} & told:
        yield Setting(
            name=catalogue.spell(flags.tensor),
            value="1",
            origin=Origin.RECIPE,
            reason="the recipe divides the model by its other sizes alone",
            source=recipe.source,
            rule=recipe.id,
        )


def _fit(
    setting: Setting, deployment: Deployment, table: EngineTable, lifetimes: Lifetimes | None
) -> Setting | Withheld:
    """One setting, translated where this release calls it by another name."""
    fitted = _translate(setting, table.catalogue, lifetimes)
    if isinstance(fitted, Withheld):
        return fitted
    if reserved := _find_reserved(fitted, table):
        return Withheld(setting=setting, kind="deployment", reason=reserved)
    is_agreed = _is_owners(fitted, deployment, table.catalogue)
    if not is_agreed and (reason := find_consent(fitted)):
        return Withheld(setting=setting, kind="consent", reason=reason)
    return fitted


def _translate(
    setting: Setting, catalogue: FlagCatalogue, lifetimes: Lifetimes | None
) -> Setting | Withheld:
    if setting.kind != "flag":
        return setting
    option = catalogue.find(setting.name)
    if option is None:
        return _rename(setting, catalogue, lifetimes)
    words = [word for word in (setting.value, *setting.more) if word is not None]
    if option.argument is None and words:
        return _make_bare(setting, catalogue, words)
    unfit = [word for word in words if not fits(word, option)]
    if option.argument is not None and not words and option.nargs not in ("?", "*"):
        reason = f"{setting.name} of {catalogue.build} needs a value, and the recipe gives none"
        return Withheld(setting=setting, kind="release", reason=reason)
    if unfit:
        reason = f"{catalogue.build} takes no {unfit[0][:60]!r} for {setting.name}"
        return Withheld(setting=setting, kind="release", reason=reason)
    return setting


def _make_bare(
    setting: Setting, catalogue: FlagCatalogue, words: Sequence[str]
) -> Setting | Withheld:
    """``--flag true`` as the bare flag that it is in this release."""
    if [word.lower() for word in words] in (["true"], ["1"]):
        return replace(setting, value=None, more=())
    reason = (
        f"{setting.name} of {catalogue.build} takes no value, and the recipe gives {words[0]!r}"
    )
    return Withheld(setting=setting, kind="release", reason=reason)


def _rename(
    setting: Setting, catalogue: FlagCatalogue, lifetimes: Lifetimes | None
) -> Setting | Withheld:
    """The flag that the engine itself names in the stead of one that this release lacks."""
    for rename in lifetimes.renamed_to(setting.name) if lifetimes else ():
        new, is_pair, value = rename.new.partition("=")
        option = catalogue.find(new) if " " not in new else None
        if option is None or (option.argument is None) != (setting.value is None and not is_pair):
            continue
        words = [value] if is_pair else [each for each in (setting.value,) if each is not None]
        if all(fits(word, option) for word in words):
            told = f"{setting.reason}; it is {setting.name} there, {new} since {rename.release}"
            given = value if is_pair else setting.value
            return replace(setting, name=catalogue.spell(new), value=given, reason=told)
    found = lifetimes.find(setting.name) if lifetimes else None
    reason = f"{catalogue.build} has no {setting.name}"
    reason += f": it was there from {found.first} to {found.last}" if found else ", nor any release"
    return Withheld(setting=setting, kind="release", reason=reason)


def _find_reserved(setting: Setting, table: EngineTable) -> str:
    """Why a flag is not a recipe's to set; empty where it is."""
    option = table.catalogue.find(setting.name) if setting.kind == "flag" else None
    for row in table.reserved if option else ():
        if option and row.flag in option.names:
            return f"the deployment says it under `{row.key}`" if row.key else row.reason
    return ""


def _is_owners(setting: Setting, deployment: Deployment, catalogue: FlagCatalogue) -> bool:
    """Whether the deployment sets the same thing itself: that is its owner's word on it."""
    engine = deployment.engine
    if setting.kind == "env":
        return setting.name in engine.env
    identity = catalogue.identify(setting.name)
    return any(catalogue.identify(catalogue.spell(name)) == identity for name in engine.settings)


def find_consent(setting: Setting) -> str:
    """Why a setting needs its owner's word, empty where it does not."""
    forms, name = load_note_forms(), setting.name.lstrip("-")
    for word in (setting.value, *setting.more):
        if _SHELL.search(word or ""):
            return "it holds a variable of a shell, and nothing here is expanded"
        for text in _texts(word or ""):
            if row := forms.needs_consent(name, setting.kind, text):
                return row.reason
    return ""


def _texts(word: str) -> Iterator[str]:
    """A word itself, and the texts in it where it is JSON."""
    yield word
    try:
        data = json.loads(word) if word[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return
    waiting, count = [data], 0
    while waiting and count < _MOST_TEXTS:
        value, count = waiting.pop(), count + 1
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            yield value


def _find_alone(
    kept: Sequence[Setting],
    withheld: Sequence[Withheld],
    deployment: Deployment,
    table: EngineTable,
) -> Iterator[Withheld]:
    """What means nothing without a setting that is withheld: drafting without the drafter."""
    gone = {table.catalogue.identify(each.setting.name) for each in withheld}
    for row in load_recipe_words().together:
        is_gone = row.engine == table.kind and table.catalogue.identify(row.flag) in gone
        if not is_gone or deployment.draft is not None:
            continue
        for setting in kept:
            if setting.kind == "flag" and setting.name.lstrip("-").startswith(row.others):
                reason = f"it needs --{row.flag}, which is withheld"
                yield Withheld(setting=setting, kind="without", reason=reason)
