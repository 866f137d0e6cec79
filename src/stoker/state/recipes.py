"""Keeps the collections of recipes that were read, and reads them back.

Each reading has a folder of its own; the list of a collection names it and is written last, so a
crash leaves the old reading or the new one, whole. Called by the command layer.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from stoker.errors import HostError, NotFound, StateError
from stoker.model.document import parse_document, render_line
from stoker.model.launch import Setting
from stoker.model.layout import recipes_folder
from stoker.model.plan import Folders
from stoker.model.recipe import Recipe, RecipeCollection, RecipeEntry, RecipeFeature, RecipeFile
from stoker.ports import Host, ReadableHost
from stoker.state.documents import DOCUMENT_MODE, read_document, write_document

Change: TypeAlias = Callable[[Setting], Setting]

#: Larger than any document that is written here.
LIMIT_BYTES = 16 << 20
_LIST_SUFFIX = ".json"


def list_collections(host: ReadableHost, folders: Folders) -> tuple[RecipeCollection, ...]:
    """Every collection that was read, by name. Raises HostError or StateError."""
    folder = recipes_folder(folders)
    try:
        names = host.list_folder(folder)
    except NotFound:
        return ()
    paths = (posixpath.join(folder, name) for name in names if name.endswith(_LIST_SUFFIX))
    found = (read_document(host, path, RecipeCollection) for path in paths)
    return tuple(each for each in found if each is not None)


def read_recipes(
    host: ReadableHost, folders: Folders, collection: RecipeCollection, entry: RecipeEntry
) -> RecipeFile:
    """What one file of a collection became. Raises HostError or StateError."""
    path = posixpath.join(recipes_folder(folders), collection.folder, entry.document)
    found = parse_document(host.read_text(path, LIMIT_BYTES), RecipeFile, origin=path)
    return replace(found, recipes=tuple(_unfold(recipe) for recipe in found.recipes))


def write_recipes(
    host: Host, folders: Folders, made: RecipeFile, *, folder: str, document: str
) -> int:
    """Keep what one file became, in the folder of a reading that is under way; its bytes."""
    folded = replace(made, recipes=tuple(_fold(recipe) for recipe in made.recipes))
    content = render_line(folded).encode()
    if len(content) > LIMIT_BYTES:
        raise StateError(f"{made.file} becomes a document of more than {LIMIT_BYTES} bytes")
    path = posixpath.join(recipes_folder(folders), folder, document)
    host.write_file(path, content, DOCUMENT_MODE)
    return len(content)


def put_in_force(host: Host, folders: Folders, collection: RecipeCollection) -> None:
    """Make a reading the one that counts, and remove what no list names any more."""
    folder = recipes_folder(folders)
    path = posixpath.join(folder, f"{collection.name}{_LIST_SUFFIX}")
    write_document(host, path, collection)
    remove_leftovers(host, folders)


def remove_leftovers(host: Host, folders: Folders) -> None:
    """Remove the folders of readings that are no collection's; what cannot be removed stays."""
    folder = recipes_folder(folders)
    with suppress(HostError, StateError):
        kept = {each.folder for each in list_collections(host, folders)}
        for name in host.list_folder(folder):
            path = posixpath.join(folder, name)
            stat = host.stat(path) if name not in kept else None
            if stat is not None and stat.kind == "folder":
                host.remove_tree(path)


def _fold(recipe: Recipe) -> Recipe:
    """Without what all settings of a recipe have from it, which is most of their bytes."""
    return _each(recipe, lambda setting: replace(setting, source=None, rule=""))


def _unfold(recipe: Recipe) -> Recipe:
    return _each(recipe, lambda setting: replace(setting, source=recipe.source, rule=recipe.id))


def _each(recipe: Recipe, change: Change) -> Recipe:
    features = tuple(_each_of(feature, change) for feature in recipe.features)
    return replace(recipe, settings=tuple(map(change, recipe.settings)), features=features)


def _each_of(feature: RecipeFeature, change: Change) -> RecipeFeature:
    return replace(feature, settings=tuple(map(change, feature.settings)))
