"""What an engine's environment is made of: which distribution is what, and whose version counts.

Called where the engine that is really there is looked for, and by
:mod:`stoker.knowledge.derived.stack`. The names stand in ``data/stack.toml``. Pure but for the
cached loader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_text, read_toml
from stoker.knowledge.structure import structure
from stoker.model.facts import Facts, Plain, Unknown
from stoker.model.finding import Source

#: The program that reads a parser inside of an engine's environment.
_READER = "readers/python_parser.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """The distributions that bring one thing; of several the first that is there counts."""

    distributions: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserRow:
    """Where an engine's own parser is made; :data:`_READER` explains the fields."""

    root: str
    make: tuple[str, ...]
    fill: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """How an installed engine tells its version and its flags.

    ``version_pattern`` finds in what it answers to ``--version`` the number that ``version`` makes
    a build of. ``help`` are the words to which it answers with all of its flags. ``cpu_env``: with
    these variables a build for the CPU can be imported where there is no GPU.
    """

    distributions: tuple[str, ...] = ()
    version_pattern: str = ""
    version: str = "{}"
    cpu_env: Mapping[str, str] = field(default_factory=dict)
    parser: ParserRow | None = None
    help: tuple[str, ...] = ()
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """All of ``data/stack.toml``."""

    component: Mapping[str, Component] = field(default_factory=dict)
    engine: Mapping[str, EngineRow] = field(default_factory=dict)


@cache
def load_stacks() -> Stacks:
    """The data file. Raises DataError."""
    where = "stack.toml"
    found = structure(Stacks, read_toml(where), where=where)
    rows: dict[str, Component | EngineRow] = {**found.component, **found.engine}
    for name, row in rows.items():
        check_source(row.source, where=f"{where}: {name}")
    for name, engine in found.engine.items():
        if engine.parser is not None:
            check_source(engine.parser.source, where=f"{where}: {name}.parser")
        try:
            re.compile(engine.version_pattern)
        except re.error as error:
            raise DataError(f"{where}: {name}: no pattern: {error}") from error
    return found


@cache
def load_reader() -> str:
    """The text of the program that reads an engine's parser. Raises DataError."""
    return read_text(_READER)


def find_engine_row(kind: str) -> EngineRow | None:
    """How this engine is asked; None where nobody wrote it down."""
    return load_stacks().engine.get(kind)


def find_build(kind: str, facts: Facts) -> str | Unknown:
    """The version of the engine that is installed, as its distribution or it itself tells it."""
    row = find_engine_row(kind)
    if row is None:
        return Unknown(reason=f"nobody wrote down how {kind} tells its version")
    if row.distributions:
        return find_distribution(row.distributions, facts)
    told = facts.read("engine.version_text")
    if isinstance(told, Unknown):
        return told
    found = re.search(row.version_pattern, str(told), re.MULTILINE) if row.version_pattern else None
    if found is None:
        return Unknown(reason="the engine does not tell its version")
    return row.version.replace("{}", found[1])


def find_distribution(names: Sequence[str], facts: Facts) -> str | Unknown:
    """The version of the first of these distributions that the engine's environment has."""
    packages = facts.read("engine_packages")
    if isinstance(packages, Unknown):
        return packages
    if packages.get("state") != "read":
        return Unknown(reason="the engine has no Python environment that could be read")
    doubled: Mapping[str, Plain] = packages["doubled"]
    for name in names:
        if name in doubled:
            versions = " and ".join(doubled[name])
            return Unknown(reason=f"the environment says that {name} is {versions}")
        if name in packages["packages"]:
            return str(packages["packages"][name])
    return Unknown(reason=f"{packages['prefix']} has no distribution named {' or '.join(names)}")
