"""How a running model server is recognised by its argument vector, and how its flags are read.

Called by the commands that look at processes, and by :mod:`stoker.planning`. Names of programs
and flags stand in ``data/servers.toml``; here is only how a command line is taken apart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

#: Options of Python that take a value (python(1)); behind -c and -m all words are the program's.
_PYTHON_VALUES = "WX"
_PYTHON_LONG_VALUE = "--check-hash-based-pycs"
#: A launcher whose first line would be too long lies beside a shell script under this suffix.
_SCRIPT_SUFFIX = ".py"
_WORDS = ("one", "argparse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way in which a server of an engine is started; exactly one of program and module."""

    kind: str
    title: str
    program: str = ""
    module: str = ""
    verb: str = ""
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """A module whose child is the server that one means."""

    module: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How an engine reads its flags; the data file explains each field."""

    words: str = "argparse"
    parts: bool = False
    repeatable: tuple[str, ...] = ()
    two: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    path_lists: tuple[str, ...] = ()
    scaled_paths: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    positional: str = ""
    keys: tuple[str, ...] = ()
    key_separator: str = ""
    key_file: str = ""
    key_entry: str = ""
    key_variable: str = ""
    truths: tuple[str, ...] = ()
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A row of an engine's table that Stoker may set where a server that it takes over does not."""

    id: str
    reason: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """All of ``data/servers.toml``."""

    interpreters: str
    form: tuple[Form, ...]
    keeper: tuple[Keeper, ...]
    grammar: Mapping[str, Grammar]
    addition: tuple[Addition, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A command line taken apart.

    ``interpreter`` is empty for a program that runs by itself. ``program`` is the executable or
    the script as it was named, empty where ``module`` is run; ``words`` is what stands behind.
    """

    interpreter: str
    program: str
    module: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A command line that starts a server: of which engine, how, and with which flags."""

    kind: str
    title: str
    started: Started
    flags: tuple[str, ...]


@cache
def load_servers() -> Servers:
    """The data file. Raises DataError."""
    where = "servers.toml"
    found = structure(Servers, read_toml(where), where=where)
    rows = (found.form, found.keeper, found.addition, tuple(found.grammar.values()))
    for source in (row.source for group in rows for row in group):
        check_source(source, where=where)
    for form in found.form:
        if bool(form.program) == bool(form.module):
            raise DataError(f"{where}: a form of {form.kind} has a program or a module")
    for kind, grammar in found.grammar.items():
        if grammar.words not in _WORDS:
            raise DataError(f"{where}: {kind} reads words as {' or '.join(_WORDS)}")
    return found


def find_grammar(kind: str) -> Grammar:
    """How an engine reads its flags; Python's way for one that nobody described."""
    unknown = Source(kind="inferred", where="most servers are Python programs", date="2026-11-30")
    return load_servers().grammar.get(kind, Grammar(source=unknown))


def recognise_server(argv: Sequence[str]) -> Server | None:
    """Which server this command line starts; None for anything else."""
    started = take_apart(argv)
    for form in load_servers().form:
        if _fits(form, started):
            words = started.words[1:] if form.verb else started.words
            return Server(kind=form.kind, title=form.title, started=started, flags=words)
    return None


def is_keeper(argv: Sequence[str]) -> bool:
    """Whether this is a program whose child is the server that one means."""
    module = take_apart(argv).module
    return any(row.module == module for row in load_servers().keeper)


def take_apart(argv: Sequence[str]) -> Started:
    """Interpreter, program and words of any command line."""
    first = argv[0] if argv else ""
    if not re.fullmatch(load_servers().interpreters, posixpath.basename(first)):
        return Started(interpreter="", program=first, module="", words=tuple(argv[1:]))
    module, rest = _skip_python_options(argv[1:])
    if module is not None:
        return Started(interpreter=first, program="", module=module, words=tuple(rest))
    program = rest[0] if rest else ""
    return Started(interpreter=first, program=program, module="", words=tuple(rest[1:]))


def _fits(form: Form, started: Started) -> bool:
    if form.verb and form.verb != next(iter(started.words), ""):
        return False
    if form.module:
        return started.module == form.module
    name = posixpath.basename(started.program)
    return form.program in (name, name.removesuffix(_SCRIPT_SUFFIX) if started.interpreter else "")


def _skip_python_options(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The module behind -m if there is one, and the words from the script on, or behind the module.

    What stands behind -c is no script; it is given back as if it were none.
    """
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word.startswith("--"):
            del rest[: word == _PYTHON_LONG_VALUE]
            continue
        option, value = _find_value(word)
        if option in ("c", "m"):
            given = value or (rest.pop(0) if rest else "")
            return (given, rest) if option == "m" else (None, ["", *rest])
        if option and not value:
            del rest[:1]
    return None, rest


def _find_value(word: str) -> tuple[str, str]:
    """The option of a cluster (``-um``) that takes a value, and the value that sticks to it."""
    for place, letter in enumerate(word[1:], 1):
        if letter in f"cm{_PYTHON_VALUES}":
            return letter, word[place + 1 :]
    return "", ""
