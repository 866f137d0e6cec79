"""A benchmark in the terminal: what was measured stands beside every figure, in lines that fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from stoker.model.benchmark import ClientHealth, Lengths, Served
from stoker.report.benchmark_text import render_benchmark, render_benchmarks
from tests.report.benchmarks import WORKLOAD, benchmark, latency, point, poisson, rate

STARVED = ClientHealth(complaints=("its loop was late by 90 ms \x1b[31m",))
SWEEP = benchmark(*(point(each) for each in (1, 8, 64, 512)))


def test_what_was_measured_comes_first() -> None:
    text = render_benchmark(SWEEP)
    for said in (
        "benchmark 20261201-020500-a1b2, started 2026-12-01T02:05:00Z",
        "kimi, sglang 0.5.23, model acme/large, http://127.0.0.1:30000",
        "verified    yes, 2026-12-01T02:00:00Z",
        "chat (questions of a chat), prompts of 256 tokens, answers of 128",
        "30.0 s, 200 requests at each load; left out: warm-up (1 to 512",
        "TTFT <= 500 ms, TPOT <= 30 ms",
    ):
        assert said in text


def test_a_server_that_was_not_verified_says_so() -> None:
    unknown = Served(url="http://h:1", model="m")
    text = render_benchmark(benchmark(served=unknown))
    assert "NOT VERIFIED" in text
    assert "engine not known, model m" in text


def test_a_row_for_each_load_with_intervals() -> None:
    lines = render_benchmark(SWEEP, width=200).splitlines()
    head = next(line for line in lines if line.startswith("CONCURRENCY"))
    row = next(line for line in lines if line.lstrip().startswith("8 "))
    assert re.split(r"\s{2,}", head) == [
        "CONCURRENCY",
        "TOKENS/S OUT",
        "IN",
        "REQ/S",
        "GOODPUT",
        "FAILED",
        *(cell for each in ("TTFT", "ITL", "TPOT", "E2E") for cell in (f"{each} P50", "P99")),
    ]
    assert row.split()[:9] == ["8", "1,500", "±30", "3,000", "±60", "11.7", "±0.2", "9.38", "±0.19"]
    assert "64.6 ±3.2" in row


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160, 240])
def test_lines_fit_the_terminal(width: int) -> None:
    odd = replace(
        benchmark(
            *(replace(point(each), server={"queued_requests": 1.5}) for each in range(1, 40, 3)),
            point(256, failed=3),
        ),
        notes=("a note that is so long that it has to be broken into lines somewhere",),
    )
    text = render_benchmark(odd, width=width, is_verbose=True)
    # Nothing is broken below 60: a name, a digest and the words of the server stay whole.
    longest = max(width, 64)
    wide = [line for line in text.splitlines() if len(line) > longest and "digest of" not in line]
    assert wide == []


def test_a_narrow_terminal_gets_one_figure_a_line() -> None:
    text = render_benchmark(SWEEP, width=40)
    assert "concurrency 8\n  TOKENS/S OUT  1,500 ±30\n" in text
    assert "  TTFT P99      150 ms\n" in text


def test_a_starved_client_complains_instead_of_telling_figures() -> None:
    text = render_benchmark(benchmark(point(8), point(512, health=STARVED)))
    row = next(line for line in text.splitlines() if line.startswith("        512"))
    assert row.split() == ["512", "no", "result", "-", "-", "-", "0"]
    assert "concurrency 512: NO RESULT, what was measured is the client" in text
    assert "  - its loop was late by 90 ms \\x1b[31m" in text


def test_what_was_interrupted_or_failed_is_told() -> None:
    point_ = replace(
        point(8, was_interrupted=True),
        errors={f"reason {number}": number for number in range(1, 9)},
        notes=("usage was missing",),
    )
    text = render_benchmark(benchmark(point_))
    assert "         8*" in text
    assert "* concurrency 8 was interrupted; these are the figures until then" in text
    assert "concurrency 8: 36 requests failed:\n  8 x reason 8\n" in text
    assert "and 3 other reasons" in text
    assert "note: concurrency 8: usage was missing" in text


def test_the_servers_own_word_stands_beside() -> None:
    told = {"cache_hit_share": 0.5, "queued_requests": 3.0, "queued_requests_most": 9.0, "x_y": 2}
    text = render_benchmark(benchmark(replace(point(8), server=told)))
    lines = text.partition("itself told:\n")[2].splitlines()
    assert [re.split(r"\s{2,}", line) for line in lines] == [
        ["concurrency", "8"],
        ["tokens of a prompt, in the mean", "256"],
        ["tokens of an answer, in the mean", "128"],
        ["prompt tokens from the cache, by usage", "50.0 %"],
        ["prompt tokens from the cache", "50.0 %"],
        ["requests in the queue", "3.00"],
        ["requests in the queue, most", "9.00"],
        ["x y", "2.00"],
    ]


def test_definitions_are_there_on_demand() -> None:
    short, long = render_benchmark(SWEEP), render_benchmark(SWEEP, is_verbose=True)
    assert "TPOT: from the first content" not in short
    assert "TPOT: from the first content" in long
    assert "it used 12 % of a core" in " ".join(long.split())
    assert "tokens/s in equal slices" in long


def test_a_rate_and_lengths_that_vary() -> None:
    varied = replace(
        WORKLOAD,
        prompt_tokens=Lengths(spread="lognormal", median=300, least=10, most=4000),
        output_tokens=Lengths(spread="uniform", least=5, most=50),
    )
    text = render_benchmark(
        replace(benchmark(point(load=poisson(4.5))), workload=varied), width=120
    )
    assert "REQUESTS/S SENT" in text
    assert "            4.5  " in text
    assert "prompts of about 300 tokens (10 to 4,000), answers of 5 to 50 tokens" in text
    own = replace(WORKLOAD, shape="file", prompt_tokens=Lengths(), output_tokens=Lengths())
    assert "answers of the length that the file says" in " ".join(
        render_benchmark(replace(benchmark(), workload=own)).split()
    )


def test_events_stand_in_where_tokens_are_not_known() -> None:
    found = (rate("events_throughput", 900.0, "events/s"), latency("ttft", 50))
    text = render_benchmark(benchmark(point(found=found)), width=120)
    assert "EVENTS/S" in text
    assert "900 ±18" in text


def test_nothing_measured_is_a_text_too() -> None:
    assert "GOODPUT" not in render_benchmark(benchmark(point(found=())))
    empty = replace(benchmark(), points=())
    assert "nothing was measured" in render_benchmark(empty)


def test_a_line_for_each_benchmark() -> None:
    other = benchmark(name="b", served=Served(url="http://h:1", model="m"))
    text = render_benchmarks([SWEEP, other], ["x.json cannot be read"])
    lines = [re.split(r"\s{2,}", line) for line in text.splitlines()]
    assert lines[1] == [
        "20261201-020500-a1b2",
        "2026-12-01T02:05:00Z",
        "kimi",
        "chat",
        "1, 8, 64, 512",
        "5,731",
        "yes",
    ]
    assert lines[2][-1] == "NO"
    assert lines[3] == ["note: x.json cannot be read"]
    assert render_benchmarks([]) == "nothing was measured yet\n"
