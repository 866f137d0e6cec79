"""`stoker recipes import`: an engine command in a note becomes settings that keep their source.

The text is read, never run. What comes of it is kept as a recipe, or goes into a deployment file
where its owner says so; what needs his word is withheld until he names it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

from stoker import __version__
from stoker.apply.lock import hold_lock
from stoker.commands.deployment_file import write_back
from stoker.commands.folders import absolute_path
from stoker.commands.plan import read_file
from stoker.commands.resolve import find_command
from stoker.commands.world import World
from stoker.endpoints.fetch import Fetched, fetch_text
from stoker.errors import EndpointError, HostError, NotFound, UsageError
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.notes import load_note_forms
from stoker.knowledge.stacks import find_build
from stoker.model.addresses import bare_address
from stoker.model.deployment import Deployment
from stoker.model.deployment_fields import NAME_PATTERN
from stoker.model.facts import Plain, Target, Unknown
from stoker.model.finding import Source
from stoker.model.layout import recipes_folder
from stoker.model.note import NoteImport
from stoker.model.recipe import Recipe, RecipeCollection, RecipeEntry, RecipeFile
from stoker.planning.adoption import typed
from stoker.probes.observe import observe
from stoker.recipes.notes.flag_names import find_option, open_book
from stoker.recipes.notes.read import Wish, import_note
from stoker.recipes.notes.recipe import make_changes, make_recipe, name_from
from stoker.recipes.notes.text import MAX_BYTES
from stoker.spec import parse_deployment
from stoker.spec.edit import edit_deployment
from stoker.state.recipes import list_collections, put_in_force, read_recipes, write_recipes

_CARD = "README.md"
_SETTINGS, _ENV = "engine.settings.", "engine.env."
#: More notes of one engine than a person keeps.
MAX_KEPT = 500
#: The release is read of the files of the engine's environment; no program is started for it.
_ASKED = frozenset({"engine_packages"})

Fetch = Callable[[str], Fetched]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWish:
    """What to read and where it shall go.

    ``source`` is a file, a model's folder or an https address. ``into`` is a deployment file;
    without one the settings become a recipe called ``name``.
    """

    source: str
    wish: Wish
    name: str | None = None
    into: str | None = None


def import_recipe(world: World, wanted: ImportWish, fetch: Fetch = fetch_text) -> NoteImport:
    """Read a note and keep what was taken of it; nothing is kept while no command is chosen.

    Raises UsageError or HostError for a source that cannot be read, SpecError for a
    deployment file that is wrong or would become wrong, LockHeld.
    """
    if wanted.name is not None and not re.fullmatch(NAME_PATTERN.strip("^$"), wanted.name):
        raise UsageError(
            f"--name {wanted.name[:60]!r}: a name has lower case letters, digits and dashes, "
            "at most 40"
        )
    text, source, name = read_source(world, wanted.source, fetch)
    into = _read_into(wanted.into)
    wish = _complete(world, wanted.wish, into[1] if into else None)
    imported = import_note(text, name=name, source=source, wish=wish)
    if into is not None:
        _check_engine(imported, into[1], wanted.into or "")
        return _write_into(world, imported, wanted, text=into[0], wish=wish)
    return _keep(world, imported, wanted, name=name)


def _check_engine(imported: NoteImport, deployment: Deployment, path: str) -> None:
    """Raises UsageError where the chosen command starts another engine than the file's."""
    kind = deployment.engine.kind
    if imported.chosen and imported.engine and imported.engine != kind:
        raise UsageError(
            f"the command starts {imported.engine}, and {path} is for {kind}, whose flags differ",
            "leave out --into to keep it as a recipe, or choose another command",
        )


