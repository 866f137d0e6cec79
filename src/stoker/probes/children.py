"""Our own child programs: they look where looking may hang, and are given up if it does.

Called by the probes. A child is this very interpreter with this very package; what it prints is
the answer.
"""

from __future__ import annotations

import os
import sys

from stoker.errors import HostError
from stoker.ports import Command, ReadableHost


def run_reader(host: ReadableHost, module: str, *, timeout_seconds: float, subject: str) -> str:
    """What the program prints. Raises HostError, which names ``subject``, if it gives no answer."""
    # Our own import path, so that the child finds the package wherever it is installed; -P keeps
    # the folder that the child starts in out of it.
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C.UTF-8"}
    if "LD_LIBRARY_PATH" in os.environ:
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]  # where some hosts keep the driver
    argv = (sys.executable, "-P", "-m", module)
    result = host.run(
        Command(argv=argv, timeout_seconds=timeout_seconds, env=env, is_question=True)
    )
    if result.timed_out:
        raise HostError(f"{subject} did not answer within {timeout_seconds:.0f} seconds")
    if result.exit_status != 0:
        last = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise HostError(f"{subject} could not be asked (status {result.exit_status}): {last}")
    return result.stdout
