"""An engine that does what a file says, for as long as it says it: run as a module.

``python -m tests.lab.engine ORDERS --port PORT [--alias NAME] ...``: other arguments, a real
engine's, are taken and ignored. The file ORDERS holds one word, which is looked at again and
again:

=======  =================================================================
load     does not listen, and tells a percentage that rises
hang     does not listen, and says nothing
broken   serves, and answers with nonsense
good     serves as it should
crash    ends with status 3
eat      serves, and takes memory until somebody stops it
deaf     serves as it should, and from then on does not end when it is asked to
=======  =================================================================
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from stoker.fake_engine.script import Script
from stoker.fake_engine.server import EngineServer

_TICK_SECONDS = 0.1
#: Slow enough that it is still loading when a test comes to it.
_PERCENT_IN_A_TICK = 0.1
_BITE_BYTES = 8 << 20


def main(arguments: list[str]) -> None:
    """Follow the orders, for ever unless they say otherwise."""
    if "--version" in arguments:
        sys.stderr.write("version: 11549 (c0ffee)\n")
        return
    orders = Path(arguments[0])
    percent = 0.0
    while (word := orders.read_text().strip()) not in ("broken", "good", "eat", "deaf"):
        if word == "crash":
            sys.exit(3)
        if word == "load":
            percent = min(percent + _PERCENT_IN_A_TICK, 100)
            write(f"loading {percent:.0f} %")
        time.sleep(_TICK_SECONDS)
    serve(orders, arguments)


def serve(orders: Path, arguments: list[str]) -> None:
    """Answer as the file says."""
    script = Script(names=(value_of("--alias", arguments) or "smollm2",))
    eaten = []
    with EngineServer(script, port=int(value_of("--port", arguments))) as server:
        while (word := orders.read_text().strip()) != "crash":
            server.script = script.saying("!!!!!!!!") if word == "broken" else script
            if word == "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if word == "eat":
                eaten.append(os.urandom(_BITE_BYTES))
            else:
                time.sleep(_TICK_SECONDS)
    sys.exit(3)


def value_of(name: str, arguments: list[str]) -> str:
    """The argument after this one; empty if it is not there."""
    return arguments[arguments.index(name) + 1] if name in arguments else ""


def write(line: str) -> None:
    """Put a line into the log at once."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