def read_source(world: World, source: str, fetch: Fetch) -> tuple[str, Source, str]:
    """The text, where it is from, and the name of its file."""
    today = datetime.fromtimestamp(world.clock.now_seconds(), UTC)
    if "://" in source:
        try:
            fetched = fetch(load_note_forms().find_raw(source))
        except EndpointError as error:
            # No contract of a server is broken, which is what that error's exit code says.
            raise HostError(error.summary, error.hint) from error
        url = bare_address(fetched.url)
        where = Source(kind="documented", where=url, date=f"{today:%Y-%m-%d}")
        return fetched.text, where, posixpath.basename(url) or url
    path = absolute_path(source)
    stat = world.host.stat(path)
    if stat is not None and stat.kind == "folder":
        path = posixpath.join(path, _CARD)
        stat = world.host.stat(path)
    if stat is None or stat.kind != "file":
        raise NotFound(f"{path} is no file", "give a file, a model's folder or an https:// address")
    text = world.host.read_text(path, MAX_BYTES + 1)
    where = Source(kind="documented", where=path, date=f"{today:%Y-%m-%d}")
    return text, where, posixpath.basename(path)


def _read_into(path: str | None) -> tuple[str, Deployment] | None:
    """The deployment file's text, and what it says."""
    if path is None:
        return None
    text = read_file(path)
    return text, parse_deployment(text, path, engine_kinds=engine_kinds())


def _complete(world: World, wish: Wish, deployment: Deployment | None) -> Wish:
    """The wish with the engine, and the release where it is known, that a deployment has."""
    if deployment is None:
        return wish
    kind = deployment.engine.kind
    if wish.engine not in (None, kind):
        raise UsageError(f"--engine is {wish.engine}, and the deployment's engine is {kind}")
    return replace(wish, engine=kind, release=wish.release or _find_release(world, deployment))


def _find_release(world: World, deployment: Deployment) -> str:
    """The release of the deployment's engine, as its files tell it; empty where they do not."""
    kind = deployment.engine.kind
    lifetimes = open_book(kind).lifetimes
    if lifetimes is None:
        return ""
    command = find_command(world, deployment.engine.environment, load_engine_table(kind))
    facts = observe(
        world.host,
        Target(command=(command,)),
        stoker_version=__version__,
        now_seconds=world.clock.now_seconds(),
        only=_ASKED,
    )
    build = find_build(kind, facts)
    return "" if isinstance(build, Unknown) else lifetimes.release_of(build) or ""


# A recipe.


def _keep(world: World, imported: NoteImport, wanted: ImportWish, *, name: str) -> NoteImport:
    model = imported.model or wanted.wish.model or ""
    if not imported.engine or not make_changes(imported):
        return imported
    if not model:
        told = "nothing was kept, for the text does not say for which model: name it with --model"
        return replace(imported, remarks=(*imported.remarks, told))
    stem = posixpath.splitext(name)[0]
    number = str(imported.chosen) if len(imported.commands) > 1 else ""
    recipe = make_recipe(
        imported, model=model, name=wanted.name or name_from(filter(None, (stem, number)))
    )
    if not recipe.settings:
        return imported
    keep_recipe(world, recipe)
    return replace(imported, recipe=recipe.id)


def keep_recipe(world: World, recipe: Recipe) -> None:
    """Put a recipe among the notes of its engine; one of the same id is replaced."""
    world.open_state()
    folder = recipes_folder(world.folders)
    world.host.make_folder(folder, 0o700)
    now = world.clock.now_seconds()
    told = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC"
    name = f"notes-{recipe.engine}"
    with hold_lock(posixpath.join(folder, "lock"), verb="recipes import", now_text=told):
        kept = {each.id: each for each in _kept(world, name) if each.id != recipe.id}
        if len(kept) >= MAX_KEPT:
            raise UsageError(
                f"{MAX_KEPT} notes about {recipe.engine} are kept already",
                f"remove {posixpath.join(folder, name)}.json, and import again what you need",
            )
        _write_all(world, [*kept.values(), recipe], name=name, now_seconds=now)


def _kept(world: World, name: str) -> list[Recipe]:
    found = [each for each in list_collections(world.host, world.folders) if each.name == name]
    return [
        recipe
        for collection in found
        for entry in collection.entries
        for recipe in read_recipes(world.host, world.folders, collection, entry).recipes
    ]


