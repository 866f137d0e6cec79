"""Which releases of an engine have a model's class: a name under `architectures` of config.json.

Called by the derived facts. Generated data from the published packages
(`scripts/read_model_classes.py`); nothing of an engine is imported to know it. Pure but for the
cached loader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, read_json
from stoker.knowledge.lifetimes import Lifetime, Lifetimes, order_releases, public_version
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_FOLDER = "model_classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    engine: str
    source: Source
    releases: tuple[str, ...]
    endings: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]]
    named: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelClasses:
    """The classes of all releases of one engine that were read.

    ``registered`` are those that it has; ``named`` those that it only mentions where it reads a
    model's configuration, to take another one for them; by its ``endings`` it takes one class for
    another of the same beginning.
    """

    source: Source
    registered: Lifetimes
    named: Lifetimes
    endings: tuple[str, ...] = ()

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that were read, in their order."""
        return self.registered.releases

    def find(self, name: str) -> Lifetime | None:
        """When a class is registered under this very name; None for never."""
        return self.registered.find(name)

    def has(self, name: str, release: str) -> bool:
        """Whether a release that was read can serve the class, by this name or one it stands for.

        False also for a release that was not read.
        """
        if self.named.has(name, release):
            return True
        return any(self.registered.has(each, release) for each in self._names(name))

    def has_in(self, name: str, version: str) -> bool | None:
        """Whether a version has the class, which need not be a release that was read.

        One between two releases has what the older has, and lacks what both lack. None where
        that does not settle it: behind the newest, or before the oldest of them.
        """
        if (exact := public_version(version)) in self.releases:
            return self.has(name, exact)
        before = self.registered.release_of(version)
        if before is None:
            return None
        place = self.releases.index(before) + 1
        if self.has(name, before):
            return True
        if place == len(self.releases) or self.has(name, self.releases[place]):
            return None
        return False

    def _names(self, name: str) -> Iterator[str]:
        yield name
        ending = next((each for each in self.endings if name.endswith(each)), None)
        if ending is not None:
            yield from (name.removesuffix(ending) + each for each in self.endings)


def model_class_engines() -> tuple[str, ...]:
    """The engines whose packages were read, sorted."""
    return list_data(_FOLDER, ".json")


@cache
def load_model_classes(engine: str) -> ModelClasses | None:
    """The classes of an engine's releases; None for an engine that was not read. DataError."""
    if engine not in model_class_engines():
        return None
    where = f"{_FOLDER}/{engine}.json"
    file = structure(_File, read_json(where), where=where)
    check_source(file.source, where=where)
    if file.engine != engine or file.releases != order_releases(file.releases):
        raise DataError(f"{where}: describes {file.engine}, or its releases are not in order")
    registered, named = (
        Lifetimes(engine=engine, releases=file.releases, flags=spans)
        for spans in (file.classes, file.named)
    )
    return ModelClasses(
        source=file.source, registered=registered, named=named, endings=file.endings
    )
