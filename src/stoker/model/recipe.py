"""A recipe: settings that somebody found good for a model on some hardware, and who says so.

Made by the importers of :mod:`stoker.recipes`, kept in the state folder, matched and applied by
the command layer. A recipe is what others say; it is never more certain than they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from stoker.model.finding import Source
from stoker.model.launch import Setting


class RecipeStatus(StrEnum):
    """What a collection itself says of a recipe on one kind of hardware.

    VERIFIED: it was run there. STATED: it is listed for that hardware, without a word of a test.
    UNTESTED: the hardware is not listed, the collection only assumes that it works. UNSUPPORTED:
    it says that it does not work there. The order of declaration is from the best to the worst.
    """

    VERIFIED = "verified"
    STATED = "stated"
    UNTESTED = "untested"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeHardware:
    """On what it runs. ``word``: the collection's own name of it; ``said``: its word of the status.

    ``gpu`` is our key for that kind of GPU, ``arch`` is ``sm_90`` or the like; both are empty where
    nobody described the word. ``gpu_count`` is how many GPUs the command uses in all,
    ``host_count`` on how many machines, ``host_gpus`` how many GPUs one such machine has.
    """

    word: str
    status: RecipeStatus
    said: str = ""
    brand: str = ""
    gpu: str = ""
    arch: str = ""
    gpu_count: int = 1
    host_count: int = 1
    host_gpus: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFeature:
    """An optional part of a recipe. One that ``is_on`` stands among the recipe's settings too."""

    name: str
    is_on: bool
    summary: str = ""
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One command line for one checkpoint on one kind of hardware.

    ``models``: the name of the checkpoint that is served, then the names of what it was made of.
    ``task``: ``text`` where it answers in text, else the collection's word. ``versions``: a range
    of the engine's releases, empty for any. ``notes`` are sentences: what the collection says
    beside the settings, and what of it was not understood.
    """

    SCHEMA: ClassVar[str] = "recipe/1"

    id: str
    engine: str
    task: str
    models: tuple[str, ...]
    precision: str
    hardware: RecipeHardware
    strategy: str
    versions: str
    settings: tuple[Setting, ...]
    features: tuple[RecipeFeature, ...] = ()
    notes: tuple[str, ...] = ()
    source: Source

    @property
    def model(self) -> str:
        """The checkpoint that is served."""
        return self.models[0] if self.models else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeComplaint:
    """Something in a file of a collection that could not be read, and where it stands."""

    file: str
    place: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFile:
    """What one file of a collection became."""

    SCHEMA: ClassVar[str] = "recipe-file/1"

    file: str
    recipes: tuple[Recipe, ...] = ()
    complaints: tuple[RecipeComplaint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeEntry:
    """One file in the list of a collection: its document, and which models it is about."""

    file: str
    document: str
    models: tuple[str, ...]
    task: str
    recipe_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeCollection:
    """The list of a collection that was read: where it came from, and what it holds.

    ``commit`` is ``unknown`` where nobody said it. ``folder`` holds the documents of this very
    reading; a newer one has a folder of its own.
    """

    SCHEMA: ClassVar[str] = "recipe-collection/1"

    name: str
    engine: str
    repository: str
    commit: str
    read_at_seconds: float
    folder: str
    entries: tuple[RecipeEntry, ...] = ()
    complaints: tuple[RecipeComplaint, ...] = ()
