"""The report: its rounds, its time, its medians and what it says of Stoker's aims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.load_generators import LOADS, Budget, Rounds, main, prepare, run_rounds
from benchmarks.load_generators_report import judge, render, sum_up
from benchmarks.load_generators_tools import OURS, Said, Tool, load_tools
from benchmarks.load_generators_trial import Load, Spent, Trial, Truth
from tests.benchmarks.small_tool import QUICK, make_tool

C64 = next(load for load in LOADS if load.concurrency == 64)
C512 = next(load for load in LOADS if load.concurrency == 512)
FLAT = next(load for load in LOADS if not load.itl_ms)
IDEAL = C64.ideal_tokens_per_second or 0.0


def trial_of(
    tool: str, load: Load, rate: float, ttft_ms: float = 101.0, itl_ms: float = 10.0
) -> Trial:
    return Trial(
        tool=tool,
        load=load,
        truth=Truth(
            requests=load.requests,
            tokens_per_second=rate,
            ttft_ms=100.0,
            ttft_p99_ms=104.0,
            itl_ms=10.0,
            max_late_ms=0.3,
            first_seconds=10.4,
        ),
        said=Said(tokens_per_second=rate, ttft_ms=ttft_ms, ttft_p99_ms=108.0, itl_ms=itl_ms),
        spent=Spent(
            status=0, started_seconds=10.0, wall_seconds=4.0, cpu_seconds=1.0, peak_bytes=10**7
        ),
    )


def failed(tool: str, load: Load) -> Trial:
    return Trial(tool=tool, load=load, failure="it broke")


def test_a_row_holds_medians_and_errors_against_the_truth() -> None:
    trials = [trial_of(OURS, C64, IDEAL * share) for share in (0.5, 0.98, 0.9)]
    trials += [failed(OURS, C64), trial_of(OURS, C512, 1.0)]
    (row,) = sum_up(trials, C64)
    assert (row.tries, row.whole, row.notes) == (4, 3, ("it broke",))
    assert row.share == pytest.approx(0.9)
    assert row.errors["ttft_ms"] == pytest.approx(1.0)
    assert row.errors["ttft_p99_ms"] == pytest.approx(4.0)
    assert row.first_seconds == pytest.approx(0.4)


@pytest.mark.parametrize(("load", "is_told"), [(C64, True), (FLAT, False)])
def test_a_server_that_was_late_is_told(load: Load, is_told: bool) -> None:
    trial = trial_of(OURS, load, 1.0)
    assert trial.truth is not None
    late = replace(trial, truth=replace(trial.truth, max_late_ms=70.0))
    (row,) = sum_up([late], load)
    assert any("the server was up to 70 ms late" in note for note in row.notes) is is_told


def test_without_pauses_the_best_tool_is_the_measure() -> None:
    trials = [trial_of("vllm", FLAT, 100.0), trial_of(OURS, FLAT, 50.0), failed("aiperf", FLAT)]
    rows = sum_up(trials, FLAT)
    assert [(row.tool, row.share) for row in rows] == [(OURS, 0.5), ("aiperf", None), ("vllm", 1.0)]
    assert {row.errors["itl"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("trial", "kept"),
    [
        (trial_of(OURS, C64, IDEAL * 0.98), ["yes", "yes", "yes", "yes"]),
        (trial_of(OURS, C64, IDEAL * 0.96), ["NO", "yes", "yes", "yes"]),
        (trial_of(OURS, C64, IDEAL, ttft_ms=89.0), ["yes", "NO", "yes", "yes"]),
        (trial_of(OURS, C64, IDEAL, itl_ms=10.2), ["yes", "yes", "NO", "yes"]),
        (failed(OURS, C64), []),
    ],
)
def test_aims_are_judged(trial: Trial, kept: Sequence[str]) -> None:
    assert [aim[2] for aim in judge([trial], LOADS)] == kept


def test_at_512_the_best_tool_is_the_measure() -> None:
    trials = [trial_of(OURS, C512, 30_000.0, itl_ms=10.15), trial_of("vllm", C512, 30_500.0)]
    aims = judge(trials, LOADS)
    assert aims[0] == ("512 at once: 97% of the best rival's tokens/s", "98.4%", "yes")
    assert aims[2] == ("512 at once: mean ITL within 2%", "+1.50%", "yes")


def test_at_512_nothing_is_claimed_without_a_rival() -> None:
    aims = judge([trial_of(OURS, C512, 5_000.0), failed("vllm", C512)], LOADS)
    assert aims[0] == ("512 at once: 97% of the best rival's tokens/s", "no rival ran", "?")


def test_the_report_tells_the_load_the_rows_the_notes_and_the_definitions() -> None:
    doubted = replace(trial_of(OURS, C64, IDEAL), remarks=("it was late",))
    text = render([doubted, failed("vllm", C64)], LOADS, load_tools())
    assert "c64: 320 requests of 64 tokens, 64 at once; TTFT 100 ms, ITL 10 ms; ideal" in text
    assert "\n  stoker: it was late\n  vllm: it broke\n" in text
    assert "vllm: tokens by the server's usage" in text
    assert "aiperf:" not in text
    assert "c512" not in text


# --- rounds ---


def test_every_tool_has_the_same_tries_and_none_always_goes_first(tmp_path: Path) -> None:
    tools = [replace(make_tool(), name=name) for name in ("one", "two")]
    rounds = Rounds(folder=tmp_path, budget=Budget(None), kept=tmp_path / "kept")
    trials = run_rounds(tools, [QUICK], 2, rounds)
    assert [trial.tool for trial in trials] == ["one", "two", "two", "one"]
    assert [trial.failure for trial in trials] == [""] * 4
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["quick-one", "quick-two"]


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    trials = run_rounds([make_tool()], [QUICK], 3, Rounds(folder=tmp_path, budget=Budget(-1.0)))
    assert [trial.failure for trial in trials] == ["no time was left"]


def test_a_tool_that_would_take_too_long_to_install_is_told() -> None:
    missing = Tool(
        name="slow",
        program=".cache/rivals/slow-1/bin/slow",
        argv=(),
        result="",
        figures={},
        legend="",
        install=("slow==1",),
        install_seconds=100.0,
    )
    here = make_tool()
    told = prepare([missing, here], LOADS, Budget(150.0), may_install=True)
    reason = "installing it takes about 100 s, which is more than is left"
    assert told == ([here], [f"slow: {reason}; to have it: FULL=1 make bench-report"])
    told = prepare([missing, here], LOADS, Budget(None), may_install=False)
    assert told[1] == ["slow: it is not installed; to have it: FULL=1 make bench-report"]


def test_the_command_measures_stoker_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--tool", OURS, "--load", "c64", "--tries", "1", "--no-install"]
    file = tmp_path / "report.json"
    assert main([*words, "--concurrency", "2", "--requests", "4", "--json", str(file)]) == 0
    assert "4 requests of 64 tokens, 2 at once" in capsys.readouterr().out
    (trial,) = json.loads(file.read_text("utf-8"))["trials"]
    assert trial["failure"] == ""
    assert trial["truth"]["requests"] == 4
