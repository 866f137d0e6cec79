"""What the supervisors run in these tests: a program that behaves as its arguments say.

Run as a script, without any package. It prints what it was given and the pid of its child, then
sleeps until it is ended.
"""

import contextlib
import json
import os
import signal
import sys
import time


def say(text: str) -> None:
    # Whoever reads this may have been killed; engines go on then, and so does this.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def sleep() -> None:
    while True:
        time.sleep(60)


def fork_child(*, is_deaf: bool, is_detached: bool) -> None:
    child = os.fork()
    if child:
        say(f"child {child}")
        return
    if is_detached:
        os.setsid()
    if is_deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("child ready")
    sleep()


def main(words: list[str]) -> None:
    say(json.dumps({"argv": words, "env": dict(os.environ)}))
    if "deaf" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in words or "deaf-child" in words or "detached-child" in words:
        fork_child(is_deaf="child" not in words, is_detached="detached-child" in words)
    if "ends-well" in words or "ends-badly" in words:
        time.sleep(1.3)  # it counts as started after one second
        sys.exit(3 if "ends-badly" in words else 0)
    if "fails" in words:
        sys.exit(3)
    say("ready")
    sleep()


main(sys.argv[1:])
