"""Which releases of an engine print what a signature knows, as far as their sources were read.

Called by :mod:`stoker.diagnosis`. ``scripts/read_wordings.py`` makes the data. Only some releases
were read, so whatever lies between two of them is not judged. Pure but for the cached loader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, read_json
from stoker.knowledge.lifetimes import order_releases, public_version
from stoker.knowledge.structure import structure
from stoker.model.facts import Plain
from stoker.model.finding import Source

_FOLDER = "wordings"
#: A release that was published; what a builder calls its own work may stand anywhere.
_PUBLISHED = re.compile(r"\d{1,9}(\.\d{1,9})*(\.post\d{1,9})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The first and the last release that was read and has it; ``last`` is None where the newest
    one has it still. ``gaps`` are those between that have not. ``beside`` are needles of the
    signature that stand in none: of a line that holds one, nothing is known."""

    first: str
    last: str | None
    gaps: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wordings:
    """The spans of one engine by signature. ``releases`` are all that were read, in order."""

    engine: str
    source: Source
    releases: tuple[str, ...]
    signatures: Mapping[str, Span]

    def describe(self, name: str) -> str:
        """The releases that print it, in words; empty where that is any, or not known."""
        span = self.signatures.get(name)
        is_from_the_start = span is not None and span.first == self.releases[0]
        if span is None or (is_from_the_start and span.last is None):
            return ""
        if span.last is None:
            return f"{span.first} and later"
        if is_from_the_start:
            return f"{span.last} and before"
        return f"{span.first} alone" if span.first == span.last else f"{span.first} to {span.last}"

    def is_outside(self, name: str, version: str) -> bool:
        """Whether a release lies clearly before or behind those that print it: a release that was
        read and lacks it lies between, or is this one."""
        public = public_version(version.strip()).removeprefix("v")
        span = self.signatures.get(name)
        if span is None or public in (span.first, span.last) or not _is_published(public):
            return False
        before = self.releases[: self.releases.index(span.first)]
        last = span.last or self.releases[-1]
        behind = self.releases[self.releases.index(last) + 1 :]
        is_before = bool(before) and _at_most(public, before[-1])
        return is_before or (bool(behind) and _at_most(behind[0], public))


def _is_published(version: str) -> bool:
    """A version of zeros is that of a repository without tags."""
    return _PUBLISHED.fullmatch(version) is not None and bool(version.strip("0."))


def _at_most(release: str, other: str) -> bool:
    return order_releases((release, other))[0] == release


@cache
def wording_kinds() -> tuple[str, ...]:
    """The engines whose wordings were read, sorted."""
    return list_data(_FOLDER, ".json")


@cache
def load_wordings(kind: str) -> Wordings:
    """What is known of an engine's wordings. Raises DataError, also for an engine without any."""
    where = f"{_FOLDER}/{kind}.json"
    made = parse_wordings(read_json(where), where=where)
    if made.engine != kind:
        raise DataError(f"{where}: describes {made.engine}")
    return made


def parse_wordings(data: Plain, *, where: str) -> Wordings:
    """One file's data; ``where`` names it in the DataError."""
    made = structure(Wordings, data, where=where)
    check_source(made.source, where=where)
    if not made.releases or made.releases != order_releases(dict.fromkeys(made.releases)):
        raise DataError(f"{where}: its releases are none, doubled, or not in order")
    for name, span in made.signatures.items():
        _check_span(span, made.releases, where=f"{where}: {name}")
    return made


def _check_span(span: Span, releases: tuple[str, ...], *, where: str) -> None:
    last = releases[-1] if span.last is None else span.last
    named = (span.first, *span.gaps, last)
    if unread := [each for each in named if each not in releases]:
        raise DataError(f"{where}: nobody read {', '.join(unread)}")
    if span.last == releases[-1]:
        raise DataError(f"{where}: the newest release has it, so there is no last one")
    places = [releases.index(each) for each in named]
    if span.gaps and (places != sorted(set(places))):
        raise DataError(f"{where}: its gaps lie between the first and the last release, in order")
    if places[0] > places[-1]:
        raise DataError(f"{where}: the last release stands before the first")
