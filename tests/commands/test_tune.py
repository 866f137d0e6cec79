"""A whole search over a machine in memory: what it finds, writes and leaves running."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.commands.explain import explain_file
from stoker.commands.plan import plan_file
from stoker.commands.tune import TuneWish, prepare_tuning
from stoker.commands.tune_answer import answer
from stoker.commands.tune_measuring import Doubt, Measured
from stoker.commands.tune_table import make_table
from stoker.errors import ApplyFailed, ContractFailed, EndpointError, UsageError
from stoker.knowledge.spaces import Wishes
from stoker.model.campaign import Effort
from stoker.model.launch import Origin
from stoker.model.tuning import Aim, Budget, Outcome, Purpose
from stoker.report.explained_text import render_explained
from stoker.report.tuning_text import render_tuning
from tests.commands.tuning import OVERLAP, STEPS, TEXT, Flags, Tuning, flat, rows, with_steps


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tuning:
    """A search in which eight steps at once are a fifth better, and nothing runs before."""
    return Tuning(monkeypatch, tmp_path, with_steps)


def outcomes(tuning: Tuning, **choices: str) -> list[Outcome]:
    """What came of the trials that had these choices."""
    wanted = {knob.replace("_", "-"): choice for knob, choice in choices.items()}
    (campaign,) = tuning.campaigns()
    return [
        trial.outcome for trial in campaign.trials if wanted.items() <= trial.configuration.items()
    ]


# --- how it ends ---


def test_a_winner_is_confirmed_written_once_and_runs(tuning: Tuning) -> None:
    done = tuning.tune()
    end = done.campaign.end
    assert end is not None
    assert end.is_improved
    assert end.low is not None
    assert 1.1 < end.low < 1.2 < (end.high or 0)
    assert tuning.running()[STEPS] == "8"
    assert sum(trial.restarted for trial in done.campaign.trials) <= 6
    text = tuning.text
    assert text.startswith("# The large one.\n")
    assert "tp: 4   # two pairs\n" in text
    assert f"evidence: {done.campaign.id}" in text
    world = tuning.kernels.world()
    started = len(tuning.kernels.started)
    plan = plan_file(world, tuning.path).plan
    assert plan.is_empty
    assert len(tuning.kernels.started) == started
    (explained,) = explain_file(world, tuning.path, flag=STEPS).explanations
    assert explained.setting is not None
    assert explained.setting.origin is Origin.TUNED
    assert done.campaign.id in render_explained(explain_file(world, tuning.path, flag=STEPS))
    shown = render_tuning(make_table(world, tuning.campaigns()[0]))
    assert f"stands in {tuning.path}" in shown
    assert f"engine.settings.{STEPS}: 8" in shown
    # It was ended, so the next one begins anew, with what was found as its baseline.
    again = tuning.tune(budget=Budget(restarts=4))
    assert len(tuning.campaigns()) == 2
    assert again.campaign.trials[0].restarted is False


def test_nothing_better_leaves_the_file_and_runs_the_baseline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tuning = Tuning(monkeypatch, tmp_path, flat)
    done = tuning.tune(budget=Budget(restarts=5))
    assert done.campaign.end is not None
    assert not done.campaign.end.is_improved
    assert done.campaign.is_closed
    assert tuning.text == TEXT
    assert STEPS not in tuning.running()
    assert "as it is" in render_tuning(make_table(tuning.kernels.world(), done.campaign))


def test_a_file_that_was_changed_meanwhile_is_left_alone(tuning: Tuning) -> None:
    edited = TEXT.replace("The large one", "Mine")

    def edit(flags: Flags, number: int) -> Measured | None:
        if number == 3:
            tuning.write(edited)
        return None

    tuning.speeds.found = edit
    done = tuning.tune()
    assert done.campaign.end is not None
    assert "changed meanwhile" in done.campaign.end.unwritten
    assert tuning.text == edited
    assert tuning.running()[STEPS] == "8"
    shown = render_tuning(make_table(tuning.kernels.world(), done.campaign))
    assert "To keep it, change:\n" in shown


# --- what does not serve ---


def test_a_liar_is_thrown_out_and_not_tried_again(tuning: Tuning) -> None:
    tuning.kernels.is_right = lambda flags: flags.get(STEPS) != "8"
    tuning.speeds.speed = lambda flags: {"8": 500.0, "4": 130.0}.get(flags.get(STEPS, ""), 100.0)
    done = tuning.tune(budget=Budget(restarts=7))
    found = outcomes(tuning, decode_steps="8")
    assert set(found) <= {Outcome.LIAR}
    assert len(found) <= 2  # the second one shows that it is this choice
    assert done.campaign.end is not None
    assert tuning.running().get(STEPS) != "8"
    assert all(flags.get(STEPS) != "8" for flags in tuning.speeds.asked)


def test_a_finalist_that_breaks_the_full_contract_is_thrown_out(tuning: Tuning) -> None:
    tuning.broken = lambda flags: (
        {"speculation": "expected the same answer; found another"} if STEPS in flags else {}
    )
    done = tuning.tune()
    assert Outcome.LIAR in outcomes(tuning, decode_steps="8")
    assert done.campaign.end is not None
    assert not done.campaign.end.is_improved
    assert tuning.text == TEXT
    assert STEPS not in tuning.running()


def test_what_the_baseline_breaks_as_well_is_no_reproach(tuning: Tuning) -> None:
    tuning.broken = lambda flags: {"regex_followed": "expected a match; found none"}
    done = tuning.tune()
    assert done.campaign.end is not None
    assert done.campaign.end.is_improved
    assert done.campaign.broken == ("regex_followed",)


def test_a_start_that_fails_is_diagnosed_and_remembered(tuning: Tuning) -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    tuning.kernels.crashes = lambda flags: log if STEPS in flags else None
    tuning.speeds.speed = flat
    done = tuning.tune()
    failed = [trial for trial in done.campaign.trials if trial.outcome is Outcome.FAILED]
    assert failed
    assert any("oom-runtime" in trial.causes for trial in failed)
    world, means = tuning.kernels.world(), tuning.means()
    prepared = prepare_tuning(world, tuning.path, TuneWish(), means=means)
    wanted = failed[0].configuration["decode-steps"]
    (known,) = answer(world, prepared, [f"decode-steps={wanted}"])
    assert f"search {done.campaign.id}" in known
    assert "a trial would tell" not in known
    tried = [tuple(sorted(trial.configuration.items())) for trial in failed]
    assert len(set(tried)) == len(tried)
    assert STEPS not in tuning.running()


def test_a_server_that_dies_while_it_is_measured_costs_its_trial(tuning: Tuning) -> None:
    def die(flags: Flags, number: int) -> Measured | None:
        if STEPS in flags:
            raise EndpointError("refused", "nobody answers")
        return None

    tuning.speeds.found = die
    done = tuning.tune()
    found = {trial.said for trial in done.campaign.trials if trial.outcome is Outcome.FAILED}
    assert found == {"nobody answers"}
    assert done.campaign.end is not None
    assert STEPS not in tuning.running()


def test_a_deployment_that_does_not_start_is_said_at_once(tuning: Tuning) -> None:
    tuning.kernels.crashes = lambda flags: "Killed\n"
    with pytest.raises(ApplyFailed):
        tuning.tune()
    (campaign,) = tuning.campaigns()
    assert (campaign.trials, campaign.under_way, campaign.end) == ((), None, None)
    tuning.kernels.crashes = lambda flags: None  # mended, the same command begins
    assert tuning.tune(budget=Budget(restarts=4)).campaign.id == campaign.id


# --- what is not believed ---


@pytest.mark.parametrize(
    ("found", "error", "words"),
    [
        (Measured(answer_seconds=9.0, values=(1.0,)), UsageError, "an answer of qwen takes 9.0 s"),
        (Measured(doubt=Doubt.TOO_SHORT, said="no"), UsageError, "no answer of qwen ended"),
        (Measured(doubt=Doubt.STARVED, said="the client lagged"), UsageError, "the client lagged"),
        (Measured(doubt=Doubt.UNANSWERED, said="HTTP 429"), ContractFailed, "HTTP 429"),
    ],
)
def test_a_baseline_that_cannot_be_measured_ends_it(
    tuning: Tuning, found: Measured, error: type[Exception], words: str
) -> None:
    tuning.speeds.found = lambda flags, number: found
    with pytest.raises(error, match=words):
        tuning.tune()
    assert tuning.running() is not None
    assert tuning.campaigns()[0].trials == ()


def test_answers_that_are_longer_than_the_load_are_not_believed(tuning: Tuning) -> None:
    slow = {
        "8": Measured(doubt=Doubt.TOO_SHORT, values=(300.0,), said="measure longer"),
        "4": Measured(doubt=Doubt.STARVED, said="the client lagged"),
        "2": Measured(doubt=Doubt.UNANSWERED, said="HTTP 500"),
    }
    tuning.speeds.found = lambda flags, number: slow.get(flags.get(STEPS, ""))
    done = tuning.tune(budget=Budget(restarts=7))
    told = {
        trial.configuration["decode-steps"]: trial.outcome
        for trial in done.campaign.trials
        if trial.purpose is not Purpose.BASELINE and trial.configuration["decode-steps"] != "1"
    }
    expected = {"8": Outcome.STOPPED, "4": Outcome.INTERRUPTED, "2": Outcome.FAILED}
    assert told
    assert told.items() <= expected.items()
    assert done.campaign.end is not None
    assert not done.campaign.end.is_improved


# --- what is asked ---


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"aim": Aim(metric="speed")}, "there is no objective speed"),
        ({"aim": Aim(metric="goodput")}, "none is given"),
        ({"aim": Aim(objectives={"ttft_ms": 5.0})}, "say nothing for throughput"),
        ({"aim": Aim(metric="goodput", objectives={"ttft_ms": -1.0})}, "above 0"),
        ({"aim": Aim(concurrencies=())}, "requests at once"),
        ({"aim": Aim(concurrencies=(8, 8))}, "named twice"),
        ({"aim": Aim(workload="nothing")}, "no workload nothing"),
        ({"effort": Effort(seconds=0.1)}, "tells nothing"),
        ({"effort": Effort(seconds=float("nan"))}, "tells nothing"),
        ({"budget": Budget(restarts=2)}, "2 restarts are too few"),
        ({"budget": Budget(minutes=0.5)}, "0.5 minutes are too few"),
    ],
)
def test_a_wish_that_is_none_is_refused_before_anything_starts(
    tuning: Tuning, wish: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        tuning.tune(**wish)
    assert tuning.kernels.started == []
    assert tuning.campaigns() == []


def test_nothing_to_vary_is_said(tuning: Tuning) -> None:
    tuning.rows = rows("nothing")
    with pytest.raises(UsageError, match="nothing can be varied for qwen"):
        tuning.tune()


def test_what_the_file_fixes_is_varied_once_it_is_freed(tuning: Tuning) -> None:
    fixed = f"    {STEPS}: 1\n"
    tuning.write(TEXT.replace("gpus: all", f"{fixed}gpus: all"))
    means, world = tuning.means(), tuning.kernels.world()
    prepared = prepare_tuning(world, tuning.path, TuneWish(), means=means)
    assert "decode-steps" not in {knob.id for knob in prepared.space.knobs}
    (no,) = answer(world, prepared, ["decode-steps=8"])
    assert "no; the deployment file sets it" in no or "sets" in no
    freed = TuneWish(wishes=Wishes(free=frozenset({"decode-steps"})))
    prepared = prepare_tuning(world, tuning.path, freed, means=means)
    (open_,) = answer(world, prepared, ["decode-steps=8"])
    assert "a trial would tell" in open_
    with pytest.raises(UsageError) as caught:
        answer(world, prepared, ["decode-steps=9"])
    assert caught.value.hint.startswith("decode-steps has: 1, 2")
    with pytest.raises(UsageError, match="decode-steps is no choice of a knob"):
        answer(world, prepared, ["decode-steps"])
    assert tuning.kernels.started == []


def test_a_variable_of_several_choices_is_found_for_latency(tuning: Tuning) -> None:
    tuning.rows = rows("overlap")
    tuning.speeds.speed = lambda flags: 1.3 if OVERLAP in flags else 1.0
    done = tuning.tune(aim=Aim(metric="latency", concurrencies=(1, 8)))
    assert done.campaign.end is not None
    assert done.campaign.end.is_improved
    assert "the speed of a whole answer" in tuning.text
    assert "1, 8 requests at once" in tuning.text
    assert any("ms from request to end" in line for line in tuning.said())
