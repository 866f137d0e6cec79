"""Engine tables, environments and pinned packages, from our data files.

Called by the command layer, which hands the tables to the adapters: those know no policy. A new
engine, a new build or a new package is a file or a row under ``data``; nothing here names one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from stoker.errors import DataError, UsageError
from stoker.knowledge.datafiles import (
    check_source,
    list_data,
    read_json,
    read_modules,
    read_text,
    read_toml,
)
from stoker.knowledge.lifetimes import order_releases
from stoker.knowledge.servers import find_grammar
from stoker.knowledge.structure import structure
from stoker.model.engine_log import ArgumentsRow, EngineLog, NoteRow, ResolvedRow, ValueKind
from stoker.model.engine_table import (
    EngineTable,
    EngineVariable,
    EnvironmentRecipe,
    FlagCatalogue,
    ModelPackage,
    Requirement,
    ReservedFlag,
    SettingRow,
)
from stoker.model.facts import Plain

_PHASES = (
    *("starting", "loading-weights", "allocating", "capturing"),
    *("warming-up", "listening", "failed"),
)
_KINDS = ("flag", "positional", "env")
_COMBINE = ("last", "first", "sum")
_UNITS = ("", "bytes", "tokens", "seconds", "count")
_ACROSS = ("first", "least", "most")
_VALUES_FILE = "resolved.toml"
_VARIABLES = "variables"
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_PLACEHOLDER = re.compile(r"@(?:build|version:([A-Za-z0-9._-]+))@")


def engine_kinds() -> tuple[str, ...]:
    """The engines that there is a table for, sorted."""
    return list_data("engines", ".toml")


@cache
def load_engine_table(kind: str) -> EngineTable:
    """What is known about an engine. Raises UsageError for one that nobody described."""
    if kind not in engine_kinds():
        known = ", ".join(engine_kinds())
        raise UsageError(f"there is no engine named {kind}", f"Stoker knows: {known}")
    where = f"engines/{kind}.toml"
    return parse_engine_table(read_toml(where), where=where)


def parse_engine_table(data: Mapping[str, Plain], *, where: str) -> EngineTable:
    """A table from its TOML form, with the environment and catalogue that it names. DataError."""
    kind = str(data.get("kind"))
    rows = structure(tuple[SettingRow, ...], data.get("settings"), where=f"{where}: settings")
    named = {
        "settings": {row.id: row for row in rows},
        "embedded": load_environment(str(data["embedded"])) if "embedded" in data else None,
        "catalogue": load_catalogue(kind, str(data.get("catalogue") or newest_build(kind))),
    }
    log = {**data.get("log", {}), "kinds": load_value_kinds()}
    table = structure(EngineTable, {**data, **named, "log": log}, where=where)
    _check_table(table, rows, where)
    _check_log(table.log, f"{where}: log")
    return table


@cache
def load_value_kinds() -> Mapping[str, ValueKind]:
    """All things that an engine may say it has decided, by our name. Raises DataError."""
    kinds = structure(dict[str, ValueKind], read_toml(_VALUES_FILE), where=_VALUES_FILE)
    for name, kind in kinds.items():
        if kind.unit not in _UNITS or kind.across not in _ACROSS:
            raise DataError(f"{_VALUES_FILE}: {name}: its unit or its choice is none that we know")
    return kinds


def newest_build(kind: str) -> str:
    """The newest build whose flags are known. Raises DataError for an engine without any."""
    builds = order_releases(list_data(f"flags/{kind}", ".json"))
    if not builds:
        raise DataError(f"there is no catalogue of the flags of {kind}")
    return builds[-1]


@cache
def load_catalogue(kind: str, build: str) -> FlagCatalogue:
    """All flags of one build of an engine. Raises DataError."""
    where = f"flags/{kind}/{build}.json"
    rows = {key: rows for key, rows in read_json(where).items() if key != _VARIABLES}
    grammar = find_grammar(kind)
    rows |= {"has_parts": grammar.parts, "completes": grammar.words == "argparse"}
    catalogue = structure(FlagCatalogue, rows, where=where)
    check_source(catalogue.source, where=where)
    if (catalogue.engine, catalogue.build) != (kind, build):
        raise DataError(f"{where}: describes {catalogue.engine} {catalogue.build}")
    return _with_key_variable(catalogue)


def _with_key_variable(catalogue: FlagCatalogue) -> FlagCatalogue:
    """The catalogue with the variable that the server, and not its parser, reads for the key."""
    grammar = find_grammar(catalogue.engine)
    if not grammar.key_variable:
        return catalogue
    options = (
        replace(option, env=grammar.key_variable)
        if option.env is None and set(grammar.keys) & set(option.names)
        else option
        for option in catalogue.options
    )
    return replace(catalogue, options=tuple(options))


@cache
def load_variables(kind: str, build: str) -> Mapping[str, EngineVariable]:
    """The environment variables that one build of an engine declares, by name. Raises DataError.

    They stand in the file of its flags; empty for an engine whose variables were not read.
    """
    where = f"flags/{kind}/{build}.json"
    rows = read_json(where).get(_VARIABLES, ())
    variables = structure(tuple[EngineVariable, ...], rows, where=f"{where}: {_VARIABLES}")
    return {variable.name: variable for variable in variables}


@cache
def load_environment(name: str) -> EnvironmentRecipe:
    """The recipe of an environment, its launchers' texts complete. Raises DataError."""
    where = f"environments/{name}.toml"
    return parse_environment(read_toml(where), where=where)


