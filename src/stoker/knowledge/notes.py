"""How engine commands are dressed up in what people write, and what of them needs consent.

Called by :mod:`stoker.recipes.notes`. The rows stand in ``data/notes.toml``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A program that runs another one; the data file explains each field."""

    program: str
    verb: str = ""
    values: tuple[str, ...] = ()
    positionals: int = 0
    assignments: bool = False
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Programs that run a text of commands, which stands behind ``option``."""

    programs: tuple[str, ...]
    option: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Programs that run an image, and what their options mean. ``told``: what a person is told."""

    programs: tuple[str, ...]
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    env_file: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image of an engine. ``release`` finds the engine's release in a tag."""

    pattern: str
    kind: str
    entrypoint: tuple[str, ...]
    release: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorthand:
    """A word that an engine's parser makes a flag of; the pattern's first group is the value."""

    kind: str
    pattern: str
    flag: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChoice:
    """What chooses GPUs: variables, and resources of a manifest.

    ``sizes``: flags whose product is how many GPUs a command uses.
    """

    variables: tuple[str, ...]
    resource: tuple[str, ...]
    sizes: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What is withheld until its owner names it: flags, variables, or values that look so."""

    id: str
    reason: str
    flags: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    values: str = ""
    source: Source

    def covers(self, name: str, kind: str, value: str) -> bool:
        """Whether a setting needs it. ``name`` without dashes; ``kind`` is flag or env."""
        if self.values and re.search(self.values, value):
            return True
        if kind == "flag":
            return name.replace("_", "-") in self.flags
        begins = bool(self.prefixes) and name.startswith(self.prefixes)
        ends = bool(self.suffixes) and name.endswith(self.suffixes)
        return begins or ends or name in self.variables


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPage:
    """A page for people, as a pattern for its address, and where the text lies by itself."""

    page: str
    raw: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteForms:
    """All of ``data/notes.toml``."""

    mentioning: tuple[str, ...]
    wrapper: tuple[Wrapper, ...]
    shell: tuple[Shell, ...]
    container: tuple[Container, ...]
    image: tuple[Image, ...]
    shorthand: tuple[Shorthand, ...]
    gpus: GpuChoice
    consent: tuple[Consent, ...]
    raw: tuple[RawPage, ...]

    def find_image(self, name: str) -> Image | None:
        """The row of an image, whatever its tag or digest; None for one that nobody described."""
        bare = split_image(name)[0]
        return next((row for row in self.image if re.search(row.pattern, bare)), None)

    def find_raw(self, url: str) -> str:
        """The address of the text that a page shows; the address itself where that is not known."""
        for row in self.raw:
            if found := re.fullmatch(row.page, url):
                return found.expand(row.raw)
        return url

    def needs_consent(self, name: str, kind: str, value: str) -> Consent | None:
        """The first row that covers a setting."""
        return next((row for row in self.consent if row.covers(name, kind, value)), None)


def split_image(name: str) -> tuple[str, str]:
    """An image's name and its tag, empty for none; a digest is left out."""
    bare = name.partition("@")[0]
    head, _, last = bare.rpartition("/")
    name_alone, _, tag = last.partition(":")
    return f"{head}/{name_alone}" if head else name_alone, tag


@cache
def load_note_forms() -> NoteForms:
    """The data file. Raises DataError."""
    where = "notes.toml"
    found = structure(NoteForms, read_toml(where), where=where)
    rows = (
        found.wrapper,
        found.shell,
        found.container,
        found.image,
        found.shorthand,
        found.consent,
    )
    pages = [row.source for row in found.raw]
    for source in (found.gpus.source, *pages, *(row.source for group in rows for row in group)):
        check_source(source, where=where)
    patterns = [*(each.pattern for each in found.image), *(each.page for each in found.raw)]
    patterns += [each.pattern for each in found.shorthand]
    for pattern in (*patterns, *(each.values for each in found.consent)):
        try:
            re.compile(pattern)
        except re.error as error:
            raise DataError(f"{where}: {pattern!r} is not a pattern: {error}") from error
    return found
