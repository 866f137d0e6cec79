"""Names of servers become numeric addresses, under a deadline.

Called for texts from the network (:mod:`stoker.endpoints.fetch`) and, by the command layer, for a
server that somebody names by a URL. A name is looked up once: where the connection goes is decided
here and nowhere else. This module must never wait longer than it was told to.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence

Resolve = Callable[[str, int], Sequence[str]]


class NameUnknown(OSError):
    """No address is known for a name. The text is one sentence."""


class NameTooSlow(OSError):
    """Nobody said in time which address a name has. The text is one sentence."""


def look_up(name: str, port: int) -> Sequence[str]:
    """The numeric addresses of a name, in the system's order. Raises OSError or UnicodeError."""
    rows = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def look_up_in_time(
    name: str, port: int, *, seconds: float, resolve: Resolve = look_up
) -> Sequence[str]:
    """The addresses of a name, at least one. Raises NameUnknown or NameTooSlow.

    The system's look-up has no deadline of its own, so it is left behind when it is late.
    """
    found: list[str] = []
    flaws: list[Exception] = []

    def ask() -> None:
        try:
            found.extend(resolve(name, port))
        except (OSError, UnicodeError) as error:
            flaws.append(error)

    worker = threading.Thread(target=ask, daemon=True)
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        raise NameTooSlow(f"the name {name} could not be looked up in time")
    if flaws:
        raise NameUnknown(f"the name {name} is not known: {flaws[0]}")
    if not found:
        raise NameUnknown(f"the name {name} is not known")
    return tuple(found)
