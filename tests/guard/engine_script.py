"""An engine as a process of its own: ``python -m tests.guard.engine_script ORDERS``.

ORDERS is a JSON object; see :class:`Orders`. It serves like a real engine, and does to its guard
what it is told to. SIGUSR1 makes a running server break the promise named by ``later``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace

from tests.fakes.engine_replies import ENGINE_FAULTS, Fault
from tests.fakes.engine_server import EngineServer

#: Bytes that are no text, no lines and more than a pipe takes at once.
NOISE = b"\x00\xff\xfe\x1b[31m\r\r\n" + bytes(range(256)) * 1024 + b"no end of line"


@dataclass(kw_only=True)
class Orders:
    """What to do.

    ``fault``, ``later``: names of faults, from the start and from SIGUSR1 on. ``lines``: written
    first; ``noise``: NOISE to both outputs. ``children``: files that are given the pids of a
    child and of one that left the session. ``ends``: an exit status, a signal if negative, soon
    after the start. ``ignores``: signals by name. ``says``: signals that are only told.
    """

    port: int
    fault: str = ""
    later: str = ""
    lines: list[str] = field(default_factory=list)
    noise: bool = False
    children: list[str] = field(default_factory=list)
    ends: int | None = None
    ignores: list[str] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    api_key: str = ""


def main(orders: Orders) -> None:
    """Follow the orders, for ever unless they say when to end."""
    for name in orders.ignores:
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    for name in orders.says:
        signal.signal(signal.Signals[name], lambda number, frame: write(f"heard {number}"))
    for path, leaves in zip(orders.children, (False, True), strict=False):
        child = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=leaves)
        with open(f"{path}.new", "w") as file:
            file.write(str(child.pid))
        os.rename(f"{path}.new", path)
    for line in orders.lines:
        write(line)
    if orders.noise:
        os.write(1, NOISE)
        os.write(2, NOISE)
    if orders.ends is not None:
        end(orders.ends)
    serve(orders)


def write(line: str) -> None:
    """Put a line into the log at once."""
    os.write(1, f"{line}\n".encode())


SLEEP = "import time; time.sleep(600)"


def end(status: int) -> None:
    """End with a status, or by a signal."""
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


def serve(orders: Orders) -> None:
    """Answer until a signal ends it."""
    fault = Fault[orders.fault] if orders.fault else None
    with EngineServer(fault=fault, port=orders.port, api_key=orders.api_key) as server:

        def break_promise(number: int, frame: object) -> None:
            server.fault = Fault[orders.later]
            server.engine = ENGINE_FAULTS.get(server.fault, replace)(server.engine)

        if orders.later:
            signal.signal(signal.SIGUSR1, break_promise)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
