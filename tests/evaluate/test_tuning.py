"""The report of tuning: surfaces, replay, rivals, figures."""

import json
from math import exp, log
from pathlib import Path
from random import Random

import pytest

from stoker.errors import UsageError
from stoker.evaluate.tuning import GOAL, Score, describe, main, render, score, sum_up
from stoker.evaluate.tuning_methods import (
    ONE_BY_ONE,
    OURS,
    OURS_BLIND,
    RANDOM,
    TPE,
    Course,
    has_optuna,
    run_method,
)
from stoker.evaluate.tuning_surfaces import Replay, Surface, read_surface, read_surfaces
from stoker.model.facts import Plain
from stoker.model.tuning import Outcome
from stoker.tuning.grid import to_point
from stoker.tuning.steps import Finish

SURFACES = Path(__file__).parents[1] / "tuning" / "surfaces"

SMALL: dict[str, Plain] = {
    "schema": "surface/1",
    "name": "small",
    "title": "Two knobs, recorded by hand.",
    "knobs": [
        {"id": "threads", "choices": ["1", "2", "4"], "default": "1", "is_ordered": True},
        {"id": "attention", "choices": ["off", "on"], "default": "off", "priors": {"on": 0.1}},
        {
            "id": "policy",
            "choices": ["fcfs", "lpm"],
            "default": "fcfs",
            "restarts": False,
            "only_with": {"attention": ["on"]},
        },
    ],
    "cuts": [],
}


def point(threads: str, attention: str, policy: str, *values: float) -> dict[str, Plain]:
    chosen = {"threads": threads, "attention": attention, "policy": policy}
    return {"configuration": chosen, "values": list(values)}


POINTS = [
    point("1", "off", "fcfs", 10.0, 10.2),
    point("2", "off", "fcfs", 14.0, 14.1),
    point("4", "off", "fcfs", 13.0, 13.1),
    point("1", "on", "fcfs", 11.0, 11.2),
    point("1", "on", "lpm", 11.5, 11.6),
    point("2", "on", "fcfs", 16.0, 16.1),
    point("2", "on", "lpm", 17.0, 17.2),
    {**point("4", "on", "fcfs"), "status": "failed", "causes": ["main_memory_short"]},
    {**point("4", "on", "lpm"), "status": "refused"},
]


def write(folder: Path, **others: Plain) -> Path:
    path = folder / "small.json"
    path.write_text(json.dumps({**SMALL, "points": POINTS, **others}), "utf-8")
    return path


@pytest.fixture
def small(tmp_path: Path) -> Surface:
    return read_surface(write(tmp_path))


def test_a_recorded_surface_is_read(small: Surface) -> None:
    assert len(small.spots) == 9
    assert small.restarts == 6
    assert exp(small.best) == pytest.approx((17.0 * 17.2) ** 0.5)
    assert small.is_recorded
    assert not small.is_flat
    # The recorded repetitions' own deviation, not that of their means.
    assert small.spread == pytest.approx(0.0075, abs=0.002)


@pytest.mark.parametrize(
    "others",
    [{"points": POINTS[:-1]}, {"points": [point("3", "on", "lpm", 1.0)]}, {"schema": "surface/2"}],
)
def test_a_surface_that_is_not_whole_is_refused(tmp_path: Path, others: dict[str, Plain]) -> None:
    with pytest.raises(UsageError):
        read_surface(write(tmp_path, **others))


def test_replay_counts_restarts(small: Surface) -> None:
    replay = Replay(surface=small, chance=Random(1))

    def measure(**chosen: str) -> tuple[Outcome, bool, int]:
        found = to_point(small.grid, chosen)
        assert found is not None
        outcome, _, restarted = replay.measure(found)
        return outcome, restarted, replay.restarts

    assert measure(attention="on") == (Outcome.MEASURED, True, 1)
    assert measure(attention="on", policy="lpm") == (Outcome.MEASURED, False, 1)
    assert measure(attention="on", policy="lpm", threads="4") == (Outcome.REFUSED, False, 1)
    assert measure(attention="on", policy="lpm") == (Outcome.MEASURED, False, 1)
    assert measure(attention="on", threads="4") == (Outcome.FAILED, True, 2)
    assert measure(attention="on", policy="lpm") == (Outcome.MEASURED, True, 3)


