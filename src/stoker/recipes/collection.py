"""What all formats of collections share: how one is recognised, and how its files become recipes.

Called by the command layer, which reads the files; the formats are the modules beside this one.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.lifetimes import load_lifetimes
from stoker.model.finding import Source
from stoker.model.launch import Origin, Setting
from stoker.model.recipe import RecipeComplaint, RecipeFile
from stoker.recipes.args import Grammar, make_grammar


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a collection was read: a repository or a folder, and its commit (``unknown``)."""

    repository: str
    commit: str

    def source(self, file: str) -> Source:
        """The source of what one file says."""
        where = f"{self.repository}: {file}" if self.repository else file
        return Source(kind="documented", where=where, version=self.commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of a collection.

    ``choose`` says which of the paths of a folder belong to it, shared files and files of entries;
    no entry means that the folder is another thing. ``read`` turns one file of entries into
    recipes, given the texts of all shared files.
    """

    name: str
    engine: str
    choose: Callable[[Sequence[str]], tuple[tuple[str, ...], tuple[str, ...]]]
    read: Callable[[str, str, Mapping[str, str], Provenance], RecipeFile]


class Complaints:
    """Gathers what could not be read of one file, once each."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[tuple[str, str], None] = {}

    def add(self, place: str, *sentences: str) -> None:
        """Something at a place of the file, a dotted path or a line."""
        self._found.update(dict.fromkeys((place, sentence) for sentence in sentences))

    def unknown_keys(self, place: str, data: object, known: Sequence[str]) -> None:
        """Keys that nobody here knows, which are told and not dropped in silence."""
        for key in sorted(set(data) - set(known)) if isinstance(data, Mapping) else ():
            self.add(f"{place}.{key}".lstrip("."), "this key is not understood")

    def all(self) -> tuple[RecipeComplaint, ...]:
        """What was found, in order."""
        return tuple(
            RecipeComplaint(file=self._file, place=place, sentence=sentence)
            for place, sentence in self._found
        )


def refused(file: str, place: str, sentence: str) -> RecipeFile:
    """A file of which nothing could be read."""
    complaint = RecipeComplaint(file=file, place=place, sentence=sentence)
    return RecipeFile(file=file, complaints=(complaint,))


@cache
def grammar_for(engine: str, version: str) -> Grammar:
    """The flags of the newest release that is known, then of the one that a recipe names."""
    lifetimes = load_lifetimes(engine)
    newest = lifetimes.releases[-1]
    named = lifetimes.release_of(version)
    releases = dict.fromkeys((newest, named or lifetimes.releases[0]))
    return make_grammar([load_catalogue(engine, release) for release in releases])


class Names:
    """Gives each recipe of a file an id of its own, in characters that need no quotes."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def give(self, name: str) -> str:
        """The name itself; with a number behind it where it was given before."""
        plain = _ODD.sub("-", name)[:_LONGEST_NAME]
        count = self._given[plain] = self._given.get(plain, 0) + 1
        return plain if count == 1 else f"{plain}~{count}"


_ODD = re.compile(r"[^A-Za-z0-9._/@:~-]")
_LONGEST_NAME = 300


def like(recipe: str, source: Source, reason: str) -> Setting:
    """A setting to make others like it: of this recipe, for this reason."""
    return Setting(
        name="", value=None, origin=Origin.RECIPE, reason=reason, source=source, rule=recipe
    )


def group(data: object) -> Mapping[str, object]:
    """A mapping, or an empty one for anything else."""
    return data if isinstance(data, Mapping) else {}


def words(data: object) -> tuple[str, ...]:
    """A list of texts, or an empty one for anything else."""
    return tuple(str(each) for each in data) if isinstance(data, list) else ()


def items(data: object) -> list[object]:
    """A list, or an empty one for anything else."""
    return data if isinstance(data, list) else []


def number(data: object) -> int:
    """A whole number above zero that a person may mean, else zero."""
    if not isinstance(data, int) or isinstance(data, bool):
        return 0
    return data if 0 < data <= 1 << 20 else 0


def text(data: object, limit: int = 300) -> str:
    """A text on one line, cut; empty for anything else."""
    if not isinstance(data, (str, int)) or isinstance(data, bool):
        return ""
    return " ".join(str(data).split())[:limit]
