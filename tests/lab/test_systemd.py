"""What needs a machine of its own: the suites that change a systemd, and what a boot does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import PROJECT
from tests.lab.container import Container
from tests.lab.tree import USER, USER_ID

_SUITE_SECONDS = 300

#: Some of them cannot be run elsewhere, some can and are asked of another systemd here.
SUITES = {
    "conformance": ("tests/supervisors/test_conformance.py", "-k", "systemd"),
    "adapter": ("tests/supervisors/test_systemd.py",),
    "units": ("tests/supervisors/test_systemd_unit.py",),
}
#: Takes long, and differs little between the managers.
GUARDED = ("tests/supervisors/test_systemd_guarded.py",)
#: What of it a user's manager is asked as well.
READY_AND_STOP = ("-k", "active_only_once_it_is_verified or stopped_while_it_loads")


def run_python(
    container: Container, arguments: Sequence[str], *, user: int = 0, timeout_seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of these tests in a container, in the project's folder."""
    env = {
        "HOME": "/root" if user == 0 else f"/home/{USER}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": f"/tmp/hypothesis-{user}",
    }
    command = ["env", f"--chdir={PROJECT}", sys.executable, *arguments]
    return container.run(command, env=env, user=user, timeout_seconds=timeout_seconds)


def step(container: Container, verb: str, name: str) -> dict[str, Any]:
    """One step of :mod:`tests.lab.inside`: the state that it ended with."""
    done = run_python(container, ["-m", "tests.lab.inside", verb, name])
    assert done.returncode == 0, done.stderr
    state: dict[str, Any] = json.loads(done.stdout)
    return state


def run_suite(container: Container, arguments: Sequence[str], *, user: int) -> None:
    """Run tests inside a container, all of which must pass."""
    pytest_options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = run_python(container, pytest_options, user=user, timeout_seconds=_SUITE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout.splitlines()[-1]


@pytest.mark.timeout(_SUITE_SECONDS + 30)
@pytest.mark.parametrize("user", [0, USER_ID], ids=["system", "user"])
@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_passes_in_a_container(
    shared_container: Container, suite: str, user: int
) -> None:
    run_suite(shared_container, SUITES[suite], user=user)


@pytest.mark.timeout(_SUITE_SECONDS + 30)
def test_guards_are_good_services(container: Container) -> None:
    run_suite(container, GUARDED, user=0)


@pytest.mark.timeout(_SUITE_SECONDS + 30)
def test_guards_are_good_services_of_a_user(shared_container: Container) -> None:
    run_suite(shared_container, (*GUARDED, *READY_AND_STOP), user=USER_ID)


@pytest.mark.parametrize("how", ["reboot", "power cut"])
def test_what_was_enabled_is_up_again(container: Container, how: str) -> None:
    before = {
        name: step(container, verb, name) for verb, name in (("put", "a"), ("put-by-hand", "b"))
    }
    assert {state["phase"] for state in before.values()} == {"running"}
    if how == "reboot":
        container.reboot()
    else:
        container.run(["sync"])
        container.cut_power()
        container.start()
    after = {name: step(container, "state", name) for name in before}
    assert after["a"]["phase"] == "running"
    assert after["a"]["digest"] == "d1"
    assert after["a"]["process"] != before["a"]["process"]
    assert (after["b"]["phase"], after["b"]["pid"]) == ("stopped", 0)
