"""A trial of a real client against the real exact server, and what is made of the truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.load_generators_tokenizer import write_tokenizer
from benchmarks.load_generators_tools import Tool
from benchmarks.load_generators_trial import Load, find_percentile, read_truth, try_tool
from tests.benchmarks.small_tool import QUICK, make_tool


def test_a_trial_tells_what_was_said_beside_what_was_true(tmp_path: Path) -> None:
    trial = try_tool(make_tool(), QUICK, tmp_path, 30.0)
    assert (trial.failure, trial.remarks) == ("", ("it was late",))
    assert trial.said is not None
    assert (trial.said.tokens_per_second, trial.said.ttft_ms, trial.said.itl_ms) == (5.0, 3.0, None)
    assert trial.truth is not None
    assert trial.truth.requests == 3
    assert trial.truth.ttft_ms >= 2.0
    assert trial.spent is not None
    assert trial.first_request_seconds is not None
    assert 0 < trial.first_request_seconds < trial.spent.wall_seconds
    assert trial.spent.peak_bytes > 0


def test_a_tool_that_doubts_its_own_figures_keeps_them(tmp_path: Path) -> None:
    trial = try_tool(make_tool(5), QUICK, tmp_path, 30.0)
    assert trial.failure == ""
    assert trial.said is not None
    assert trial.remarks == ("it was late", "exit status 5")


def test_what_comes_before_the_measured_requests_is_left_out(tmp_path: Path) -> None:
    trial = try_tool(make_tool(0, "5"), QUICK, tmp_path, 30.0)
    assert trial.truth is not None
    assert (trial.truth.requests, trial.failure) == (3, "")


@pytest.mark.parametrize(
    ("tool", "failure"),
    [
        (make_tool(3, "{requests}", "silent"), "exit status 3: no reason was given"),
        (make_tool(0, "x"), "exit status 1: ValueError: invalid literal for int()"),
        (make_tool(0, "{requests}", "silent"), "what it wrote cannot be read (FileNotFoundError)"),
        (make_tool(0, "2"), "2 of 3 requests were answered"),
        (make_tool(0, "0"), "0 of 3 requests were answered"),
    ],
)
def test_a_trial_that_fails_says_why(tmp_path: Path, tool: Tool, failure: str) -> None:
    assert try_tool(tool, QUICK, tmp_path, 30.0).failure.startswith(failure)


def test_a_tool_that_does_not_end_is_ended(tmp_path: Path) -> None:
    trial = try_tool(make_tool(0, "100000"), QUICK, tmp_path, 1.0)
    assert trial.failure == "it had not ended after 1 s"


@pytest.mark.parametrize(
    ("load", "ideal"),
    [
        (Load(name="a", concurrency=1, requests=10, tokens=64, ttft_ms=50, itl_ms=5), 175.3425),
        (Load(name="b", concurrency=64, requests=320, tokens=128), 5979.6),
        (Load(name="c", concurrency=64, requests=65, tokens=64), 65 * 64 / 1.46),
    ],
)
def test_the_ideal_rate(load: Load, ideal: float) -> None:
    assert load.ideal_tokens_per_second == pytest.approx(ideal, rel=1e-4)


def test_without_pauses_nothing_is_ideal() -> None:
    load = Load(name="flat", concurrency=1, requests=1, ttft_ms=0, itl_ms=0)
    assert load.ideal_tokens_per_second is None


def truth_line(received: float, *, is_whole: bool = True, ttft_ms: float = 10.0) -> str:
    row = {
        "received_seconds": received,
        "is_whole": is_whole,
        "is_streamed": True,
        "tokens": 5,
        "ttft_ms": ttft_ms,
        "e2e_ms": 50.0,
        "gap_mean_ms": 10.0,
        "max_late_ms": 0.5,
    }
    return json.dumps(row) + "\n"


def test_the_truth_is_of_the_last_whole_requests() -> None:
    """They are written when they end, which is not the order in which they came."""
    lines = [
        truth_line(12.0, ttft_ms=30.0),
        truth_line(10.0, is_whole=False),
        truth_line(11.0, ttft_ms=20.0),
        truth_line(9.0),
    ]
    truth = read_truth("".join(lines), 2)
    assert truth is not None
    assert (truth.requests, truth.first_seconds, truth.ttft_ms) == (2, 9.0, 25.0)
    assert truth.tokens_per_second == pytest.approx(10 / 1.05)
    assert read_truth("", 2) is None


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 2.5), (0.99, 3.97), (1, 4)])
def test_percentiles_lie_between_values(share: float, value: float) -> None:
    assert find_percentile([4, 1, 3, 2], share) == pytest.approx(value)


def test_the_made_tokenizer_has_a_character_for_each_byte(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer")
    told = json.loads((tmp_path / "tokenizer" / "tokenizer.json").read_text("utf-8"))
    words = told["model"]["vocab"]
    assert sorted(words.values()) == list(range(260))
    assert words["\u0120the"] == 259
    assert json.loads((tmp_path / "tokenizer" / "tokenizer_config.json").read_text("utf-8"))
