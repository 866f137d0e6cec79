"""An engine as a process of its own: ``python -m tests.guard.engine_script ORDERS``.

ORDERS is a JSON object; see :class:`Orders`. It serves like a real engine, and does to its guard
what it is told to. SIGUSR1 makes a running server break the promise named by ``later``, and with
it whatever is named in ``breaks``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from stoker.fake_engine.script import Script
from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.values import Asked

#: Bytes that are no text, no lines and more than a pipe takes at once.
NOISE = b"\x00\xff\xfe\x1b[31m\r\r\n" + bytes(range(256)) * 1024 + b"no end of line"


@dataclass(kw_only=True)
class Orders:
    """What to do.

    ``fault``, ``later``: names of faults, from the start and from SIGUSR1 on. ``lines``: written
    first; ``noise``: NOISE to both outputs. ``children``: files that are given the pids of a
    child and of one that left the session. ``ends``: an exit status, a signal if negative, soon
    after the start. ``ignores``: signals by name. ``says``: signals that are only told.

    ``breaks``: from SIGUSR1 on, ``questions`` are never answered, ``counters`` stand still (until
    then they count all the time), ``health`` is 503. ``tells``: every request stands in the log.
    ``reads``: a file that is read without a word before anything else, 1 MiB every tenth of a
    second, for so many seconds.
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
    breaks: list[str] = field(default_factory=list)
    tells: bool = False
    reads: tuple[str, float] | None = None


def main(orders: Orders) -> None:
    """Follow the orders, for ever unless they say when to end."""
    for name in orders.ignores:
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    for name in orders.says:
        signal.signal(signal.Signals[name], lambda number, frame: write(f"heard {number}"))
    if orders.reads:
        read_silently(*orders.reads)
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


def read_silently(path: str, seconds: float) -> None:
    """Read a file again and again, as a load does that says nothing."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with open(path, "rb", buffering=0) as file:
            while time.monotonic() < until and file.read(1 << 20):
                time.sleep(0.1)
        time.sleep(0.1)


class Told(list[Asked]):
    """What was asked, told in the log."""

    def append(self, asked: Asked) -> None:
        super().append(asked)
        write(f"asked {asked.path}")


@dataclass
class Count:
    """A counter that grows with the time until it stands still."""

    began: float = field(default_factory=time.monotonic)
    stood_still: float | None = None

    def __call__(self) -> float:
        return (self.stood_still or time.monotonic()) - self.began


SLEEP = "import time; time.sleep(600)"


def end(status: int) -> None:
    """End with a status, or by a signal."""
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


def serve(orders: Orders) -> None:
    """Answer until a signal ends it."""
    script = Script(api_key=orders.api_key)
    with EngineServer(script, fault=orders.fault or None, port=orders.port) as server:
        count = Count()
        server.count = count
        if orders.tells:
            server.asked = Told()

        def break_promise(number: int, frame: object) -> None:
            if orders.later:
                server.break_with(orders.later)
            server.is_mute = "questions" in orders.breaks
            if "counters" in orders.breaks:
                count.stood_still = time.monotonic()
            if "health" in orders.breaks:
                server.health_status = 503

        if orders.later or orders.breaks:
            signal.signal(signal.SIGUSR1, break_promise)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
