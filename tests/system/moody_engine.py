"""A program with llama-server's command line that answers nonsense with one kind of attention.

For test_repair.py: it starts, logs as llama-server does, and says `!!!!` again and again unless it
was started with ``--flash-attn off``.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path

from stoker.fake_engine.script import Script
from stoker.fake_engine.server import EngineServer
from tests.conftest import PROJECT

VERSION = "version: 11549 (0000000)"


def install(folder: Path) -> Path:
    """Write the program, which is a deployment's ``engine.environment``."""
    program = folder / "llama-server"
    places = [str(PROJECT), str(PROJECT / "src")]
    program.write_text(
        f"#!{sys.executable}\n"
        f"import sys\n"
        f"sys.path[:0] = {places!r}\n"
        f"from tests.system.moody_engine import main\n"
        f"main(sys.argv)\n"
    )
    program.chmod(0o755)
    return program


def main(argv: list[str]) -> None:
    """Answer for the version, or serve until a signal ends it."""
    if "--version" in argv:
        sys.stderr.write(f"{VERSION}\n")
        return
    options = dict(pairwise(argv))
    is_right = options.get("--flash-attn") == "off"
    script = Script(names=(options["--alias"],))
    write("srv          init: initializing ...")
    write("load_tensors: loading model tensors, this can take a while... (load_mode = mmap)")
    with EngineServer(
        script if is_right else script.saying("!!!!!!!!"), port=int(options["--port"])
    ):
        write(f"srv          init: listening on http://127.0.0.1:{options['--port']}")
        while True:
            time.sleep(60)


def write(line: str) -> None:
    """Put a line into the log at once."""
    os.write(1, f"{line}\n".encode())
