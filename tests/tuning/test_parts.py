"""The parts of the search: numbers of points, blame, quantiles, factors, sentences."""

from math import sqrt
from random import Random

import pytest

from stoker.model.tuning import Outcome, Purpose, Trial
from stoker.tuning.belief import Belief, Row
from stoker.tuning.blame import find_faults, to_cut
from stoker.tuning.explaining import explain_choice
from stoker.tuning.grid import find_cut, list_points, make_canonical, make_grid, to_point
from stoker.tuning.student import find_ratio
from stoker.tuning.triangular import factorise, solve_forward
from tests.tuning.campaigns import SPACE

GRID = make_grid(SPACE)
DEFAULTS = {each.id: each.default for each in SPACE.knobs}


def trial(number: int, outcome: Outcome, causes: tuple[str, ...] = (), **chosen: str) -> Trial:
    return Trial(
        number=number,
        configuration={**DEFAULTS, **chosen},
        purpose=Purpose.PROPOSAL,
        outcome=outcome,
        values=(100.0 + number,) if outcome is Outcome.MEASURED else (),
        causes=causes,
    )


def test_a_knob_that_means_nothing_has_its_default() -> None:
    assert to_point(GRID, {"topk": "4"}) == GRID.baseline
    points = list(list_points(GRID))
    assert len(points) == len(set(points))
    assert all(make_canonical(GRID, point) == point for point in points)
    # 3 attentions x (off + eagle with 3 topk) x 2 x 3, less fa3 with topk 2 or 4.
    assert len(points) == (3 * 4 - 2) * 2 * 3


def test_a_cut_binds_only_what_means_something() -> None:
    forbidden = to_point(GRID, {"speculation": "eagle", "topk": "2", "attention": "fa3"})
    assert forbidden is not None
    assert find_cut(GRID, forbidden) is SPACE.cuts[0]
    idle = to_point(GRID, {"topk": "2", "attention": "fa3"})
    assert idle is not None
    assert find_cut(GRID, idle) is None


def test_a_choice_that_the_space_lacks_is_no_point() -> None:
    assert to_point(GRID, {"topk": "3"}) is None


def test_one_pair_bounds_nothing() -> None:
    ratio = find_ratio([0.1], 0.95)
    assert (ratio.low, ratio.high) == (0.0, float("inf"))


def test_a_factor_gives_back_its_matrix() -> None:
    lower = [[4.0], [2.0, 5.0], [1.0, 3.0, 6.0]]
    factor = factorise(lower)
    for i, row in enumerate(lower):
        for j, value in enumerate(row):
            assert sum(a * b for a, b in zip(factor[i], factor[j], strict=False)) == pytest.approx(
                value
            )
    solved = solve_forward(factor, [4.0, 7.0, 10.0])
    assert factor[2][0] * solved[0] + factor[2][1] * solved[1] + factor[2][2] * solved[2] == (
        pytest.approx(10.0)
    )


def test_belief_finds_the_knob_that_matters() -> None:
    chance = Random(5)
    points = list(list_points(GRID))
    chance.shuffle(points)
    rows = [
        Row(point=point, value=0.3 * (point[1] == 1) + chance.gauss(0, 0.01), moment=float(n))
        for n, point in enumerate([GRID.baseline, *points[:12]])
    ]
    belief = Belief(GRID, rows, chance)
    strengths = belief.strengths
    assert strengths.knobs[1] == max(strengths.knobs)
    eagle = to_point(GRID, {"speculation": "eagle"})
    assert eagle is not None
    gain = belief.guess(eagle).mean - belief.guess(GRID.baseline).mean
    assert gain == pytest.approx(0.3, abs=0.05)
    assert belief.guess(eagle).deviation < 0.1 * sqrt(2)


def test_only_what_no_good_trial_had_is_suspected() -> None:
    trials = [
        trial(1, Outcome.MEASURED),
        trial(2, Outcome.MEASURED, attention="fa3"),
        trial(3, Outcome.FAILED, attention="fa3", graphs="256"),
        trial(4, Outcome.FAILED, attention="flashinfer", graphs="256", speculation="eagle"),
        trial(5, Outcome.FAILED, graphs="256", policy="lpm"),
    ]
    faults = find_faults(GRID, trials, {})
    assert [dict(to_cut(GRID, *shown).where) for shown in faults.shown] == [{"graphs": ("256",)}]
    assert faults.suspects == ()


def test_a_known_cut_explains_later_failures() -> None:
    blamed = {"graphs_too_large": ("graphs",)}
    trials = [
        trial(1, Outcome.MEASURED),
        trial(2, Outcome.FAILED, ("graphs_too_large",), attention="fa3", graphs="256"),
        trial(3, Outcome.FAILED, policy="lpm", graphs="256"),
    ]
    faults = find_faults(GRID, trials, blamed)
    assert len(faults.shown) == 1
    assert faults.suspects == ()


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        (
            {"speculation": "eagle", "topk": "2", "attention": "fa3"},
            ("speculation eagle, topk 2, attention fa3: no; fa3 verifies one branch only (the "
            "engine's own check)."),
        ),
        ({"topk": "2"}, "topk 2: topk means nothing without speculation eagle."),
        ({"topk": "3"}, "topk 3: not known here; topk has 1, 2, 4."),
        ({"nothing": "3"}, ("nothing 3: not known here; the knobs are attention, speculation, "
            "topk, policy, graphs.")),
        ({"policy": "lpm"}, "policy lpm: nothing speaks against it; a trial would tell."),
        ({"graphs": "64"}, "graphs 64: measured at +2.0 % against the baseline (trial 3)."),
        ({"graphs": "256"}, "graphs 256: no; graphs 256: graphs_too_large (trial 2)."),
    ],
)  # fmt: skip
def test_a_wish_is_answered_without_a_trial(wish: dict[str, str], answer: str) -> None:
    trials = [
        trial(1, Outcome.MEASURED),
        trial(2, Outcome.FAILED, ("graphs_too_large",), attention="fa3", graphs="256"),
        trial(3, Outcome.MEASURED, graphs="64"),
    ]
    assert explain_choice(SPACE, trials, wish, {"graphs_too_large": ("graphs",)}) == answer
