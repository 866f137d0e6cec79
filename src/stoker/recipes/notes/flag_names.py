"""What a flag in a note is called by the engine: its name now, then, or in the engine's own code.

Called by :mod:`stoker.recipes.notes.judge` and the reader of settings files. A name is changed only
where the engine's own sources say so; a likeness is told and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from stoker.errors import UsageError
from stoker.knowledge.engines import engine_kinds, load_catalogue, load_engine_table
from stoker.knowledge.field_names import load_field_names
from stoker.knowledge.lifetimes import Lifetime, Lifetimes, lifetime_kinds, load_lifetimes
from stoker.knowledge.servers import find_grammar, load_servers
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.finding import Source

_ARGPARSE = "argparse"
_UNHEARD = "no release that is known has"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What became of a name: ``flag`` is the engine's, None for one that the release lacks.

    ``sentence`` says why it is not the name that was written, or what is known of that; empty
    where it is. ``source`` is whoever says so.
    """

    written: str
    flag: str | None
    option: Option | None = None
    sentence: str = ""
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagBook:
    """The flags of one release of an engine, and what is known of its other releases."""

    kind: str
    release: str
    catalogue: FlagCatalogue
    lifetimes: Lifetimes | None

    def resolve(self, written: str) -> Named:
        """The flag of the release that a written name means."""
        return _resolve(self.kind, self.release, written)

    def find(self, written: str) -> Named:
        """What :meth:`resolve` answers, which remembers it."""
        name, dot, rest = written.partition(".")
        spelled = name.replace("_", "-") if name.startswith("--") else name
        option = find_option(self.catalogue, spelled)
        if option is not None:
            return Named(written=written, flag=f"{spelled}{dot}{rest}", option=option)
        return (
            self._from_beginning(written, spelled)
            or self._from_field(written, spelled)
            or self._from_rename(written, spelled)
            or Named(written=written, flag=None, sentence=self._explain(spelled))
        )

    def liken(self, named: Named) -> str:
        """The flag that a name is spelled like, where nobody has it; empty where none is near.

        It takes a while, so that callers count it.
        """
        if self.lifetimes is None or not named.sentence.startswith(_UNHEARD):
            return ""
        near = _nearest(self.kind, self.release, named.sentence.removeprefix(_UNHEARD).strip())
        return f"; {near} is spelled most like it" if near else ""

    def option_of_old(self, written: str) -> Option | None:
        """The option of the last release that had a flag, None where none did."""
        life = self._life(written)
        return find_option(load_catalogue(self.kind, life.last), life.name) if life else None

    def _life(self, name: str) -> Lifetime | None:
        return self.lifetimes.find(name.partition(".")[0]) if self.lifetimes else None

    def _from_beginning(self, written: str, spelled: str) -> Named | None:
        """The beginning of one flag alone stands for it, as Python's parser reads it."""
        if find_grammar(self.kind).words != _ARGPARSE or self._life(spelled) is not None:
            return None
        begun = {
            id(option): (name, option)
            for option in self.catalogue.options
            for name in option.names
            if name.startswith(spelled) and spelled.startswith("--") and len(spelled) > 3
        }
        if len(begun) != 1:
            return None
        ((flag, option),) = begun.values()
        return Named(
            written=written,
            flag=flag,
            option=option,
            sentence=f"{written} is the beginning of {flag} alone, and so the parser reads it",
            source=find_grammar(self.kind).source,
        )

    def _from_field(self, written: str, spelled: str) -> Named | None:
        names = load_field_names(self.kind)
        found = names.find(spelled) if names else None
        option = find_option(self.catalogue, found[0]) if found else None
        if names is None or found is None or option is None:
            return None
        flag, first, last = found
        return Named(
            written=written,
            flag=flag,
            option=option,
            sentence=f"{spelled.lstrip('-').replace('-', '_')} is the name of a field in the "
            f"engine's own code; its parsers call it {flag} ({first} to {last})",
            source=names.source,
        )

    def _from_rename(self, written: str, spelled: str) -> Named | None:
        for rename in self.lifetimes.renamed_to(spelled) if self.lifetimes else ():
            option = find_option(self.catalogue, rename.new)
            if option is not None and rename.new.startswith("--"):
                return Named(
                    written=written,
                    flag=rename.new,
                    option=option,
                    sentence=f"{spelled} is called {rename.new} since {rename.release}",
                    source=rename.source,
                )
        return None

    def _explain(self, spelled: str) -> str:
        life = self._life(spelled)
        if life is not None:
            spans = ", ".join(
                first if first == last else f"{first} to {last}" for first, last in life.spans
            )
            renames = self.lifetimes.renamed_to(spelled) if self.lifetimes else ()
            instead = f"; the engine says: use {renames[0].new}" if renames else ""
            return f"{self.release} has no {spelled}: it was there in {spans}{instead}"
        others = [kind for kind in known_kinds() if kind != self.kind and _has(kind, spelled)]
        if others:
            return f"it is a flag of {' and '.join(others)}, and of no release of {self.kind}"
        return f"{_UNHEARD} {spelled}"


@lru_cache(maxsize=8192)
def _resolve(kind: str, release: str, written: str) -> Named:
    """Remembered, since a note repeats its flags."""
    return open_book(kind, release).find(written)


@lru_cache(maxsize=1024)
def _nearest(kind: str, release: str, spelled: str) -> str | None:
    lifetimes = open_book(kind, release).lifetimes
    return lifetimes.nearest(spelled, release) if lifetimes else None


def _has(kind: str, spelled: str) -> bool:
    return find_option(open_book(kind).catalogue, spelled) is not None


def find_option(catalogue: FlagCatalogue, spelled: str) -> Option | None:
    """The option that is spelled exactly so, dashes and all."""
    return next((option for option in catalogue.options if spelled in option.names), None)


@cache
def open_book(kind: str, release: str = "") -> FlagBook:
    """The flags of a release; of the newest that is known where none is named.

    Raises UsageError for an engine or a release that nobody described.
    """
    if kind in lifetime_kinds():
        lifetimes = load_lifetimes(kind)
        known = lifetimes.release_of(release) if release else lifetimes.releases[-1]
        if known is None:
            raise UsageError(
                f"no release of {kind} is known that is as old as {release}",
                f"known are {lifetimes.releases[0]} to {lifetimes.releases[-1]}",
            )
        catalogue = load_catalogue(kind, known)
        return FlagBook(kind=kind, release=known, catalogue=catalogue, lifetimes=lifetimes)
    if kind not in engine_kinds():
        raise UsageError(
            f"there is no engine named {kind}", f"there are: {', '.join(known_kinds())}"
        )
    table = load_engine_table(kind)
    build = table.catalogue.build
    return FlagBook(kind=kind, release=build, catalogue=table.catalogue, lifetimes=None)


def known_kinds() -> tuple[str, ...]:
    """The engines whose servers are recognised and whose flags are known, sorted."""
    kinds = {form.kind for form in load_servers().form}
    return tuple(sorted(kinds & {*lifetime_kinds(), *engine_kinds()}))
