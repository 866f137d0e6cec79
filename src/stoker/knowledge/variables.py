"""Which environment variables matter for a model server, whose they are, and which are secret.

Called by :mod:`stoker.planning` and the commands that look at processes. The names stand in
``data/variables.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.deployment_fields import is_secret_name
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Some variables, by how their names begin or as a whole.

    ``paths``: their values are paths with colons between.
    """

    prefixes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: bool = False
    reason: str
    source: Source

    def have(self, name: str) -> bool:
        """Whether the variable is one of these."""
        return name in self.names or (bool(self.prefixes) and name.startswith(self.prefixes))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPattern:
    """What a secret looks like, as a regular expression that is searched in a value."""

    pattern: str
    reason: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """How secrets are told: by words of a name, or by what they look like.

    ``endings``: of the last word of a name that no engine chose.
    """

    words: tuple[str, ...]
    pointers: tuple[str, ...]
    endings: tuple[str, ...]
    pattern: tuple[SecretPattern, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """All of ``data/variables.toml``."""

    read: tuple[Names, ...]
    own: tuple[Names, ...]
    usual: tuple[Names, ...]
    secrets: Secrets

    def matters(self, name: str) -> bool:
        """Whether an engine or a library under it reads the variable."""
        return _have(self.read, name)

    def is_own(self, name: str) -> bool:
        """Whether a manager, a guard or Stoker put it there."""
        return _have(self.own, name)

    def is_usual(self, name: str) -> bool:
        """Whether every login has it."""
        return _have(self.usual, name)

    def holds_paths(self, name: str) -> bool:
        """Whether its value is paths with colons between."""
        return any(row.paths and row.have(name) for row in self.read)

    def is_secret(self, name: str, value: str) -> bool:
        """Whether the value of a flag or variable must not be shown; an empty one may be."""
        if not value:
            return False
        words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
        named = bool(words) and not self._points(words) and not self._words().isdisjoint(words)
        return named or is_secret_name(name) or self.looks_secret(value)

    def ends_like_secret(self, name: str) -> bool:
        """Whether a name that a stranger chose may be a secret's: ``MYPASS``, ``dbPwd``."""
        words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
        return bool(words) and not self.is_usual(name) and words[-1].endswith(self.secrets.endings)

    def looks_secret(self, value: str) -> bool:
        """Whether a value looks like a secret, whatever its name."""
        return any(re.search(row.pattern, value) for row in self.secrets.pattern)

    def _points(self, words: Sequence[str]) -> bool:
        return words[-1] in self.secrets.pointers

    def _words(self) -> frozenset[str]:
        return frozenset(self.secrets.words)


@cache
def load_variables() -> Variables:
    """The data file. Raises DataError."""
    where = "variables.toml"
    found = structure(Variables, read_toml(where), where=where)
    for names in (*found.read, *found.own, *found.usual):
        check_source(names.source, where=where)
    check_source(found.secrets.source, where=where)
    for row in found.secrets.pattern:
        check_source(row.source, where=where)
        _check_pattern(row.pattern, where)
    return found


def _have(rows: Iterable[Names], name: str) -> bool:
    return any(row.have(name) for row in rows)


def _check_pattern(pattern: str, where: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise DataError(f"{where}: {pattern!r} is not a pattern: {error}") from error
