"""Two Stokers at once, and Stokers that are told to end."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time

from tests.system.runner import Look, Result, Stoker, edit, finish, wait_until

#: Lines of progress after which a first apply is interrupted: while it observes, while it writes,
#: when the engine has been started, while it loads, while it is verified.
MOMENTS = {
    0: signal.SIGINT,
    3: signal.SIGTERM,
    6: signal.SIGINT,
    7: signal.SIGINT,
    8: signal.SIGTERM,
}
#: Different at each run; the seed stands in the failure.
SEED = random.randrange(1 << 16)


def test_second_apply_is_told_who_works(stoker: Stoker, small: str) -> None:
    first = stoker.begin("apply", small)
    lock = stoker.state / "lock"
    wait_until(lambda: lock.is_file() and lock.read_text())
    for words in (["apply", small], ["up"]):
        second = stoker.run(*words)
        assert second.exit_code == 6
        assert re.search(rf"`stoker apply` \(pid {first.pid}\) since ....-..-..", second.error)
        assert "hint: " in second.error
    assert stoker.run("status").exit_code == 0
    assert finish(first).exit_code == 0


def test_interrupted_apply_is_rolled_back(stoker: Stoker, small: str) -> None:
    jitter = random.Random(SEED)
    for lines, number in MOMENTS.items():
        result = interrupt(stoker, small, lines=lines, number=number, delay=jitter.random() / 3)
        context = f"seed {SEED}, after {lines} lines: {result}"
        assert not stoker.is_interrupted(), context
        if stoker.look().published:  # it was faster than the signal
            stoker.succeed("down")
            continue
        assert result.exit_code == 130, context
        assert "interrupted" in result.stderr
        assert stoker.look() == Look(), context
        assert not stoker.daemons(), context
    stoker.succeed("apply", small)


def test_interrupted_change_brings_the_earlier_one_back(running: Stoker, running_file: str) -> None:
    before = running.look()
    edit(running_file, {"serve.context_tokens": 512})
    result = interrupt(running, running_file, lines=6, number=signal.SIGTERM)
    assert result.exit_code == 130, result
    assert running.look() == before


def test_interrupted_twice(stoker: Stoker, small: str) -> None:
    """Whoever cannot wait for the roll-back gets it at the next verb."""
    process = begin_and_read(stoker, small, lines=7)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "rolling back" not in process.stderr.readline():
        pass
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    # The second signal may come when all is over but for the interpreter's own end.
    assert finish(process).exit_code in (130, -signal.SIGINT)
    if stoker.is_interrupted():
        assert "was cut short" in stoker.succeed("status").stdout
    stoker.succeed("apply", small)
    assert not stoker.is_interrupted()


def interrupt(
    stoker: Stoker, file: str, *, lines: int, number: signal.Signals, delay: float = 0.0
) -> Result:
    """Apply, and signal after so many lines of progress and a while."""
    process = begin_and_read(stoker, file, lines=lines)
    time.sleep(delay)
    process.send_signal(number)
    return finish(process)


def begin_and_read(stoker: Stoker, file: str, *, lines: int) -> subprocess.Popen[str]:
    """Begin to apply, and come back when it has said so much."""
    process = stoker.begin("apply", file)
    assert process.stderr is not None
    if not lines:
        wait_until((stoker.state / "lock").is_file)
    for _ in range(lines):
        assert process.stderr.readline()
    return process
