"""Exports carry the keys and units of the field's tools, and no figure of a starved client."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.model.benchmark import Arrival, ClientHealth, Load, Objectives
from stoker.report.benchmark_csv import render_points_csv, render_samples_csv
from stoker.report.benchmark_export import render_export
from tests.report.benchmarks import SERVED, benchmark, figures, point, poisson, sample

KEYS = tomllib.loads(
    (Path(__file__).parent / "recorded/benchmark_keys.toml").read_text(encoding="utf-8")
)
STARVED = ClientHealth(complaints=("its loop was late",))


def export(*args: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in render_export(*args).splitlines()]


@pytest.mark.parametrize("tool", ["vllm", "sglang"])
def test_all_keys_of_the_tools_are_there(tool: str) -> None:
    samples = ((sample(0), sample(1)),)
    (fields,) = export(benchmark(), samples)
    keys = KEYS[tool]
    assert set(keys["figures"]) - set(fields) == set()
    assert set(keys["details"]) - set(fields) == set()
    assert set(keys["left_out"]) & set(fields) == set()


def test_no_key_is_of_nobody() -> None:
    known = {key for tool in KEYS.values() for kind in ("figures", "details") for key in tool[kind]}
    (fields,) = export(benchmark(), ((sample(),),))
    more = {f"p{each}_{word}_ms" for each in (90, 95) for word in ("e2el",)}
    assert set(fields) - known - more == {"stoker"}


def test_figures_are_in_the_units_of_the_field() -> None:
    (fields,) = export(benchmark(point(8)))
    found = {each.name: each for each in figures(8)}
    assert fields["date"] == "20261201-020500"
    assert fields["model_id"] == "acme/large"
    assert fields["request_rate"] == "inf"
    assert fields["max_concurrency"] == 8
    assert fields["duration"] == 30.0
    assert (fields["completed"], fields["failed"]) == (200, 0)
    assert fields["total_output_tokens"] == round(found["output_throughput"].mean * 30)
    assert fields["total_token_throughput"] == fields["total_throughput"]
    assert fields["total_token_throughput"] == pytest.approx(3 * fields["output_throughput"])
    assert fields["median_ttft_ms"] == found["ttft"].percentiles["50"]
    assert fields["p99_e2el_ms"] == fields["p99_e2e_latency_ms"] == found["e2e"].percentiles["99"]
    assert fields["concurrency"] == pytest.approx(found["e2e"].mean / 1000 * 200 / 30)
    assert fields["request_goodput"] == found["goodput"].mean
    assert fields["slo_attainment"] == 0.8
    assert fields["goodput_slos_ms"] == {"ttft": 500, "tpot": 30}


def test_a_sweep_is_a_line_for_each_load() -> None:
    loads = (
        poisson(2.5),
        Load(arrival=Arrival.CONSTANT, rate_per_second=2, concurrency=64, seconds=9),
        Load(arrival=Arrival.REPLAY, concurrency=0, speed=2.0),
    )
    lines = export(benchmark(*(point(load=load) for load in loads)))
    assert [each["request_rate"] for each in lines] == [2.5, 2, "trace"]
    assert [each["burstiness"] for each in lines] == [1.0, None, 1.0]
    assert [each["max_concurrency"] for each in lines] == [None, 64, None]
    assert [each["stoker"]["point"] for each in lines] == [0, 1, 2]


def test_requests_are_lists_in_seconds_without_warm_up() -> None:
    samples = ((sample(0, is_measured=False), sample(1), sample(2, error="HTTP 500")),)
    (fields,) = export(benchmark(), samples)
    assert fields["input_lens"] == [256, 0]
    assert fields["output_lens"] == [5, 0]
    assert fields["itls"] == [[0.01, 0.02, 0.01], []]
    assert fields["ttfts"] == pytest.approx([0.1, 0.0])
    assert fields["latencies"] == pytest.approx([0.14, 0.0])
    assert fields["errors"] == ["", "HTTP 500"]
    assert fields["max_output_tokens_per_s"] == pytest.approx(5)
    assert fields["max_concurrent_requests"] == 1
    assert fields["slo_attainment_by_metric"] == {"ttft": 0.5, "tpot": 0.5}


def test_a_starved_client_has_no_figures() -> None:
    starved = point(512, health=STARVED)
    (fields,) = export(benchmark(starved), ((sample(),),))
    assert fields["stoker"]["complaints"] == ["its loop was late"]
    for key in ("output_throughput", "mean_itl_ms", "p99_ttft_ms", "total_output_tokens"):
        assert fields[key] is None
    assert "itls" not in fields
    (row,) = csv.DictReader(io.StringIO(render_points_csv([benchmark(starved)])))
    assert row["complaints"] == "its loop was late"
    assert row["output_tokens_per_second"] == row["ttft_p99_ms"] == ""


def test_nothing_measured_is_an_export_too() -> None:
    empty = benchmark(point(found=()))
    (fields,) = export(replace(empty, objectives=Objectives(), started="whenever"))
    assert fields["mean_ttft_ms"] is None
    assert fields["date"] == "whenever"
    assert "goodput_slos_ms" not in fields


def test_rows_for_loads() -> None:
    told = replace(point(8), server={"cache_hit_share": 0.25})
    text = render_points_csv([benchmark(told, point(64)), benchmark(point(1), name="b")])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(each["benchmark"], each["concurrency"]) for each in rows] == [
        ("20261201-020500-a1b2", "8"),
        ("20261201-020500-a1b2", "64"),
        ("b", "1"),
    ]
    assert float(rows[0]["output_tokens_per_second"]) == 1500
    assert float(rows[0]["output_tokens_per_second_low"]) == 1470
    assert float(rows[0]["ttft_mean_ms"]) == 68
    assert [each["server_cache_hit_share"] for each in rows] == ["0.25", "", ""]


def test_rows_for_requests() -> None:
    samples = ((sample(0), sample(1, error="=1+1\x1b[31m,\n", is_measured=False)),)
    rows = list(csv.DictReader(io.StringIO(render_samples_csv(benchmark(), samples))))
    assert [each["measured"] for each in rows] == ["yes", "no"]
    assert float(rows[0]["ttft_ms"]) == 100
    assert float(rows[0]["tpot_ms"]) == 10
    assert float(rows[0]["e2e_ms"]) == 140
    assert rows[0]["events"] == "4"
    assert rows[1]["error"] == "'=1+1\\x1b[31m,\\n"
    assert rows[1]["ttft_ms"] == rows[1]["output_tokens"] == ""


def test_names_cannot_be_formulas() -> None:
    odd = replace(SERVED, model="@SUM(A1)")
    (row,) = csv.DictReader(io.StringIO(render_points_csv([benchmark(served=odd)])))
    assert row["model"] == "'@SUM(A1)"
