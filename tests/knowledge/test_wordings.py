"""Since when an engine prints a wording: the data holds, and a release is judged with care."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import DataError
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.signatures import load_signatures
from stoker.knowledge.wordings import load_wordings, parse_wordings, wording_kinds

SIGNATURES = {each.id: each for each in load_signatures()}
DATA: dict[str, Any] = {
    "engine": "sglang",
    "source": {"kind": "documented", "where": "here", "version": "1"},
    "releases": ["0.4.9", "0.5.1", "0.5.2", "0.5.3", "0.5.10"],
    "signatures": {
        "always": {"first": "0.4.9", "last": None},
        "new": {"first": "0.5.2", "last": None},
        "old": {"first": "0.4.9", "last": "0.5.1"},
        "between": {"first": "0.5.1", "last": "0.5.3", "gaps": ["0.5.2"]},
        "once": {"first": "0.5.2", "last": "0.5.2"},
    },
}


@pytest.mark.parametrize("kind", wording_kinds())
def test_the_data_names_signatures_of_its_engine(kind: str) -> None:
    wordings = load_wordings(kind)
    assert kind in engine_kinds()
    assert len(wordings.releases) >= 10
    assert wordings.signatures
    foreign = [
        name
        for name in wordings.signatures
        if name not in SIGNATURES or kind not in SIGNATURES[name].engines
    ]
    assert not foreign
    for name, span in wordings.signatures.items():
        assert set(span.beside) < set(SIGNATURES[name].needles)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("always", ""),
        ("nobody", ""),
        ("new", "0.5.2 and later"),
        ("old", "0.5.1 and before"),
        ("between", "0.5.1 to 0.5.3"),
        ("once", "0.5.2 alone"),
    ],
)
def test_a_span_is_told_in_words(name: str, told: str) -> None:
    assert parse_wordings(DATA, where="here").describe(name) == told


@pytest.mark.parametrize(
    ("name", "version", "outside"),
    [
        ("new", "0.5.1", True),
        ("new", "0.4.0", True),
        ("new", "v0.5.1", True),
        ("new", "0.5.1.post1", False),  # between one that was read and the first that has it
        ("new", "0.5.2", False),
        ("new", "0.5.11", False),
        ("old", "0.5.2", True),
        ("old", "0.5.10+cu130", True),
        ("old", "0.5.1.post2", False),
        ("old", "0.3.0", False),  # nobody read what was before
        ("between", "0.5.2", False),  # a gap is no end
        ("between", "0.5.9", False),
        ("between", "0.5.10", True),
        ("always", "0.1.0", False),
        ("nobody", "0.1.0", False),
        ("new", "0.1.dev300+gabcdef", False),
        ("new", "0.0.0", False),
        ("new", "0.5.1rc1", False),
        ("new", "nightly", False),
        ("new", "", False),
    ],
)
def test_a_release_is_outside_only_where_that_is_clear(
    name: str, version: str, *, outside: bool
) -> None:
    assert parse_wordings(DATA, where="here").is_outside(name, version) is outside


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"releases": ["0.5.1", "0.4.9"]}, "not in order"),
        ({"releases": ["0.5.1", "0.5.1"]}, "doubled"),
        ({"releases": []}, "are none"),
        ({"source": {"kind": "documented", "where": ""}}, "does not say where"),
        ({"signatures": {"a": {"first": "0.5.1"}}}, "missing key last"),
        ({"signatures": {"a": {"first": "0.5.4", "last": None}}}, "nobody read 0.5.4"),
        ({"signatures": {"a": {"first": "0.5.1", "last": "0.5.10"}}}, "there is no last one"),
        ({"signatures": {"a": {"first": "0.5.3", "last": "0.5.1"}}}, "stands before the first"),
        (
            {"signatures": {"a": {"first": "0.5.1", "last": None, "gaps": ["0.4.9"]}}},
            "gaps lie between",
        ),
        ({"signatures": {"a": {"first": "0.5.1", "last": None, "since": "x"}}}, "unknown key"),
    ],
)
def test_wrong_data_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        parse_wordings({**DATA, **change}, where="here")
