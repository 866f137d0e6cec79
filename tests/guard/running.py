"""Real guards for tests: started as a service manager starts them, and listened to like one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stoker.model.document import render_document
from tests.conftest import PROJECT

#: Nothing here takes a tenth of it on an idle machine.
PATIENCE_SECONDS = 60.0

NAME = "smollm2"


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(what: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def fake_engine(port: int, **orders: Any) -> list[str]:
    """The argument vector of the fake engine."""
    text = json.dumps({"port": port, **orders})
    return [sys.executable, "-m", "tests.guard.engine_script", text]


def write_config(folder: Path, argv: list[str], port: int, **changes: Any) -> Path:
    """A configuration with short times; ``changes`` go into its parts."""
    parts: dict[str, Any] = {
        "schema": "guard/1",
        "name": "a-deployment",
        "digest": "d1",
        "engine": {
            "argv": argv,
            "env": {"PATH": os.defpath, "PYTHONPATH": f"{PROJECT}:{PROJECT / 'src'}"},
            "directory": str(folder),
        },
        "server": {
            "host": "127.0.0.1",
            "port": port,
            "readiness_path": "/health",
            "subject": {"published_name": NAME},
        },
        "limits": {
            "start_timeout_seconds": 60,
            "stall_seconds": 30,
            "stop_timeout_seconds": 10,
        },
        "canary": {"interval_seconds": 0.2, "timeout_seconds": 10},
        "phases": [
            {"pattern": "loading +(?P<percent>\\d+) %", "phase": "loading-weights", "title": "load"}
        ],
        "status_path": str(folder / "status.json"),
    }
    for key, value in changes.items():
        parts[key] = {**parts.get(key, {}), **value} if isinstance(value, Mapping) else value
    path = folder / "guard.json"
    path.write_text(render_document(parts), "utf-8")
    return path


class Guarded:
    """A guard while its ``with`` block runs, and all that it told the service manager.

    ``before`` are words in front of its command line.
    """

    def __init__(
        self, config: Path, *, is_abstract: bool = False, before: Sequence[str] = ()
    ) -> None:
        self._folder = config.parent
        address = f"@stoker-{os.getpid()}-{id(self)}" if is_abstract else str(self._folder / "n")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1) if is_abstract else address)
        self.told: list[str] = []
        #: When each name was told first, on the monotonic clock.
        self.moments: dict[str, float] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        self._out = (self._folder / "out").open("wb")
        self._err = (self._folder / "err").open("wb")
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "stoker.guard", config],
            env={**os.environ, "NOTIFY_SOCKET": address},
            stdout=self._out,
            stderr=self._err,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._socket.close()
        self._out.close()
        self._err.close()

    def _listen(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return
            lines = data.decode().split("\n")
            for line in lines:
                self.moments.setdefault(line.partition("=")[0], time.monotonic())
            self.told += lines

    def wait_told(self, line: str, times: int = 1) -> None:
        """Wait until the service manager was told a line."""
        wait_for(lambda: self.told.count(line) >= times or self.process.poll() is not None)
        assert self.told.count(line) >= times, self.error()

    def wait(self) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(PATIENCE_SECONDS)

    def output(self) -> bytes:
        """What the guard has written to its stdout."""
        return (self._folder / "out").read_bytes()

    def error(self) -> str:
        """What the guard has written to its stderr."""
        return (self._folder / "err").read_text("utf-8")

    def status(self) -> dict[str, Any]:
        """The status document."""
        found: dict[str, Any] = json.loads((self._folder / "status.json").read_text("utf-8"))
        return found

    def engine(self) -> int:
        """The pid of the engine."""
        wait_for((self._folder / "status.json").exists)
        pid: int = self.status()["pid"]
        return pid

    def terminate(self) -> int:
        """Ask it to stop, and wait for its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()
