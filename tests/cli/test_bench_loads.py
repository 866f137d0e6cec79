"""The options of `stoker bench` as loads, and every wrong one with a sentence of its own."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.cli.bench_loads import Asked, make_loads, make_objectives, parse_body, parse_counts
from stoker.errors import UsageError
from stoker.model.benchmark import Arrival, Load, Objectives


@pytest.mark.parametrize(
    ("asked", "loads"),
    [
        (Asked(), [Load(concurrency=8, seconds=30.0, warmup_requests=8)]),
        (
            Asked(concurrency="1,4", seconds="5s"),
            [
                Load(concurrency=1, seconds=5.0, warmup_requests=1),
                Load(concurrency=4, seconds=5.0, warmup_requests=4),
            ],
        ),
        (Asked(concurrency="3,3", requests=9, warmup=0), [Load(concurrency=3, requests=9)]),
        (
            Asked(rate="0.5,2", requests=9),
            [
                Load(arrival=Arrival.POISSON, concurrency=0, rate_per_second=rate, requests=9)
                for rate in (0.5, 2.0)
            ],
        ),
        (
            Asked(rate="2", is_constant=True, concurrency="16", seconds="1m", warmup=3),
            [
                Load(
                    arrival=Arrival.CONSTANT,
                    concurrency=16,
                    rate_per_second=2.0,
                    seconds=60.0,
                    warmup_requests=3,
                )
            ],
        ),
        (Asked(replay=2.0), [Load(arrival=Arrival.REPLAY, concurrency=0, speed=2.0)]),
    ],
)
def test_loads(asked: Asked, loads: list[Load]) -> None:
    assert list(make_loads(asked)) == loads


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": "0"}, "out of range"),
        ({"concurrency": "-1"}, "out of range"),
        ({"concurrency": "99999"}, "out of range"),
        ({"concurrency": "1,,2"}, "no list of numbers"),
        ({"concurrency": "1.5"}, "no list of numbers"),
        ({"concurrency": ""}, "no list of numbers"),
        ({"rate": "0"}, "above 0"),
        ({"rate": "-2"}, "above 0"),
        ({"rate": "nan"}, "above 0"),
        ({"rate": "inf"}, "above 0"),
        ({"rate": "fast"}, "no list of numbers"),
        ({"rate": "1", "concurrency": "1,2"}, "one number for all rates"),
        ({"rate": "1", "replay": 1.0}, "two ways"),
        ({"is_constant": True}, "--rate"),
        ({"replay": 0.0}, "above 0"),
        ({"replay": float("nan")}, "above 0"),
        ({"replay": float("inf")}, "above 0"),
        ({"seconds": "0"}, "no time"),
        ({"seconds": ""}, "no time"),
        ({"seconds": "soon"}, "no time"),
        ({"seconds": "400d"}, "no time"),
    ],
)
def test_what_is_no_load(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_loads(Asked(**options))
    assert words in caught.value.summary
    assert caught.value.hint


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_objectives(value: float) -> None:
    assert make_objectives(ttft=1, tpot=None, e2e=None) == Objectives(ttft_ms=1)
    for name in ("ttft", "tpot", "e2e"):
        known: dict[str, float | None] = {"ttft": None, "tpot": None, "e2e": None, name: value}
        with pytest.raises(UsageError, match=f"--{name} takes milliseconds"):
            make_objectives(ttft=known["ttft"], tpot=known["tpot"], e2e=known["e2e"])


@pytest.mark.parametrize("text", ["{", "[1]", "1", "nonsense", '{"a": NaN}', '{"a": Infinity}'])
def test_bodies(text: str) -> None:
    assert parse_body(None) == {}
    assert parse_body('{"top_p": 0.5}') == {"top_p": 0.5}
    with pytest.raises(UsageError, match="--body is no JSON"):
        parse_body(text)


def test_counts() -> None:
    assert parse_counts("1,8") == (1, 8)
