"""The table for the release that is there: which catalogue, which names, what a parser told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.errors import DataError
from stoker.knowledge.engines import engine_kinds, load_catalogue, load_engine_table
from stoker.knowledge.releases import (
    compare_catalogues,
    find_release,
    fit_table,
    known_builds,
    load_table_for,
    parse_options,
)
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.finding import Source

SOURCE = Source(kind="observed", where="a parser", date="2026-11-30")
KNOWN = load_catalogue("sglang", "0.5.23")


@pytest.mark.parametrize(
    ("kind", "version", "build", "is_exact"),
    [
        ("sglang", "0.5.9", "0.5.9", True),
        ("sglang", "0.5.8.post1", "0.5.8.post1", True),
        ("sglang", "0.5.9+cu130", "0.5.9", True),
        ("vllm", "0.32.0+cpu", "0.32.0", True),
        ("llamacpp", "b11549", "b11549", True),
        # In the making: what comes before its release.
        ("sglang", "0.5.10.dev12+gabcdef", "0.5.9", False),
        ("sglang", "0.5.10.post1.dev3", "0.5.10.post1", False),
        ("sglang", "0.5.10rc1", "0.5.10", False),
        ("sglang", "0.5.99", "0.5.23", False),
        ("sglang", "0.4.1", "0.5.6", False),
        ("sglang", "0.0.0.dev1+g0123", "0.5.23", False),
        ("sglang", None, "0.5.23", False),
        ("sglang", "main", "0.5.23", False),
        ("llamacpp", "b10068", "b11549", False),
    ],
)
def test_the_nearest_release(kind: str, version: str | None, build: str, is_exact: bool) -> None:
    found = find_release(kind, version)
    assert (found.build, found.is_exact) == (build, is_exact)


@pytest.mark.parametrize(
    ("kind", "build"), [(kind, build) for kind in engine_kinds() for build in known_builds(kind)]
)
def test_every_release_has_the_flags_of_the_table(kind: str, build: str) -> None:
    table = load_table_for(kind, build)
    assert table.catalogue.build == build
    flags = [row.flag for row in table.settings.values() if row.kind != "env"]
    assert [flag for flag in flags if table.catalogue.find(flag) is None] == []


def test_a_row_takes_the_name_that_the_release_has() -> None:
    table = load_engine_table("sglang")
    row = replace(table.settings["metrics"], also=("--old-metrics",))
    table = replace(table, settings={"metrics": row})
    old = FlagCatalogue(
        engine="sglang",
        build="0",
        options=(Option(names=("--old-metrics",), argument=None),),
        source=SOURCE,
    )
    assert fit_table(table, old).settings["metrics"].flag == "--old-metrics"
    assert fit_table(table, KNOWN).settings["metrics"] is row
    neither = replace(old, options=())
    assert fit_table(table, neither).settings["metrics"].flag == "--enable-metrics"


def parse(rows: Any) -> FlagCatalogue:
    return parse_options(rows, KNOWN, version="0.5.23+mine", source=SOURCE)


def test_what_a_parser_tells_becomes_a_catalogue() -> None:
    found = parse(
        [
            {"names": ["--mine"], "argument": "int", "type": "int", "kind": "number"},
            {"names": ["--grpc-mode"], "argument": None, "type": "bool", "deprecated_by": ""},
        ]
    )
    assert found.build == "0.5.23+mine"
    assert found.find("mine") is not None
    # The help text that names the new flag is not read inside of the engine; our catalogue has it.
    old = found.find("grpc-mode")
    assert old is not None
    assert old.deprecated_by == "--smg-grpc-mode"


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        {"names": []},
        [{"names": "--x", "argument": None}],
        [{"names": ["--x"], "argument": 1}],
        [{"names": ["--x"], "argument": None, "run": "rm"}],
        [{"names": ["--x"], "argument": None}] * 5001,
    ],
)
def test_what_a_parser_cannot_have_told_is_refused(rows: Any) -> None:
    with pytest.raises(DataError):
        parse(rows)


def test_differences_between_parsers() -> None:
    def make(**choices: tuple[str, ...]) -> FlagCatalogue:
        options = tuple(
            Option(names=(f"--{name}",), argument="x", kind="choice", choices=values)
            for name, values in choices.items()
        )
        return FlagCatalogue(engine="sglang", build="1", options=options, source=SOURCE)

    differ = compare_catalogues(make(a=("1",), b=("1", "2")), make(b=("2",), c=("1",)))
    assert differ.only_installed == ("--a",)
    assert differ.only_known == ("--c",)
    assert differ.choices == ("--b",)
    same = compare_catalogues(make(b=("1", "2")), make(b=("2", "1")))
    assert (same.only_installed, same.only_known, same.choices) == ((), (), ())


@pytest.mark.parametrize("name", ["--a b", "--\x1b[31m", "--\u202ex", "x", "-", "--" + "x" * 300])
def test_an_option_of_an_odd_name_is_refused(name: str) -> None:
    rows: list[Any] = [{"names": [name], "argument": None, "type": "bool"}]
    with pytest.raises(DataError, match="odd name") as error:
        parse_options(rows, KNOWN, version="0.5.23", source=SOURCE)
    assert error.value.summary.isprintable()
