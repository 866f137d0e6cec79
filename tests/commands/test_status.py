"""What status says of a guarded service, phase by phase."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.commands.status import read_status
from stoker.guard.words import GuardStatus
from stoker.model.document import parse_document, render_document
from stoker.model.layout import guard_status_path, verification_path
from tests.laws.worlds import FOLDERS, NAME, Machine, apply_variant, stop

STATUS = guard_status_path(FOLDERS, NAME)


@pytest.fixture
def machine() -> Machine:
    """A machine on which the deployment runs, verified by its guard alone."""
    machine = Machine()
    apply_variant("a")(machine.world())
    machine.host.remove_file(verification_path(FOLDERS, NAME))
    return machine


def says(machine: Machine, **changes: object) -> tuple[str, bool, str]:
    """The phase, whether it is verified, and the detail, after the guard said this."""
    now = parse_document(machine.host.read_text(STATUS), GuardStatus)
    machine.host.put(STATUS, render_document(replace(now, **changes)))  # type: ignore[arg-type]
    (one,) = read_status(machine.world()).deployments
    return one.phase, one.verified, one.detail


def test_ready_needs_no_words(machine: Machine) -> None:
    assert says(machine) == ("ready", True, "")


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        ("loading-weights", "loading weights 62 %, about 3 min left"),
        ("verifying", "verifying, not kept yet: chat_answer: expected text; found none"),
    ],
)
def test_it_runs_for_its_supervisor_long_before_it_is_ready(
    machine: Machine, phase: str, text: str
) -> None:
    told = says(machine, phase=phase, verified=False, text=text)
    assert told == ("starting", False, text)


def test_a_doubt_is_shown(machine: Machine) -> None:
    text = "ready, in doubt: expected an answer; found none within 120 s"
    assert says(machine, text=text) == ("ready", True, text)


def test_the_word_of_another_guard_does_not_count(machine: Machine) -> None:
    assert says(machine, guard="4711:1") == ("running", False, "")


def test_nothing_is_verified_that_does_not_run(machine: Machine) -> None:
    stop(machine.world())
    assert says(machine)[:2] == ("stopped", False)


def test_what_a_dead_supervisor_left_is_not_called_ready(machine: Machine) -> None:
    machine.supervisor.die()
    phase, is_verified, detail = says(machine)
    assert (phase, is_verified) == ("unknown", False)
    assert "left" in detail


def test_why_it_ended_is_told_by_its_guard(machine: Machine) -> None:
    machine.supervisor.crash(NAME)
    text = "ended: it ended with status 1 while loading weights"
    phase, is_verified, detail = says(machine, text=text, phase="ended", verified=False)
    assert (phase, is_verified) == ("failed", False)
    assert detail == f"{text}; the process ended"
    assert says(machine, text=text, digest="another definition")[2] == "the process ended"
