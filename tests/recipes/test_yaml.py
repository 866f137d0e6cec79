"""YAML of strangers: what is read, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.recipes.yaml import MAX_DEPTH, UnreadableYaml, read_yaml


def test_numbers_with_a_fraction_and_dates_stay_as_they_are_written() -> None:
    text = "a: 0.10\nb: 2026-01-02\nc: 7\nd: 007\ne: true\nf: ~\ng: '7'\nh: yes\ni: 1e3"
    assert read_yaml(text) == {
        "a": "0.10",
        "b": "2026-01-02",
        "c": 7,
        "d": "007",
        "e": True,
        "f": None,
        "g": "7",
        "h": "yes",
        "i": "1e3",
    }


def test_an_alias_stands_for_its_value() -> None:
    assert read_yaml("a: &x {b: [1, 2]}\nc: *x") == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}


def test_an_alias_that_grows_is_refused_within_moments() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for level in range(1, 30):
        inner = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{inner}]")
    with pytest.raises(UnreadableYaml, match="values, aliases counted in full"):
        read_yaml("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: *nowhere", "repeats nothing"),
        ("a: &x [*x]", "repeats nothing"),
        ("a: !!python/object/apply:os.system ['true']", "a tag"),
        ("a: !!binary aGk=", "a tag"),
        ("a: 1\na: 2", "twice"),
        ("a: [", "not YAML"),
        ("a: 1\n---\nb: 2", "second document"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested"),
        ("? [a, b]\n: c", "a key"),
        ("a: " + "x" * (3 << 20), "bytes"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_is_refused_says_why(text: str, sentence: str) -> None:
    with pytest.raises(UnreadableYaml) as caught:
        read_yaml(text)
    assert sentence in caught.value.sentence


def test_a_refusal_knows_its_place() -> None:
    with pytest.raises(UnreadableYaml) as caught:
        read_yaml("a: 1\nb: [1, 2\nc: 3\n")
    assert caught.value.place.startswith("line ")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UnreadableYaml):
        read_yaml(text)
