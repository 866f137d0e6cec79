"""A socket server that sends whatever bytes a test wants, in whatever way."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

#: Gets the connection and the event that ends the test; the connection is closed after it.
Script = Callable[[socket.socket, threading.Event], None]


@contextlib.contextmanager
def serving(
    script: Script, *, family: int = socket.AF_INET, host: str = "127.0.0.1"
) -> Iterator[int]:
    """Run the script for each connection, one after the other; yields the port."""
    ended = threading.Event()
    with socket.create_server((host, 0), family=family) as listener:
        threading.Thread(target=_serve, args=(listener, script, ended), daemon=True).start()
        yield listener.getsockname()[1]
        ended.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, script: Script, ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                script(connection, ended)


def read_request(connection: socket.socket) -> bytes:
    """The head of a request; the clients of these tests send no body worth reading."""
    head = b""
    while b"\r\n\r\n" not in head:
        received = connection.recv(1 << 16)
        if not received:
            break
        head += received
    return head


def reply_with(reply: bytes) -> Script:
    """Read the request, send these bytes, close."""

    def script(connection: socket.socket, ended: threading.Event) -> None:
        read_request(connection)
        connection.sendall(reply)

    return script


def drip(opening: bytes, repeated: bytes) -> Script:
    """Read the request, send the opening, then the rest again and again, for ever."""

    def script(connection: socket.socket, ended: threading.Event) -> None:
        read_request(connection)
        connection.sendall(opening)
        while not ended.wait(0.02):
            connection.sendall(repeated)

    return script
