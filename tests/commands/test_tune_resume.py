"""A search that is interrupted or killed goes on, and ends with what it would have ended with."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from stoker.commands.tune_measuring import Measured
from stoker.knowledge.spaces import Wishes
from stoker.model.campaign import Effort
from stoker.model.layout import campaigns_folder
from stoker.model.tuning import Aim, Budget, Outcome, Trial
from tests.commands.tuning import OVERLAP, STEPS, TEXT, Flags, Tuning, rows
from tests.fakes.host import Crash
from tests.laws.worlds import FOLDERS

#: The smallest search that can confirm anything.
SMALL = Budget(restarts=4)


def without_overlap(flags: Flags) -> float:
    """Twice as fast without the overlap: two pairs are enough to be sure."""
    return 200.0 if OVERLAP in flags else 100.0


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tuning:
    """A search among two configurations."""
    made = Tuning(monkeypatch, tmp_path, without_overlap)
    made.rows = rows("overlap")
    return made


def once(tuning: Tuning, number: int, found: Measured | BaseException) -> None:
    """Answer or raise this at that measurement alone."""

    def find(flags: Flags, now: int) -> Measured | None:
        if now != number:
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    tuning.speeds.found = find


def measured(trials: tuple[Trial, ...]) -> list[Trial]:
    return [trial for trial in trials if trial.outcome is Outcome.MEASURED]


@pytest.mark.parametrize(
    "found", [Measured(was_interrupted=True, said="it was interrupted"), KeyboardInterrupt()]
)
def test_ctrl_c_leaves_the_deployment_as_it_was_and_keeps_the_progress(
    tuning: Tuning, found: Measured | BaseException
) -> None:
    once(tuning, 2, found)
    stopped = tuning.tune(budget=SMALL)
    assert stopped.was_interrupted
    assert stopped.applied is not None
    assert OVERLAP not in tuning.running()
    assert [trial.outcome for trial in stopped.campaign.trials] == [
        Outcome.MEASURED,
        Outcome.INTERRUPTED,
    ]
    done = tuning.tune(budget=Budget(restarts=6))
    assert done.campaign.id == stopped.campaign.id
    assert done.campaign.trials[:2] == stopped.campaign.trials
    assert any("going on with" in line for line in tuning.said())
    assert done.campaign.end is not None
    assert done.campaign.end.is_improved
    assert OVERLAP in tuning.running()
    assert [each.id for each in tuning.campaigns()] == [done.campaign.id]


def test_a_kill_at_any_moment_costs_one_trial_at_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """kill -9 at effects of the machine; the same command goes on. ``FULL=1`` tries all moments."""
    folder = tmp_path / "whole"
    folder.mkdir()
    moments = count_moments(monkeypatch, folder)
    step = 1 if os.environ.get("FULL") else max(moments // 3, 1)
    for moment in range(30, moments, step):
        folder = tmp_path / str(moment)
        folder.mkdir()
        kill_at(monkeypatch, folder, moment)


def count_moments(monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    tuning = Tuning(monkeypatch, folder, without_overlap)
    tuning.rows = rows("overlap")
    moments = 0

    def count(moment: str, effect: str) -> None:
        nonlocal moments
        moments += 1

    machine = tuning.kernels.machine
    machine.host.fuse = machine.supervisor.fuse = count
    assert tuning.tune(budget=SMALL).campaign.end is not None
    return moments


def kill_at(monkeypatch: pytest.MonkeyPatch, folder: Path, moment: int) -> None:
    tuning = Tuning(monkeypatch, folder, without_overlap)
    tuning.rows = rows("overlap")
    tuning.kernels.machine.crash_after(moment)
    with suppress(Crash):
        tuning.tune(budget=SMALL)
    assert tuning.kernels.machine.revive()
    assert tuning.text  # what was written before the kill lies on the disk
    before = tuning.campaigns()
    # What was under way is counted as a restart, so there is one more for it.
    done = tuning.tune(budget=Budget(restarts=6))
    (campaign,) = tuning.campaigns()
    assert campaign == done.campaign
    assert campaign.is_closed
    assert campaign.under_way is None
    known = before[0].trials if before else ()
    assert campaign.trials[: len(known)] == known, f"lost a trial, killed at {moment}"
    cut = [trial for trial in campaign.trials if trial.outcome is Outcome.INTERRUPTED]
    assert len(cut) <= 1
    assert campaign.end is not None
    if campaign.end.is_improved:
        assert OVERLAP in tuning.running()
        assert f"evidence: {campaign.id}" in tuning.text
        assert tuning.text.count(OVERLAP) == 2  # set, and named by the mark
    else:
        assert OVERLAP not in tuning.running()
        assert tuning.text == TEXT


@pytest.mark.parametrize("effect", ["campaign", "file"])
def test_a_kill_around_the_end_is_brought_to_its_end(tuning: Tuning, effect: str) -> None:
    """After the end was decided, and after the file was written."""
    host = tuning.kernels.machine.host
    is_decided = False

    def burn(moment: str, what: str) -> None:
        nonlocal is_decided
        campaign_written = campaigns_folder(FOLDERS) in what
        if moment == "after" and campaign_written:
            is_decided = bool(tuning.campaigns()) and tuning.campaigns()[0].end is not None
        is_file = moment == "after" and tuning.path in what
        if (effect == "campaign" and is_decided) or (effect == "file" and is_file):
            raise Crash(f"{moment} {what}")

    host.fuse = burn
    with pytest.raises(Crash):
        tuning.tune(budget=SMALL)
    host.fuse = None
    (killed,) = tuning.campaigns()
    assert killed.end is not None
    assert not killed.is_closed
    assert (tuning.text != TEXT) is (effect == "file")
    asked = len(tuning.speeds.asked)
    done = tuning.tune(budget=SMALL)
    assert done.campaign.id == killed.id
    assert done.campaign.is_closed
    assert len(tuning.speeds.asked) == asked
    assert OVERLAP in tuning.running()
    assert f"evidence: {killed.id}" in tuning.text


def test_only_the_same_wish_goes_on(tuning: Tuning, tmp_path: Path) -> None:
    workload = tmp_path / "w.toml"
    text = (
        'title = "Tiny"\nshape = "chat"\ntext = "prose"\n'
        "prompt_tokens = { median = 32 }\noutput_tokens = { median = 24 }\n"
        'source = { kind = "inferred", where = "a test", date = "2026-12-01" }\n'
    )
    workload.write_text(text)
    aim = Aim(workload=str(workload))
    once(tuning, 1, Measured(was_interrupted=True))
    first = tuning.tune(aim=aim, budget=SMALL).campaign.id
    for wish in (
        {"aim": aim, "effort": Effort(seed=1)},
        {"aim": aim, "wishes": Wishes(consents=frozenset({"overlap"}))},
        {"aim": aim, "is_fresh": True},
    ):
        once(tuning, len(tuning.speeds.asked) + 1, Measured(was_interrupted=True))
        assert tuning.tune(budget=SMALL, **wish).campaign.id != first
    assert any("another was asked for" in line for line in tuning.said())
    workload.write_text(text.replace("24", "25"))
    once(tuning, len(tuning.speeds.asked) + 1, Measured(was_interrupted=True))
    assert tuning.tune(aim=aim, budget=SMALL).campaign.id != first
    workload.write_text(text)
    tuning.write(TEXT.replace("# The", "# A"))
    once(tuning, len(tuning.speeds.asked) + 1, Measured(was_interrupted=True))
    assert tuning.tune(aim=aim, budget=SMALL).campaign.id != first
    assert any("the file has changed" in line for line in tuning.said())


def test_a_damaged_search_is_not_gone_on_with(tuning: Tuning) -> None:
    once(tuning, 1, Measured(was_interrupted=True))
    first = tuning.tune(budget=SMALL).campaign
    path = f"{campaigns_folder(FOLDERS)}/{first.id}.json"
    tuning.kernels.machine.host.put(path, "{")
    once(tuning, len(tuning.speeds.asked) + 1, Measured(was_interrupted=True))
    done = tuning.tune(budget=SMALL)
    assert done.campaign.id != first.id
    assert STEPS not in tuning.running()
