"""Nothing of a text that is shown is a command to the terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.model.visible import escape_json, visible, visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünï → 字", "plain ünï → 字"),
        ("\x1b[2J\n\t\r\0", "\\x1b[2J\\n\\t\\r\\x00"),
        ("\x9b\x7f\u202e\u2028", "\\x9b\\x7f\\u202e\\u2028"),
        (b"\xff\x80".decode("utf-8", "surrogateescape"), "\\xff\\x80"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(alphabet=st.characters()))
def test_all_of_it_can_be_printed(text: str) -> None:
    assert visible(text).isprintable()


def test_lines_and_tabs_of_a_longer_text_stay() -> None:
    assert visible_lines("a\tb\n\x1b[31mc\u202e\r\n") == "a\tb\n\\x1b[31mc\\u202e\\r\n"


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_an_escaped_document_says_the_same(value: object) -> None:
    escaped = escape_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(escaped) == value
    assert all(each == "\n" or each.isprintable() for each in escaped)
