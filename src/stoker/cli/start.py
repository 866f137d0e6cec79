"""The way into the command: quiet from its first moment.

Loading the command line takes a tenth of a second, in which Ctrl-C would show where Python was.
Until it is loaded, an interrupt just ends the process, as the shell expects it.
"""

from __future__ import annotations

import signal


def run() -> None:
    """Load the command line and run it."""
    end_by_interrupt()
    from stoker.cli.main import run as run_commands

    run_commands()


def end_by_interrupt() -> None:
    """Leave SIGINT to the kernel, which ends the process with no word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
