"""``python -m stoker.guard CONFIG.json``: what a service manager starts as a service's process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stoker.errors import UsageError

USAGE = """usage: python -m stoker.guard CONFIG.json

Runs the engine that CONFIG.json (a document guard/1) describes, as a service manager's main
process: says how far it has come, calls it ready once its contract has passed, ends it when it is
stuck or no longer generates, and leaves nothing of it behind.

exit codes: 0 stopped as asked, 2 the configuration is wrong, 90 stuck while it started,
91 its contract never passed, 92 it no longer generated, 93 it ended with 0 though nobody asked,
94 its GPUs are not there, 126 and 127 it cannot be executed; all others are the engine's own
(128 + the signal).
"""


def main(arguments: Sequence[str]) -> int:
    """Run one guard and answer its exit code."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        is_help = any(argument in ("-h", "--help") for argument in arguments)
        (sys.stdout if is_help else sys.stderr).write(USAGE)
        return 0 if is_help else 2
    from stoker.guard.config import read_config
    from stoker.guard.run import run_guard

    try:
        return run_guard(read_config(arguments[0]))
    except UsageError as error:
        hint = f" ({error.hint})" if error.hint else ""
        sys.stderr.write(f"stoker guard: {error.summary}{hint}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
