"""Telling the service manager, by the datagram protocol of sd_notify(3).

:mod:`stoker.guard.run` calls it from the guard's main process, the only one that a unit with
NotifyAccess=main listens to. The protocol is one datagram; the package that wraps it (sdnotify)
has had no release for years and does not bound its wait, so the dozen lines stand here. This
module must never raise for a manager that is gone, and must never wait for one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress

Send = Callable[[str], None]


def connect_manager(address: str | None = None) -> Send:
    """A function that sends lines of the form NAME=VALUE; it does nothing without a manager.

    ``address`` is that of NOTIFY_SOCKET: a path, or a name in the abstract namespace after ``@``.
    """
    address = os.environ.get("NOTIFY_SOCKET", "") if address is None else address
    if not address.startswith(("/", "@")):
        return lambda text: None
    target = f"\0{address[1:]}" if address.startswith("@") else address
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    channel.settimeout(0.0)

    def send(text: str) -> None:
        with suppress(OSError):
            channel.sendto(text.encode("utf-8", "replace"), target)

    return send
