"""Loading tables, recipes and catalogues, and what their loader refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker.errors import DataError, UsageError
from stoker.knowledge.datafiles import (
    check_source,
    list_data,
    parse_toml,
    read_json,
    read_text,
    read_toml,
)
from stoker.knowledge.engines import (
    load_engine_table,
    load_environment,
    parse_engine_table,
    parse_environment,
)
from stoker.knowledge.structure import structure
from stoker.model.finding import Severity, Source


def test_an_engine_that_nobody_described() -> None:
    with pytest.raises(UsageError, match="no engine named nope") as error:
        load_engine_table("nope")
    assert "llamacpp" in error.value.hint


def test_data_files_that_are_not_there() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_text("rules/nope.toml")
    with pytest.raises(DataError, match="cannot be read"):
        load_environment("nope")


def test_data_files_that_are_not_what_they_seem() -> None:
    with pytest.raises(DataError, match="is not TOML"):
        parse_toml("= 1", origin="test")
    with pytest.raises(DataError, match="is not JSON"):
        read_json("packages.toml")


def test_the_launcher_carries_the_versions_of_its_recipe() -> None:
    recipe = load_environment("llamacpp")
    program = recipe.launchers["llama-server"]
    assert f'PACKAGE_VERSION = "{recipe.requirements[0].version}"' in program
    assert f'BUILD = "{recipe.build}"' in program


def test_flags_are_found_by_every_spelling() -> None:
    catalogue = load_engine_table("llamacpp").catalogue
    spellings = ["c", "-c", "ctx-size", "--ctx-size", "ctx_size"]
    assert {option.names for name in spellings if (option := catalogue.find(name))} == {
        ("-c", "--ctx-size")
    }
    assert catalogue.find("ctx") is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data["settings"][0].update(flag="--nope"), "--nope is not in the catalogue"),
        (lambda data: data["settings"][0].update(id="port"), "the same id"),
        (lambda data: data["settings"][0].update(kind="file"), "is one of flag"),
        (lambda data: data["settings"][0].update(reason=""), "has a reason"),
        (lambda data: data["settings"][0]["source"].pop("version"), "version or a date"),
        (lambda data: data["log"]["phases"][0].update(example="x"), "its own example"),
        (lambda data: data["log"]["phases"][0].update(phase="dancing"), "its own example"),
        (lambda data: data["log"]["phases"][0].update(pattern="("), "not a pattern"),
        (lambda data: data["reserved"][0].update(flag="--nope"), "--nope is not in the catalogue"),
        (lambda data: data.update(catalogue="b1"), "cannot be read"),
        (lambda data: data.pop("settings"), "settings: expected a list"),
        (lambda data: data.update(colour=1), "unknown key colour"),
    ],
)
def test_a_malformed_table_is_refused(
    change: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    data = read_toml("engines/llamacpp.toml")
    change(data)
    with pytest.raises(DataError) as error:
        parse_engine_table(data, where="test")
    assert complaint in error.value.summary


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data["requirements"][0].update(sha256=["12"]), "SHA-256"),
        (lambda data: data["requirements"][0].update(sha256=[]), "SHA-256"),
        (lambda data: data["requirements"][0].update(name="other"), "does not pin"),
        (lambda data: data["source"].pop("date"), "needs its date"),
    ],
)
def test_a_malformed_recipe_is_refused(
    change: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    data = read_toml("environments/llamacpp.toml")
    change(data)
    with pytest.raises(DataError) as error:
        parse_environment(data, where="test")
    assert complaint in error.value.summary


def test_a_source_says_where() -> None:
    with pytest.raises(DataError, match="does not say where"):
        check_source(Source(kind="inferred", where=""), where="test")


@pytest.mark.parametrize("kind", ["observed", "documented", "inferred"])
def test_a_source_says_when(kind: str) -> None:
    with pytest.raises(DataError, match="needs"):
        check_source(Source(kind=kind, where="here"), where="test")
    check_source(Source(kind=kind, where="here", date="2026-11-30"), where="test")


def test_lists_of_data_are_sorted() -> None:
    assert list_data("environments", ".toml") == ("guard", "llamacpp", "openai", "supervisord")


# Structure: strict about keys and types


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    word: Severity = Severity.NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    count: int | None = None
    parts: tuple[Inner, ...] = ()
    named: dict[str, Inner] = field(default_factory=dict)


def test_data_becomes_values() -> None:
    data = {"name": "a", "count": 3, "parts": [{"word": "block"}], "named": {"x": {}}}
    assert structure(Outer, data, where="test") == Outer(
        name="a", count=3, parts=(Inner(word=Severity.BLOCK),), named={"x": Inner()}
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ([], "test: expected a table"),
        ({}, "test: missing key name"),
        ({"name": 1}, "test.name: expected str, found 1"),
        ({"name": "a", "count": True}, "test.count: expected int, found True"),
        ({"name": "a", "count": "1"}, "test.count: expected int"),
        ({"name": "a", "parts": {}}, "test.parts: expected a list"),
        ({"name": "a", "parts": [1]}, "test.parts[0]: expected a table"),
        ({"name": "a", "parts": [{"word": "x"}]}, "test.parts[0].word: expected one of block"),
        ({"name": "a", "named": []}, "test.named: expected a table"),
        ({"name": "a", "other": 1}, "test: unknown key other"),
    ],
)
def test_data_of_another_shape_is_refused(data: Any, complaint: str) -> None:
    with pytest.raises(DataError) as error:
        structure(Outer, data, where="test")
    assert error.value.summary.startswith(complaint)
