"""Which releases of an engine had which flag, and what became of it.

Called by whoever explains a flag that the engine at hand does not know. All of it comes from one
precomputed file an engine, so that no catalogue has to be loaded for a sentence about another
release; the script that makes the catalogues makes that file too. Pure but for the cached loader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, read_json, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import Version, parse_version
from stoker.model.finding import Source

_NEAR_ENOUGH = 0.6
#: What follows the numbers of a release that was published again: ``0.5.8.post1``.
_POST = re.compile(r"\.post(\d{1,40})\b")
#: A release as people write it.
_PLAIN = re.compile(r"[A-Za-z]?\d+(\.\d+)*(\.post\d{1,40})?")
#: What follows the numbers of a release that is still to come: ``0.5.10.dev12+gabcdef``.
_BEFORE = re.compile(r"\.dev\d+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """One thing that an engine says about a flag's new name, and the first release that says it.

    ``new`` is in the engine's words, which may name a value too:
    ``--cuda-graph-backend-prefill=disabled``.
    """

    old: str
    new: str
    release: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """When a flag is there. ``spans`` are first and last releases; a flag may come back."""

    name: str
    spans: tuple[tuple[str, str], ...]

    @property
    def first(self) -> str:
        """The first release that has it, among those that are known."""
        return self.spans[0][0]

    @property
    def last(self) -> str:
        """The last release that has it, among those that are known."""
        return self.spans[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """All flags of all known releases of one engine; the releases stand in their order.

    ``flags`` maps a flag to first and last releases in turns.
    """

    engine: str
    releases: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]
    renames: tuple[Rename, ...] = ()

    def find(self, name: str) -> Lifetime | None:
        """The lifetime of a flag, spelled as :meth:`FlagCatalogue.find` takes it; None for none."""
        known = self._spell(name)
        if known is None:
            return None
        ends = self.flags[known]
        return Lifetime(name=known, spans=tuple(zip(ends[::2], ends[1::2], strict=True)))

    def has(self, name: str, release: str) -> bool | None:
        """Whether a release has a flag; None for a release that is not known."""
        if release not in self.releases:
            return None
        found, place = self.find(name), self.releases.index
        spans = found.spans if found else ()
        return any(place(first) <= place(release) <= place(last) for first, last in spans)

    def renamed_to(self, name: str) -> tuple[Rename, ...]:
        """What the engine says replaces a flag, the newest word first."""
        known = self._spell(name)
        return tuple(rename for rename in reversed(self.renames) if rename.old == known)

    def nearest(self, name: str, release: str | None = None) -> str | None:
        """The flag that is spelled most like this one, of one release or of any; a guess.

        For messages alone: nothing may be decided by it.
        """
        bare = {
            known.lstrip("-"): known
            for known in self.flags
            if release is None or self.has(known, release)
        }
        wanted = name.lstrip("-").replace("_", "-")
        near = get_close_matches(wanted, bare, n=1, cutoff=_NEAR_ENOUGH)
        return bare[near[0]] if near else None

    def release_of(self, version: str) -> str | None:
        """The release that describes a version best: itself, or the newest one before it.

        None for a version that is older than all of them, or that has no numbers. What a builder
        adds (``+cu130``) does not count, and a version in the making stands before its release.
        """
        if (public := public_version(version)) in self.releases:
            return public
        if parse_version(version) is None:
            return None
        before = [each for each in self.releases if _order(each) <= _order(version)]
        return before[-1] if before else None

    def _spell(self, name: str) -> str | None:
        spellings = dict.fromkeys((name, name.replace("_", "-")))
        wanted = [f"{dashes}{each}" for each in spellings for dashes in ("", "-", "--")]
        return next((each for each in wanted if each in self.flags), None)


def public_version(version: str) -> str:
    """A version without what its builder added: ``0.32.0`` of ``0.32.0+cpu``."""
    return version.partition("+")[0]


def match_release(version: str, releases: Iterable[str]) -> str | None:
    """The one release that a person means: ``0.33.0`` by ``v0.33`` or ``0.33``, else None.

    A version in the making (``rc1``, ``.dev3``) is no release.
    """
    public = public_version(version.strip())
    known = tuple(releases)
    if public in known:
        return public
    wanted = _order(public) if _PLAIN.fullmatch(public) else ((), 0)
    same = [each for each in known if wanted[0] and _order(each) == wanted]
    return same[0] if len(same) == 1 else None


def lifetime_kinds() -> tuple[str, ...]:
    """The engines whose releases are known, sorted."""
    return list_data("lifetimes", ".json")


@cache
def load_lifetimes(kind: str) -> Lifetimes:
    """What is known of an engine's releases. Raises DataError, also for an engine without any."""
    where, renames = f"lifetimes/{kind}.json", f"flags/{kind}/renames.toml"
    rows = read_toml(renames).get("rename", ())
    made = structure(Lifetimes, {**read_json(where), "renames": rows}, where=where)
    for rename in made.renames:
        check_source(rename.source, where=f"{renames}: {rename.old}")
    if made.engine != kind or made.releases != order_releases(made.releases):
        raise DataError(f"{where}: describes {made.engine}, or its releases are not in order")
    return made


def order_releases(releases: Iterable[str]) -> tuple[str, ...]:
    """Releases from the oldest to the newest; ``0.5.8.post1`` comes after ``0.5.8``."""
    return tuple(sorted(releases, key=_order))


def _order(release: str) -> tuple[Version, int]:
    post = _POST.search(release)
    place = int(post[1]) if post else -1 if _BEFORE.search(release) else 0
    numbers = list(parse_version(release) or ())
    while numbers and not numbers[-1]:
        numbers.pop()  # 0.32 is 0.32.0
    return tuple(numbers), place
