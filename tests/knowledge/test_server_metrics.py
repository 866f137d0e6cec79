"""What engines tell of themselves under load: the names in the data are those that servers send."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stoker.contract.metrics import sum_counters
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import ALL_FEATURES, MANNERS, Script
from stoker.knowledge.server_metrics import ServerMetric, load_server_metrics, metrics_of
from stoker.model.contract import Request
from stoker.report.benchmark_words import describe_server_metric

RECORDED = Path(__file__).parent.parent / "contract" / "recorded"
_NAME = re.compile(r"\b(?:sglang|vllm|llamacpp):\w+")


@cache
def names_told(engine: str) -> frozenset[str]:
    """The metrics that recorded servers of this engine have sent."""
    return frozenset(
        name
        for path in (RECORDED / engine).glob("*.json")
        for text in _metrics(json.loads(path.read_text("utf-8")))
        for name in _NAME.findall(text)
    )


def _metrics(value: object) -> Iterator[str]:
    """All texts in a document that look like a page of metrics."""
    if isinstance(value, str):
        if "# TYPE" in value:
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _metrics(each)
    elif isinstance(value, list):
        for each in value:
            yield from _metrics(each)


def test_every_engine_has_rows_of_its_own() -> None:
    rows = load_server_metrics()
    assert {row.engine for row in rows} == set(MANNERS)
    assert len({(row.engine, row.meaning) for row in rows}) == len(rows)
    for engine in MANNERS:
        assert {row.engine for row in metrics_of(engine)} == {engine}
    assert metrics_of("") == rows
    assert metrics_of("another") == ()


@pytest.mark.parametrize(
    "row", load_server_metrics(), ids=lambda row: f"{row.engine} {row.meaning}"
)
def test_a_row(row: ServerMetric) -> None:
    assert all(name.startswith(f"{row.engine}:") for name in (*row.names, *row.of))
    # Names tell engines apart, so a server that is not known reads none of another one's.
    assert row.source.where
    words = describe_server_metric(row.meaning)
    assert words != row.meaning


@pytest.mark.parametrize("engine", MANNERS)
def test_recorded_servers_tell_them(engine: str) -> None:
    """Speculation is told by servers that speculate alone, and SGLang tells a counter from the
    first time that it counts."""
    told = names_told(engine)
    if not told:
        pytest.skip(f"no page of metrics of {engine} is recorded")
    usual = [row for row in metrics_of(engine) if row.kind != "counter"]
    wanted = {row.names[0] for row in usual if "spec" not in row.names[0]}
    missing = sorted(name for name in wanted if name not in told)
    assert missing == []


@pytest.mark.parametrize("engine", MANNERS)
def test_the_fake_engine_tells_some_of_them(engine: str) -> None:
    endpoint = DirectEndpoint(Core(Script(manners=engine, features=ALL_FEATURES)))
    page = endpoint.exchange(Request(method="GET", path="/metrics", timeout_seconds=5.0)).body
    found = [row.meaning for row in metrics_of(engine) if sum_counters(page, row.names) is not None]
    assert "running_requests" in found or "cache_hit_share" in found
