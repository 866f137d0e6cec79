"""Ctrl-C before the command line is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_an_interrupt_while_loading_ends_quietly() -> None:
    code = (
        "import os, signal; from stoker.cli.start import end_by_interrupt; end_by_interrupt();"
        "os.kill(os.getpid(), signal.SIGINT)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == b""


def test_the_command_line_takes_interrupts_over() -> None:
    code = (
        "import signal; from stoker.cli import main; main.app = lambda **_: "
        "print(signal.getsignal(signal.SIGINT) is main._interrupt); main.run()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.stdout == b"True\n", ended.stderr
