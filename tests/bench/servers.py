"""Small servers that answer, or break, in the way that a test wants; a thread for each connection.

A *script* gets a connection and returns once it is done with it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stoker.bench.load_values import Patience, Target
from stoker.bench.requests import CHAT_PATH, Planned

Script = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#: Nothing here takes long, so what hangs is noticed soon.
LISTING = json.dumps({"data": [{"id": "m", "max_model_len": 4096}]}).encode()
HASTY = Patience(request_seconds=5.0, drain_seconds=5.0, connect_seconds=2.0)


def event(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def body(tokens: int = 3, *, has_usage: bool = True) -> bytes:
    """A whole streamed answer."""
    events = [event({"role": "assistant", "content": ""})]
    events += [event({"content": f"t{number}"}) for number in range(tokens)]
    events.append(event({}, "stop"))
    if has_usage:
        usage = {"prompt_tokens": 7, "completion_tokens": tokens}
        events.append(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
    return b"".join([*events, b"data: [DONE]\n\n"])


def identity(content: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content


def chunked(content: bytes, size: int = 40) -> bytes:
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def status(line: str, content: bytes = b"", *headers: str) -> bytes:
    head = "".join(f"{each}\r\n" for each in (f"HTTP/1.1 {line}", *headers))
    return identity(content, head.encode())


def read_request(connection: socket.socket) -> bytes:
    """One request, head and body; empty where the client has gone."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(1 << 16)
        if not more:
            return b""
        received += more
    head, _, content = received.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    lengths = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
    length = sum(lengths)
    while len(content) < length:
        content += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + content


def answering(*replies: bytes, closes: bool = False) -> Script:
    """These replies in turn on each connection, the last of them again and again; ``closes``: the
    connection after each."""

    def script(connection: socket.socket) -> None:
        number = 0
        while read_request(connection):
            connection.sendall(replies[min(number, len(replies) - 1)])
            number += 1
            if closes:
                return

    return script


@contextlib.contextmanager
def serving(
    script: Script, *, host: str = "127.0.0.1", family: int = socket.AF_INET
) -> Iterator[int]:
    """Run the script for each connection, all at the same time; yields the port."""
    with socket.create_server((host, 0), family=family, backlog=256) as listener:
        threading.Thread(target=_accept, args=(listener, script), daemon=True).start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, script: Script) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_run, args=(connection, script), daemon=True).start()


def _run(connection: socket.socket, script: Script) -> None:
    with contextlib.suppress(OSError), connection:
        script(connection)


@contextlib.contextmanager
def scripted(*chats: bytes, dies: bool = False) -> Iterator[str]:
    """A server that lists its model, counts words when asked without a stream, and streams these
    replies in turn, then the last one for ever, or nothing more: it ``dies``."""
    replies = iter(chats)
    last: list[bytes] = []
    over = threading.Event()

    def chat(connection: socket.socket) -> None:
        if over.is_set():
            return
        reply = next(replies, None)
        if reply is None and dies:
            over.set()
            return
        last[:] = [reply] if reply is not None else last
        connection.sendall(last[0])

    def script(connection: socket.socket) -> None:
        if over.is_set():
            return
        while request := read_request(connection):
            if request.startswith(b"GET /v1/models"):
                connection.sendall(status("200 OK", LISTING, "Content-Type: application/json"))
            elif request.startswith(b"GET"):
                connection.sendall(status("404 No"))
            elif b'"stream": false' in request or b'"stream":false' in request:
                words = request.count(b" ")
                said = {"usage": {"prompt_tokens": words, "completion_tokens": 1}, "choices": []}
                kind = "Content-Type: application/json"
                connection.sendall(status("200 OK", json.dumps(said).encode(), kind))
            else:
                chat(connection)
                if over.is_set():
                    return

    with serving(script) as port:
        yield f"http://127.0.0.1:{port}"


def target(port: int, *, key: str = "", address: str = "127.0.0.1") -> Target:
    host = f"[{address}]" if ":" in address else address
    return Target(address=address, port=port, authority=f"{host}:{port}", key=key)


def plans(**fields: Any) -> Iterator[Planned]:
    """The same request without end."""
    content = json.dumps({"model": "m", "stream": True, **fields}).encode()
    while True:
        yield Planned(path=CHAT_PATH, body=content, asked_tokens=3)