def find_environment(name: str) -> EnvironmentRecipe | None:
    """The recipe of this name, or None: a manager that the machine brings needs none of ours."""
    known = list_data("environments", ".toml")
    return load_environment(name) if name in known else None


def parse_environment(data: Mapping[str, Plain], *, where: str) -> EnvironmentRecipe:
    """A recipe from its TOML form, where launchers and modules are names. Raises DataError."""
    modules = read_modules(data.get("modules", ()))
    recipe = structure(EnvironmentRecipe, {**data, "modules": modules}, where=where)
    check_source(recipe.source, where=where)
    for requirement in recipe.requirements:
        _check_requirement(requirement, where)
    launchers = {
        command: _fill_launcher(file, recipe, where) for command, file in recipe.launchers.items()
    }
    return replace(recipe, launchers=launchers)


@cache
def load_model_packages() -> Mapping[str, ModelPackage]:
    """The pinned packages that ship a model, by name. Raises DataError."""
    where = "packages.toml"
    rows = read_toml(where).get("package")
    packages = structure(dict[str, ModelPackage], rows, where=where)
    for name, package in packages.items():
        check_source(package.source, where=f"{where}: {name}")
        _check_requirement(package.requirement, f"{where}: {name}")
        if package.requirement.name != name or not _SHA256.match(package.member_sha256):
            raise DataError(f"{where}: {name}: the name or the file's digest is wrong")
    return packages


def _fill_launcher(file: str, recipe: EnvironmentRecipe, where: str) -> str:
    """The program's text with ``@build@`` and ``@version:NAME@`` replaced from the recipe."""
    versions: Mapping[str | None, str] = {
        None: recipe.build,
        **{requirement.name: requirement.version for requirement in recipe.requirements},
    }

    def fill(found: re.Match[str]) -> str:
        if found[1] not in versions:
            raise DataError(f"{where}: {file} names {found[0]}, which the recipe does not pin")
        return versions[found[1]]

    return _PLACEHOLDER.sub(fill, read_text(f"launchers/{file}"))


def _check_requirement(requirement: Requirement, where: str) -> None:
    digests = requirement.sha256
    if not digests or not all(_SHA256.match(digest) for digest in digests):
        raise DataError(f"{where}: {requirement.name} needs SHA-256 digests in hexadecimal")


def _check_table(table: EngineTable, rows: Sequence[SettingRow], where: str) -> None:
    if len(table.settings) != len(rows):
        raise DataError(f"{where}: two settings have the same id")
    for row in rows:
        check_source(row.source, where=f"{where}: {row.id}")
        if row.kind not in _KINDS or not row.reason:
            kinds = ", ".join(_KINDS)
            raise DataError(f"{where}: {row.id}: a setting is one of {kinds}, and has a reason")
    named: list[SettingRow | ReservedFlag] = [row for row in rows if row.kind != "env"]
    for each in (*named, *table.reserved):
        if not any(table.catalogue.find(name) for name in (each.flag, *each.also)):
            raise DataError(f"{where}: {each.flag} is not in the catalogue {table.catalogue.build}")


def _check_log(log: EngineLog, where: str) -> None:
    for phase in log.phases:
        if phase.phase not in _PHASES or not _matches(phase.pattern, phase.example, where):
            raise DataError(f"{where}: the phase {phase.title!r} does not match its own example")
    rows: tuple[ResolvedRow | ArgumentsRow | NoteRow, ...] = log.resolved
    for row in (*rows, *log.arguments, *log.notes):
        check_source(row.source, where=f"{where}: {row.example!r}")
        if not _matches(row.pattern, row.example, where):
            raise DataError(f"{where}: {row.pattern!r} does not match its own example")
    for answer in log.answers:
        check_source(answer.source, where=f"{where}: {answer.path}")
    if unknown := sorted(_named_values(log) - set(log.kinds)):
        raise DataError(f"{where}: {', '.join(unknown)} is no value of {_VALUES_FILE}")
    if wrong := {row.combine for row in log.resolved} - set(_COMBINE):
        raise DataError(f"{where}: lines are combined by {', '.join(_COMBINE)}, not by {wrong}")
    _matches(log.begin, "", where)
    _matches(log.rank, "", where)


def _named_values(log: EngineLog) -> set[str]:
    """All values that the rows speak of."""
    rows = log.resolved
    found = (name for row in rows for name in re.compile(row.pattern).groupindex)
    groups = {name.partition("__")[0] for name in found}
    given = {name for row in rows for name in (*row.units, *row.sets)}
    given |= {name for row in log.answers for name in row.units}
    given |= {name for row in log.arguments for name in row.values.values()}
    return groups | given | {name for row in log.answers for name in row.values}


def _matches(pattern: str, example: Plain, where: str) -> bool:
    try:
        return re.search(pattern, example) is not None
    except re.error as error:
        raise DataError(f"{where}: {pattern!r} is not a pattern: {error}") from error
