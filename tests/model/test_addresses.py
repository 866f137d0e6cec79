"""Addresses lose what opens them, whatever characters a password holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.model.addresses import bare_address, has_login, hide_addresses, hide_login

USED = st.text(st.characters(codec="ascii", exclude_categories=["Cc", "Zs"]), max_size=30)


@pytest.mark.parametrize(
    ("address", "bare"),
    [
        ("https://user:SEC/RETPW9@h/x?token=SECRETTOK9", "https://h/x"),
        ("https://user:a@b@h/x", "https://h/x"),
        ("https://TOKEN9@h:8443/x#key=1", "https://h:8443/x"),
        ("https://u'q:p\"w@h/x", "https://h/x"),
        ("git+ssh://git@h/x.git", "git+ssh://h/x.git"),
        ("git+https://host.example/x.git@v1", "git+https://host.example/x.git@v1"),
        ("https://host.example:8443/x@v1?token=T", "https://host.example:8443/x@v1"),
        ("https://a.b:c/d@host.example/x", "https://host.example/x"),
        ("https://first.last@host.example/x", "https://host.example/x"),
        ("file:///home/me@work/x", "file:///home/me@work/x"),
        ("/home/me@work/x", "/home/me@work/x"),
        ("git@h:x/y", "git@h:x/y"),
    ],
)
def test_an_address_that_is_kept(address: str, bare: str) -> None:
    assert bare_address(address) == bare


@given(st.text("abcXYZ019/:@?#!$%&*()", min_size=1, max_size=30))
def test_no_password_stays(password: str) -> None:
    address = f"https://user:>{password}<@host/path"
    assert bare_address(address) == "https://host/path"
    assert hide_login(f"from '{address}' now", "***@") == "from 'https://***@host/path' now"
    assert has_login(f"from {address}")


@given(USED)
def test_what_is_bare_stays_so(text: str) -> None:
    once = bare_address(text)
    assert bare_address(once) == once


def test_all_addresses_of_a_text() -> None:
    text = "fatal: 'https://u:p/w@h/x?token=T' and ssh://k@g/y#z failed"
    assert hide_addresses(text) == "fatal: 'https://h/x' and ssh://g/y failed"
    assert not has_login("https://h:8000/x and me@h")
    assert not has_login("file:///home/me@work")


def test_a_long_text_takes_no_longer_than_it_is() -> None:
    """Anything worse than linear would not end before the test's own limit."""
    for unit in ("://", "a", "@", "a://b@", "x "):
        hide_addresses(unit * 300_000)
        has_login(unit * 300_000)
