"""New names for keys, in their places."""

from __future__ import annotations

import pytest

from stoker.errors import SpecError, UsageError
from stoker.spec.rename import rename_keys

PATH = ("engine", "settings")
TEXT = """\
# all of it
name: x
engine:
  settings:
    a: 1   # the first
    # about b
    b: [1, 2]
    "c": x
    d: |
      a: 1
"""


def test_places_values_and_comments_stay() -> None:
    names = {"a": "alpha", "b": "bravo", "c": "charlie"}
    wanted = TEXT.replace("    a: 1   #", "    alpha: 1   #").replace("b: [", "bravo: [")
    assert rename_keys(TEXT, PATH, names) == wanted.replace('"c"', '"charlie"')


def test_braces_and_line_ends() -> None:
    text = "\ufeffengine: {settings: {a: 1, 'b': 2}}\r\n"
    assert rename_keys(text, PATH, {"a": "z", "b": "y"}) == (
        '\ufeffengine: {settings: {z: 1, "y": 2}}\r\n'
    )


def test_nothing_to_rename() -> None:
    assert rename_keys(TEXT, PATH, {"nope": "z"}) == TEXT
    assert rename_keys("name: x\n", PATH, {"a": "z"}) == "name: x\n"


@pytest.mark.parametrize(
    "text",
    [
        # The keys are written elsewhere, and for others too.
        "base: &b {a: 1}\nengine: {settings: *b}\n",
        "engine: &e {settings: {a: 1}}\nother: *e\n",
    ],
)
def test_what_cannot_be_done_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot change"):
        rename_keys(text, PATH, {"a": "z"})


def test_a_name_that_is_there_already_is_refused() -> None:
    with pytest.raises(UsageError):
        rename_keys("engine: {settings: {a: 1, z: 2}}\n", PATH, {"a": "z"})


def test_a_text_that_is_no_yaml() -> None:
    with pytest.raises(SpecError):
        rename_keys("a: [1\n", PATH, {"a": "z"})
