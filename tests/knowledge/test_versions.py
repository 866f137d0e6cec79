"""Versions of engines, however they number themselves."""

from __future__ import annotations

import pytest

from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.23", (0, 5, 23)),
        ("b11549", (11549,)),
        ("v0.32.0+cpu", (0, 32, 0)),
        ("0.6.0rc1", (0, 6, 0)),
        (" 3.11.7 ", (3, 11, 7)),
    ],
)
def test_the_leading_numbers_count(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "unknown", "abc1", ".5"])
def test_no_numbers_no_version(text: str) -> None:
    assert parse_version(text) is None


@pytest.mark.parametrize(
    ("text", "clauses", "expected"),
    [
        ("0.5.10", ">=0.5.9", True),
        ("0.5", "==0.5.0", True),
        ("0.5.1", "!=0.5", True),
        ("b11549", ">b10068, <=b11549", True),
        ("0.6.0", "<0.6", False),
    ],
)
def test_ranges(text: str, clauses: str, expected: bool) -> None:
    version, version_range = parse_version(text), parse_version_range(clauses)
    assert version is not None
    assert version_range is not None
    assert version_is_in(version, version_range) is expected


@pytest.mark.parametrize("text", ["", "0.5", "~=0.5", ">=0.5,", ">= x"])
def test_other_ranges_are_refused(text: str) -> None:
    assert parse_version_range(text) is None


@pytest.mark.parametrize("text", ["9" * 5000, "1." + "9" * 41, "v1.2." + "0" * 5000])
def test_numbers_without_end_are_no_version(text: str) -> None:
    assert parse_version(text) is None
    assert parse_version_range(f">={text}") is None
