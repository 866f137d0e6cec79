"""What became of a flag: spans of releases, new names, and the nearest spelling."""

from __future__ import annotations

import pytest

from stoker.errors import DataError
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.lifetimes import (
    Lifetimes,
    Rename,
    lifetime_kinds,
    load_lifetimes,
    match_release,
    order_releases,
)
from stoker.model.finding import Source

SOURCE = Source(kind="documented", where="the parser", version="1.1")
LIFETIMES = Lifetimes(
    engine="it",
    releases=("1.0", "1.0.post1", "1.1", "1.2"),
    flags={
        "--cache-size": ("1.0", "1.0.post1", "1.2", "1.2"),
        "--context-length": ("1.0", "1.2"),
        "--new": ("1.1", "1.2"),
        "-c": ("1.0", "1.2"),
    },
    renames=(
        Rename(old="--cache-size", new="--room", release="1.0", source=SOURCE),
        Rename(old="--other", new="--new", release="1.1", source=SOURCE),
        Rename(old="--cache-size", new="--new=1", release="1.1", source=SOURCE),
    ),
)


def test_releases_stand_in_their_order() -> None:
    releases = ["0.5.10", "0.5.8.post1", "0.5.9", "0.5.8", "0.5.8.post10", "0.5.8.post2"]
    assert order_releases(releases) == (
        *("0.5.8", "0.5.8.post1", "0.5.8.post2", "0.5.8.post10"),
        *("0.5.9", "0.5.10"),
    )


@pytest.mark.parametrize("name", ["--cache-size", "cache-size", "cache_size", "--cache_size"])
def test_a_flag_that_came_back(name: str) -> None:
    found = LIFETIMES.find(name)
    assert found is not None
    assert (found.name, found.first, found.last) == ("--cache-size", "1.0", "1.2")
    assert found.spans == (("1.0", "1.0.post1"), ("1.2", "1.2"))
    assert [LIFETIMES.has(name, release) for release in LIFETIMES.releases] == [
        *(True, True, False, True),
    ]


def test_a_flag_or_release_that_nobody_knows() -> None:
    assert LIFETIMES.find("--nope") is None
    assert LIFETIMES.has("--nope", "1.1") is False
    assert LIFETIMES.has("--new", "9.9") is None


def test_the_newest_word_about_a_name_comes_first() -> None:
    assert [rename.new for rename in LIFETIMES.renamed_to("cache_size")] == ["--new=1", "--room"]
    assert [rename.new for rename in LIFETIMES.renamed_to("--new")] == []


def test_the_nearest_spelling() -> None:
    assert LIFETIMES.nearest("contxt_length") == "--context-length"
    assert LIFETIMES.nearest("cache-sizes", "1.0") == "--cache-size"
    assert LIFETIMES.nearest("cache-sizes", "1.1") is None
    assert LIFETIMES.nearest("xyzzy") is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0", "1.0"),
        ("1.0.post1", "1.0.post1"),
        ("1.0.7", "1.0.post1"),
        ("1.1+cu130", "1.1"),
        ("7.0", "1.2"),
        ("0.9", None),
        ("main", None),
    ],
)
def test_the_release_that_describes_a_version(version: str, expected: str | None) -> None:
    assert LIFETIMES.release_of(version) == expected


def test_what_the_engines_say() -> None:
    sglang = load_lifetimes("sglang")
    found = sglang.find("cuda-graph-max-bs")
    assert found is not None
    assert (found.first, found.last) == ("0.5.6", "0.5.19")
    (rename,) = sglang.renamed_to("cuda_graph_max_bs")
    assert (rename.new, rename.release) == ("--cuda-graph-max-bs-decode", "0.5.14")
    assert sglang.nearest("--mem-fraction-statik") == "--mem-fraction-static"
    vllm = load_lifetimes("vllm")
    task = vllm.find("task")
    assert task is not None
    assert (task.first, task.last) == ("0.11.0", "0.12.0")


def test_lifetimes_need_no_catalogue() -> None:
    load_catalogue.cache_clear()
    load_lifetimes.cache_clear()
    for kind in lifetime_kinds():
        load_lifetimes(kind)
    assert load_catalogue.cache_info().misses == 0


def test_an_engine_without_releases() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_lifetimes("llamacpp")


@pytest.mark.parametrize(
    ("written", "release"),
    [
        ("1.1", "1.1"),
        ("v1.1", "1.1"),
        ("1.1.0", "1.1"),
        ("1", "1.0"),
        ("1.0.post1", "1.0.post1"),
        ("1.1+cu130", "1.1"),
        ("1.1rc1", None),
        ("1.1.dev3", None),
        ("1.3", None),
        ("", None),
        ("9" * 5000, None),
        ("1.0.post" + "9" * 5000, None),
    ],
)
def test_the_release_that_a_person_means(written: str, release: str | None) -> None:
    assert match_release(written, LIFETIMES.releases) == release
    LIFETIMES.release_of(written)
