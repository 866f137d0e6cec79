"""Keys that would take a good server down for nothing."""

from __future__ import annotations

import pytest

from stoker.commands.judge import key_flaw


@pytest.mark.parametrize("text", ["sk-abc", "sk-abc\n", "a\nb\n", "", "\n", "x" * 4096])
def test_usable(text: str) -> None:
    assert key_flaw(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sk-new\r\n", "CR LF"),
        ("  sk-x", "blanks"),
        ("sk-x \n", "blanks"),
        ("\ufeffsk-x", "byte order mark"),
        ("sk x", "not visible"),
        ("sk\0x", "not visible"),
        ("schlüssel", "not visible"),
        ("x" * 4097, "longer"),
    ],
)
def test_flawed(text: str, why: str) -> None:
    assert why in key_flaw(text)