def test_replayed_noise_is_what_was_recorded(small: Surface) -> None:
    replay = Replay(surface=small, chance=Random(2))
    truth = small.spots[small.grid.baseline].value
    values = [replay.measure(small.grid.baseline)[1] for _ in range(50)]
    drawn = {round(log(value) - truth, 9) for value in values if value}
    assert drawn <= {round(each, 9) for each in small.residuals}


@pytest.mark.parametrize("method", [OURS, OURS_BLIND, RANDOM, ONE_BY_ONE, TPE])
def test_every_method_finds_the_best_of_a_small_grid(small: Surface, method: str) -> None:
    if method == TPE and not has_optuna():
        pytest.skip("optuna is not installed")
    goal = small.best + log(GOAL)
    courses = [run_method(method, small, seed, goal) for seed in range(3)]
    assert all(course.reach(goal) is not None for course in courses)
    assert courses[0] == run_method(method, small, 0, goal)


def test_all_surfaces_here_are_whole() -> None:
    surfaces = read_surfaces(SURFACES)
    assert len(surfaces) >= 8
    assert sum(each.is_flat for each in surfaces) >= 2


def test_recorded_surfaces_were_measured_more_than_once() -> None:
    recorded = [each for each in read_surfaces(SURFACES) if each.is_recorded]
    assert len(recorded) >= 3
    assert all(each.spread > 0 or each.incomplete for each in recorded)


@pytest.mark.parametrize("name", ["additive", "llamacpp-mixture-8"])
def test_a_tenth_of_the_grid_is_enough_for_nearly_the_best(name: str) -> None:
    surface = read_surface(SURFACES / f"{name}.json")
    goal = surface.best + log(GOAL)
    courses = [run_method(OURS, surface, seed, goal) for seed in range(4)]
    needed = sorted(course.reach(goal) or surface.restarts for course in courses)
    assert needed[2] <= 0.10 * surface.restarts


def test_scores_count_what_was_never_reached_as_endless(small: Surface) -> None:
    good, bad = small.best, small.best - 0.2
    best = next(each for each, spot in small.spots.items() if spot.value == small.best)
    assert best is not None
    flat = Finish(
        configuration={"threads": "1", "attention": "off", "policy": "fcfs"},
        is_improved=True,
        reason="",
    )
    courses = [
        Course(believed=(float("-inf"), bad, good)),
        Course(believed=(float("-inf"), good), finish=flat),
        Course(believed=(float("-inf"), bad, bad)),
    ]
    found = score(small, OURS, courses)
    assert found.reached == (2, 1, None)
    assert found.median == 2
    assert found.percentile(0.9) is None
    assert (found.claimed, found.false) == (1, 1)
    assert found.regrets[0] == pytest.approx(100 * (1 - exp(-0.2)) / 3)


def test_the_aims_are_against_the_best_rival(small: Surface) -> None:
    scores = [
        Score(method=OURS, reached=(2, 2, 2), regrets=(0, 0, 0)),
        Score(method=RANDOM, reached=(8, 8, 8), regrets=(0, 0, 0)),
        Score(method=ONE_BY_ONE, reached=(5, 5, 5), regrets=(0, 0, 0)),
    ]
    told = describe(small, scores)
    assert told["aims"][OURS] == {"share_of_grid": 2 / 6, "share_of_best_rival": 0.4}
    summary = sum_up({"small": told})[OURS]
    assert summary["within_half_of_best_rival"] == 1
    assert summary["within_share_of_grid"] == 0
    assert "9 configurations, 6 restarts" in render(small, scores)


def test_the_report_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    main([str(tmp_path), "--json", "--seeds", "2", "--at-once", "1"])
    told = json.loads(capsys.readouterr().out)
    assert told["surfaces"]["small"]["methods"][OURS]["seeds"] == 2
    assert set(told["summary"]) == {OURS, OURS_BLIND}


def test_a_folder_without_surfaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no such surface"):
        main([str(tmp_path)])
