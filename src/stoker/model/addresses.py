"""Addresses without what opens them: no user, no password, and no query where one is kept.

Called from everywhere that shows, keeps or passes on an address. A password may hold a slash, a
colon and an at-sign, so that everything up to the last at-sign goes. Pure; linear in the text.
"""

from __future__ import annotations

import re

_RUN = re.compile(r"[^\s'\"]+")
_SIGN = "://"
#: With a dot it may have a port; without one a colon would stand behind a user.
_SERVER = re.compile(r"[A-Za-z0-9-]+((\.[A-Za-z0-9-]+)+(:\d{1,5})?)?")


def hide_login(text: str, mask: str = "") -> str:
    """The text with ``mask`` in the place of what stands before the server's name in addresses.

    Where an at-sign stands in the path it cannot be told from one behind a password, and the path
    before it goes too, unless what stands first has the looks of a server's name (and
    at most a port behind it). A path of this machine (``file:///``) has no server and stays.
    """
    return _RUN.sub(lambda found: _cut_login(found[0], mask), text)


def bare_address(address: str) -> str:
    """One address without login, query and fragment, whatever characters it holds."""
    return _cut_query(_cut_login(address, ""))


def hide_addresses(text: str) -> str:
    """The text with each of its addresses as :func:`bare_address` has it."""
    return _RUN.sub(lambda found: bare_address(found[0]), text)


def has_login(text: str) -> bool:
    """Whether an address in the text holds what may be a password or a token."""
    for found in _RUN.finditer(text):
        login, is_login, _place = found[0].partition(_SIGN)[2].rpartition("@")
        is_path = login.startswith("/") or _is_server(login)
        if is_login and not is_path and (":" in login or "/" not in login):
            return True
    return False


def _cut_login(address: str, mask: str) -> str:
    scheme, sign, rest = address.partition(_SIGN)
    if not sign or rest.startswith("/"):
        return address
    login, is_login, place = rest.rpartition("@")
    is_cut = bool(is_login) and not _is_server(login)
    return f"{scheme}{sign}{mask}{place}" if is_cut else address


def _is_server(text: str) -> bool:
    """Whether a text begins with a server's name and goes on with a path."""
    name, slash, _path = text.partition("/")
    return bool(slash) and _SERVER.fullmatch(name) is not None


def _cut_query(address: str) -> str:
    scheme, sign, rest = address.partition(_SIGN)
    return f"{scheme}{sign}{re.split(r'[?#]', rest, maxsplit=1)[0]}" if sign else address
