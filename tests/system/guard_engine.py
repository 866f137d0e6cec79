"""A program with llama-server's command line that loads as its orders say, for test_guard.py.

It reads its orders at every start from the file beside it, so one deployment lives through many
starts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from stoker.fake_engine.script import Script
from stoker.fake_engine.server import EngineServer
from tests.conftest import PROJECT

VERSION = "version: 11549 (0000000)"
_HANG_SECONDS = 600.0
_PIECE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How it starts: says nothing for ever, says how far it is, or reads its weights in silence."""

    hangs: bool = False
    talk_seconds: float = 0.0
    read_seconds: float = 0.0


def install(folder: Path) -> Path:
    """Write the program, which is a deployment's ``engine.environment``, and no orders."""
    program = folder / "llama-server"
    places = [str(PROJECT), str(PROJECT / "src")]
    program.write_text(
        f"#!{sys.executable}\n"
        f"import sys\n"
        f"sys.path[:0] = {places!r}\n"
        f"from tests.system.guard_engine import main\n"
        f"main(sys.argv)\n"
    )
    program.chmod(0o755)
    order(program, Orders())
    return program


def order(program: Path, orders: Orders) -> None:
    """What its next start is like."""
    text = json.dumps({name: getattr(orders, name) for name in Orders.__slots__})
    new = program.with_suffix(".new")
    new.write_text(text)
    new.rename(program.with_suffix(".json"))


def main(argv: list[str]) -> None:
    """Answer for the version, or load and serve until a signal ends it."""
    if "--version" in argv:
        sys.stderr.write(f"{VERSION}\n")
        return
    options = dict(pairwise(argv))
    orders = Orders(**json.loads(Path(argv[0]).with_suffix(".json").read_text()))
    if orders.hangs:
        time.sleep(_HANG_SECONDS)
    load(orders, options["--model"])
    serve(int(options["--port"]), options["--alias"])


def load(orders: Orders, weights: str) -> None:
    """Take as long as ordered."""
    write("load_tensors: loading model tensors, this can take a while... (load_mode = mmap)")
    pieces = int(orders.talk_seconds / _PIECE_SECONDS)
    for piece in range(pieces):
        write(f"loaded {100 * piece // pieces} %")
        time.sleep(_PIECE_SECONDS)
    if orders.read_seconds:
        # Three quarters, for the share is told of what lies between two looks.
        length = os.stat(weights).st_size
        pieces = int(orders.read_seconds / _PIECE_SECONDS)
        with open(weights, "rb", buffering=0) as file:
            for _ in range(pieces):
                file.read(length // pieces)
                time.sleep(_PIECE_SECONDS)


def serve(port: int, name: str) -> None:
    """Answer well, and with nonsense from SIGUSR1 on."""
    with EngineServer(Script(names=(name,)), port=port) as server:

        def break_down(number: int, frame: object) -> None:
            server.break_with("one_character")

        signal.signal(signal.SIGUSR1, break_down)
        write(f"srv          init: listening on http://127.0.0.1:{port}")
        while True:
            time.sleep(60)


def write(line: str) -> None:
    """Put a line into the log at once."""
    os.write(1, f"{line}\n".encode())
