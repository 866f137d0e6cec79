"""kill -9 of Stoker at any effect, for real: the next one ends in before or after, never between.

With FULL=1 in the environment every moment is tried, and a second kill in each recovery.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.system.runner import NAME, PATIENCE_SECONDS, Look, Stoker, edit

DRIVER = Path(__file__).parent / "crash_driver.py"
IS_FULL = os.environ.get("FULL") == "1"
#: Where a verb is killed by default, as parts of its moments: while it writes, while the engine
#: starts or stops, at the very end. The tests below add moments by name.
PARTS = {
    "first apply": (0.5, 0.97),
    "apply over another": (0.5, 0.77, 0.97),
    "down": (0.3, 0.97),
}
#: What is so before, and the verb that is killed: words of the command, FILE for the deployment.
SCENARIOS: dict[str, tuple[str, ...]] = {
    "first apply": ("apply", "FILE"),
    "apply over another": ("apply", "FILE"),
    "down": ("down",),
}
KILLED = -signal.SIGKILL


@pytest.mark.timeout(7200 if IS_FULL else 120, func_only=True)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_anywhere(stoker: Stoker, small: str, *, scenario: str) -> None:
    before, after, total = rehearse(stoker, small, scenario)
    moments = range(1, total + 1) if IS_FULL else [round(part * total) for part in PARTS[scenario]]
    verb = words_of(scenario, small)
    for moment in moments:
        if stoker.look() != before:
            prepare(stoker, small, scenario)
            assert stoker.look() == before
        assert drive(stoker, str(moment), *verb).returncode == KILLED, f"at {moment} of {total}"
        told = stoker.say("status")["interrupted"]
        assert told == (stoker.runs()[-1:] if stoker.is_interrupted() else [])
        if IS_FULL:
            drive(stoker, str(1 + moment * 7 % total), "recover")
        assert drive(stoker, "0", "recover").returncode == 0
        assert stoker.look() in (before, after), f"between, after a kill at {moment} of {total}"
        assert not stoker.is_interrupted()


def test_same_verb_again(stoker: Stoker, small: str) -> None:
    """Whoever repeats the command gets what was wanted."""
    assert drive(stoker, "after start", "apply", small).returncode == KILLED
    assert "was cut short" in stoker.succeed("status").stdout
    again = stoker.succeed("apply", small)
    assert f"an earlier `stoker apply` of {NAME} was interrupted; recovering" in again.stderr
    status = stoker.say("status")
    assert [one["verified"] for one in status["deployments"]] == [True]
    assert status["interrupted"] == []
    assert len(stoker.engines()) == 1


@pytest.mark.parametrize("verb", ["stop", "down", "rollback"])
def test_other_verb_recovers_as_well(stoker: Stoker, small: str, *, verb: str) -> None:
    """A first apply that was killed before anybody could know of it leaves nothing behind."""
    assert drive(stoker, "after make_folder", "apply", small).returncode == KILLED
    assert drive(stoker, "before reload", "apply", small).returncode == KILLED
    assert stoker.is_interrupted()
    ended = stoker.run(verb)
    assert ended.exit_code == 2
    assert "there is no deployment yet" in ended.error
    assert not stoker.is_interrupted()
    assert stoker.look() == Look()


def test_stop_recovers_a_run_that_only_the_journal_knows(stoker: Stoker, small: str) -> None:
    assert drive(stoker, "after append_file", "apply", small).returncode == KILLED
    assert stoker.is_interrupted()
    assert stoker.run("stop").exit_code == 2
    assert not stoker.is_interrupted()
    assert stoker.look() == Look()


@pytest.mark.parametrize("moment", ["after make_folder", "os.rename", "after write_file"])
def test_killed_while_making_the_state_folder(stoker: Stoker, small: str, *, moment: str) -> None:
    """A folder that was begun is ours, although nothing in it says so yet."""
    assert drive(stoker, moment, "apply", small).returncode == KILLED
    assert stoker.say("status")["deployments"] == []
    assert drive(stoker, "0", "recover").returncode == 0
    assert (stoker.state / "state.json").is_file()


def test_down_that_was_killed_is_begun_again(running: Stoker) -> None:
    """The pointer is gone first, and yet the next `down` finds what is to go."""
    assert drive(running, "before stop", "down").returncode == KILLED
    running.succeed("down")
    assert running.look() == Look()
    assert not running.daemons()


@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.skipif(not IS_FULL, reason="takes minutes; FULL=1 runs it")
def test_ended_whenever(stoker: Stoker, small: str) -> None:
    """Any verb, any signal, any instant: the next apply gets what is wanted, and there it ends."""
    seed = random.randrange(1 << 16)
    chance = random.Random(seed)
    for turn in range(60):
        edit(small, {"serve.context_tokens": 256 * (1 + turn % 3)})
        words = chance.choice(
            [["apply", small]] * 4 + [["down"], ["stop"], ["start"], ["rollback"]]
        )
        process = stoker.begin(*words)
        time.sleep(chance.uniform(0.1, 2.0))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        process.communicate(timeout=PATIENCE_SECONDS)
        stoker.succeed("status")
        stoker.succeed("apply", small)
        planned = stoker.run("plan", small, "--exit-code")
        assert planned.exit_code == 0, f"seed {seed}, turn {turn}, {words}: {planned}"
        assert len(stoker.engines()) == 1


def rehearse(stoker: Stoker, file: str, scenario: str) -> tuple[Look, Look, int]:
    """How it is before and after, and how many moments there are between."""
    prepare(stoker, file, scenario)
    before = stoker.look()
    done = drive(stoker, "0", *words_of(scenario, file))
    assert done.returncode == 0, done.stderr
    return before, stoker.look(), int(done.stdout)


def prepare(stoker: Stoker, file: str, scenario: str) -> None:
    """Make it as it is before, from whatever it is now."""
    if stoker.say("status")["deployments"]:
        stoker.succeed("down")
    elif not stoker.state.exists():
        # The first Stoker on a machine has more to do than others.
        assert drive(stoker, "0", "recover").returncode == 0
    edit(file, {"serve.context_tokens": 256})
    if scenario != "first apply":
        stoker.succeed("apply", file)
    if scenario == "apply over another":
        edit(file, {"serve.context_tokens": 512})


def words_of(scenario: str, file: str) -> Sequence[str]:
    """The verb of a scenario, with its file."""
    return [file if word == "FILE" else word for word in SCENARIOS[scenario]]


def drive(stoker: Stoker, when: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb that is killed at a moment."""
    return subprocess.run(
        [sys.executable, str(DRIVER), when, *words],
        env=stoker.env,
        cwd=stoker.place,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