def _write_all(world: World, recipes: list[Recipe], *, name: str, now_seconds: float) -> None:
    """All notes of an engine anew, in a folder of their own, and then the list that names it."""
    ids = "\n".join(recipe.id for recipe in recipes)
    folder = f"{name}-{int(now_seconds)}-{sha256(ids.encode()).hexdigest()[:8]}"
    entries = []
    for count, recipe in enumerate(recipes):
        document = f"{count:04d}-{sha256(recipe.id.encode()).hexdigest()[:12]}.json"
        made = RecipeFile(file=recipe.source.where, recipes=(recipe,))
        write_recipes(world.host, world.folders, made, folder=folder, document=document)
        entries.append(
            RecipeEntry(
                file=recipe.source.where,
                document=document,
                models=recipe.models,
                task=recipe.task,
                recipe_count=1,
            )
        )
    collection = RecipeCollection(
        name=name,
        engine=recipes[0].engine,
        repository="imported notes",
        commit="unknown",
        read_at_seconds=now_seconds,
        folder=folder,
        entries=tuple(entries),
    )
    put_in_force(world.host, world.folders, collection)


# A deployment file.


def _write_into(
    world: World, imported: NoteImport, wanted: ImportWish, *, text: str, wish: Wish
) -> NoteImport:
    """The settings in the file. What its owner wrote stays unless he names it."""
    path = wanted.into or ""
    deployment = parse_deployment(text, path, engine_kinds=engine_kinds())
    changes = {
        key: _typed(value) if key.startswith(_SETTINGS) else value
        for key, value in make_changes(imported).items()
    }
    written = {key: _written(deployment, key, imported) for key in changes}
    other = {key: was for key, was in written.items() if was and was[1] != changes[key]}
    kept = {key: was for key, was in other.items() if _bare(key) not in wish.consents | wish.takes}
    remarks = [
        f"{was[0]} stays {json.dumps(was[1])} as the file has it, not {json.dumps(changes[key])}: "
        f"--consent {_bare(key)} takes the note's"
        for key, was in kept.items()
    ]
    told = replace(imported, remarks=(*imported.remarks, *remarks), into=path if changes else "")
    new = {key: changes[key] for key in changes if key in other or not written[key]}
    new = {key: value for key, value in new.items() if key not in kept}
    if new:
        cleared = _without_aliases(other, new)
        edited = edit_deployment(text, {**cleared, **new}, origin=path)
        parse_deployment(edited, path, engine_kinds=engine_kinds())
        write_back(world, path, text, edited)
    return told


def _without_aliases(
    other: Mapping[str, tuple[str, Plain]], new: Mapping[str, Plain]
) -> dict[str, Plain]:
    """Removes other spellings of what is changed, so that nothing stands twice."""
    spelled = {key: f"{_SETTINGS}{was[0]}" for key, was in other.items() if key in new}
    return {
        path: None for key, path in spelled.items() if key.startswith(_SETTINGS) and path != key
    }


def _bare(key: str) -> str:
    """The name of a flag or variable in the path of a change."""
    for group in (_SETTINGS, _ENV):
        key = key.removeprefix(group)
    return key


def _typed(value: Plain) -> Plain:
    if isinstance(value, list):
        return [_typed(each) for each in value]
    return typed(value) if isinstance(value, str) else value


def _written(deployment: Deployment, key: str, imported: NoteImport) -> tuple[str, Plain] | None:
    """What the file says about the same thing, by whatever spelling: the key and the value."""
    if key.startswith(_ENV):
        name = _bare(key)
        value = deployment.engine.env.get(name)
        return None if value is None else (name, value)
    if not key.startswith(_SETTINGS):
        return None
    named = _spelled(deployment.engine.settings, _bare(key), imported)
    return None if named is None else (named, deployment.engine.settings[named])


def _spelled(settings: Mapping[str, Plain], name: str, imported: NoteImport) -> str | None:
    """The spelling under which the file has the same flag."""
    catalogue = open_book(imported.engine, imported.release).catalogue
    if name in settings:
        return name
    wanted = find_option(catalogue, f"--{name}") or find_option(catalogue, f"-{name}")
    return next(
        (
            each
            for each in settings
            if wanted is not None and catalogue.find(each) is wanted and "." not in name
        ),
        None,
    )
