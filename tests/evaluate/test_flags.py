"""The report on flags: what is tried, and what an answer of a parser is taken for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.evaluate.flags import (
    Place,
    Score,
    evaluate_place,
    find_places,
    judge,
    main,
    make_trials,
    render_scores,
)
from stoker.knowledge.engines import load_catalogue

CATALOGUE = load_catalogue("sglang", "0.5.23")
TRIALS = list(make_trials(CATALOGUE))


def perfect() -> dict[str, Any]:
    """The answer of a parser that judges everything as Stoker does."""
    return {
        "options": [{"names": list(option.names)} for option in CATALOGUE.options],
        "results": ["no" if trial.wanted == "refused" else "" for trial in TRIALS],
    }


def score_of(answer: dict[str, Any]) -> Score:
    return judge(CATALOGUE, TRIALS, answer, how="installed")


def test_every_name_and_every_choice_is_tried() -> None:
    tried = {trial.about for trial in TRIALS}
    assert {name for option in CATALOGUE.options for name in option.names} <= tried
    assert "--attention-backend triton" in tried
    words = {trial.about: trial.words for trial in TRIALS}
    assert words["--tp-size"] == ("--model-path", "/m", "--tp-size", "1")
    assert words["--enable-metrics"] == ("--model-path", "/m", "--enable-metrics")


def test_a_parser_that_agrees() -> None:
    score = score_of(perfect())
    assert score.is_right
    assert (score.options, score.names) == (531, 559)
    assert "| sglang 0.5.23 | installed | 531 | 559 of 559 |" in render_scores([score])


@pytest.mark.parametrize("wanted", ["taken", "refused"])
def test_a_parser_that_judges_otherwise(wanted: str) -> None:
    answer = perfect()
    place = next(n for n, trial in enumerate(TRIALS) if trial.wanted == wanted)
    answer["results"][place] = "no" if wanted == "taken" else ""
    score = score_of(answer)
    assert not score.is_right
    assert TRIALS[place].about in render_scores([score])


def test_one_of_several_values_must_do() -> None:
    answer = perfect()
    about = next(trial.about for trial in TRIALS if trial.wanted == "any")
    places = [n for n, trial in enumerate(TRIALS) if trial.about == about]
    for place in places[1:]:
        answer["results"][place] = "no"
    assert score_of(answer).is_right
    answer["results"][places[0]] = "no"
    assert not score_of(answer).is_right


def test_flags_that_one_of_both_lacks() -> None:
    answer = perfect()
    answer["options"] = [*answer["options"][1:], {"names": ["--new"]}]
    score = score_of(answer)
    assert score.missing == ("--new",)
    assert score.unknown == CATALOGUE.options[0].names
    assert not score.is_right


def test_releases_are_found_by_their_names(tmp_path: Path) -> None:
    for path in (
        "e/sglang-0.5.23/bin/python3",
        "s/sglang-0.5.9/sglang/x.py",
        "s/vllm-0.32.0/vllm/x",
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    found = find_places(tmp_path / "e", tmp_path / "s")
    # Sources of an engine without any environment have no Python to run in.
    assert [(each.build, bool(each.sources)) for each in found] == [
        ("0.5.23", False),
        ("0.5.9", True),
    ]


def test_an_engine_that_cannot_be_asked(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho no torch >&2\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    score = evaluate_place(Place(kind="sglang", build="0.5.23", python=str(python)))
    assert score.error == "no torch"
    assert "could not be asked: no torch" in render_scores([score])
    lost = evaluate_place(Place(kind="sglang", build="0.5.23", python=str(tmp_path / "no")))
    assert "no program" in lost.error


def test_nothing_to_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--environments", str(tmp_path), "--sources", str(tmp_path), "--json"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "no release lies in" in capsys.readouterr().err


def test_as_json() -> None:
    score = score_of(perfect())
    assert json.loads(json.dumps(score.as_document()))["is_right"] is True
