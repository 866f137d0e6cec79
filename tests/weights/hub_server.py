"""A small server that speaks what the hub's client asks of the hub, with faults to switch on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "c0ffee" + "0" * 34
REPOSITORY = "ann/tiny"


@dataclass
class Hub:
    """What the server shows, and what it was asked.

    ``refuses`` is a status and the hub's own code for the error, for every request. A transfer
    stops after ``cut_after_bytes`` once: the connection breaks. With ``hold_after_bytes`` it waits
    there until ``go`` is set.
    """

    files: dict[str, bytes]
    refuses: tuple[int, str] | None = None
    token: str | None = None
    cut_after_bytes: int | None = None
    hold_after_bytes: int | None = None
    go: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def env(self) -> dict[str, str]:
        return {"HF_ENDPOINT": self.url, "HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve on a free port of the loopback for the block."""

    class Handler(Answering):
        shown = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        hub.go.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Answering(BaseHTTPRequestHandler):
    """One request."""

    shown: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.shown.asked.append(f"{self.command} {path}")
        if self.refuse():
            return
        if path == f"/api/models/{REPOSITORY}/revision/main":
            self.send_json({"id": REPOSITORY, "sha": COMMIT})
        elif path == f"/api/models/{REPOSITORY}/tree/{COMMIT}":
            self.send_json([tree_entry(*item) for item in self.shown.files.items()])
        elif path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
            self.send_content(path.removeprefix(f"/{REPOSITORY}/resolve/{COMMIT}/"))
        elif "/revision/" in path and path.startswith(f"/api/models/{REPOSITORY}/"):
            self.send_json({"error": "no revision"}, 404, {"X-Error-Code": "RevisionNotFound"})
        else:
            self.send_json({"error": "no repository"}, 404, {"X-Error-Code": "RepoNotFound"})

    def refuse(self) -> bool:
        hub = self.shown
        if hub.refuses is not None:
            status, code = hub.refuses
            self.send_json({"error": code}, status, {"X-Error-Code": code})
            return True
        if hub.token and self.headers["Authorization"] != f"Bearer {hub.token}":
            self.send_json({"error": "gated"}, 403, {"X-Error-Code": "GatedRepo"})
            return True
        return False

    def send_json(
        self, value: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def send_content(self, name: str) -> None:
        content = self.shown.files[name]
        start = int((self.headers["Range"] or "bytes=0-")[6:].partition("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.command == "GET":
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_body(content[start:])

    def send_body(self, content: bytes) -> None:
        hub = self.shown
        if hub.cut_after_bytes is not None:
            content, hub.cut_after_bytes = content[: hub.cut_after_bytes], None
            self.wfile.write(content)
            self.close_connection = True
            return
        if hub.hold_after_bytes is not None:
            self.wfile.write(content[: hub.hold_after_bytes])
            self.wfile.flush()
            hub.held.set()
            hub.go.wait()
            content = content[hub.hold_after_bytes :]
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def tree_entry(name: str, content: bytes) -> dict[str, object]:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": name, "size": len(content), "oid": oid}
