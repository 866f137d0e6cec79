"""Nothing of a text that is shown is a command to the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.model.visible import visible


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
