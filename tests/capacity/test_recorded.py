"""Real starts, recorded: what the engine's log said, against predictions.

Each case holds the lines of its log. Question ``a`` knows the free memory after the weights, ``c``
the weights, ``b`` only the GPU, the config and the flags. How a case is added stands in
``recorded/README.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.make_capacity_case import list_logged
from stoker.capacity.drafting import draft_weights
from stoker.capacity.host_cache import size_host_cache
from stoker.capacity.inputs import Inputs, Readings
from stoker.capacity.pool import Budget, Pool
from stoker.capacity.predict import predict, predict_pool
from stoker.capacity.state_pools import size_state_pool
from stoker.capacity.weights import find_target_weights, held_table_bytes
from stoker.engines.resolved import read_resolved
from stoker.evaluate.capacity_cases import QUESTIONS, Case, read_cases
from stoker.knowledge.capacity import GIB, load_sglang, need_row
from stoker.knowledge.releases import load_table_for
from stoker.model.facts import Plain

FOLDER = Path(__file__).parent / "recorded"
#: How far a prediction may be from what was logged, as a share of it.
BOUNDS = {"a": 0.001, "b": 0.005, "c": 0.0015}
#: Readings in a log have two decimals: two of them are worth so much of a small pool.
READING_GIB = 0.01
#: Nothing in a log tells what is taken between the pools and the reading after them.
AFTER_POOL_GIB = 0.15
#: What must be there, so that a folder that was moved does not pass.
LEAST_CASES = 32


def _folders() -> Iterator[Path]:
    return (path for path in sorted(FOLDER.iterdir()) if path.is_dir())


CASES = [(folder, case) for folder in _folders() for case in read_cases(folder, folder / "models")]
ASKED = [
    pytest.param(folder, case, question, id=f"{folder.name}-{case.id}-{question}")
    for folder, case in CASES
    for question in QUESTIONS
]
EACH = [pytest.param(folder, case, id=f"{folder.name}-{case.id}") for folder, case in CASES]


def _number(value: Plain) -> float:
    assert isinstance(value, (int, float))
    return float(value)


def _predict(inputs: Inputs) -> tuple[Budget, Pool]:
    found = predict_pool(inputs)
    assert isinstance(found, tuple), found
    return found


def _list_figures(inputs: Inputs, budget: Budget, pool: Pool) -> dict[str, float]:
    """What was predicted, in the words of a case."""
    figures = {"kv_tokens": pool.tokens.likely, "mem_fraction": budget.share or 0.0}
    if pool.requests is not None:
        figures["max_running_requests"] = pool.requests
    caches = pool.pool_bytes.likely
    if pool.draft_bytes is not None:
        weights = draft_weights(inputs, find_target_weights(inputs))
        drafted = pool.draft_bytes.likely - (weights.likely if weights is not None else 0.0)
        figures["draft_kv_gib"] = drafted / GIB
        caches += drafted
    figures["kv_gib"] = caches / GIB
    if pool.state_bytes is not None:
        padding = need_row(load_sglang().pools.state, inputs.release).padding
        slots = size_state_pool(inputs, budget.pools.likely).slots
        figures["mamba_slots"] = slots - padding
        figures["mamba_gib"] = pool.state_bytes.likely / GIB
    cache = size_host_cache(inputs, pool)
    if cache is not None:
        figures["host_tokens"] = cache.tokens.likely
        figures["host_gbdec"] = cache.rank_bytes.likely / 1e9
    return figures


def _ask(case: Case, question: str) -> Inputs:
    inputs = case.question(question)
    assert inputs is not None
    return inputs


def test_all_cases_are_read() -> None:
    files = [path for folder in _folders() for path in folder.glob("*.json")]
    assert len(CASES) == len(files) >= LEAST_CASES
    assert all(case.is_whole for _, case in CASES)


@pytest.mark.parametrize(("folder", "case"), EACH)
def test_the_case_says_what_its_log_says(folder: Path, case: Case) -> None:
    data = json.loads((folder / f"{case.id}.json").read_text("utf-8"))
    told = read_resolved(data["log"], load_table_for(data["engine"], data["version"]))
    logged = dict(data["logged"])
    # The log counts both caches together; the server's own answer told them apart.
    logged.pop("draft_kv_gib", None)
    assert list_logged(told, {}) == logged


@pytest.mark.parametrize(("folder", "case", "question"), ASKED)
def test_figures(folder: Path, case: Case, question: str) -> None:
    del folder
    inputs = _ask(case, question)
    budget, pool = _predict(inputs)
    figures = _list_figures(inputs, budget, pool)
    assert case.tokens is not None
    assert pool.tokens.low <= case.tokens <= pool.tokens.high
    bound = max(BOUNDS[question], READING_GIB / _number(case.logged.table["kv_gib"]))
    for name in sorted(figures.keys() & case.logged.table.keys()):
        expected = _number(case.logged.table[name])
        # Whole numbers are cut, and one below is the same.
        least = 1 if isinstance(case.logged.table[name], int) else 0
        assert figures[name] == pytest.approx(expected, rel=bound, abs=least), name


@pytest.mark.parametrize(("folder", "case"), EACH)
def test_the_share_that_the_engine_chose(folder: Path, case: Case) -> None:
    del folder
    budget, _ = _predict(_ask(case, "b"))
    assert budget.share == pytest.approx(_number(case.logged.table["mem_fraction"]), abs=1e-9)


@pytest.mark.parametrize(("folder", "case"), EACH)
def test_each_rank_by_its_own_readings(folder: Path, case: Case) -> None:
    del folder
    by_rank = case.logged.table.get("by_rank", {"": case.logged.table})
    assert isinstance(by_rank, dict)
    ranks = case.inputs.ranks
    assert len(by_rank) == ranks.tensor * ranks.pipeline * ranks.replicas
    for rank, logged in by_rank.items():
        before, after = (
            int(_number(logged[name]) * GIB)
            for name in ("avail_before_weights_gib", "avail_after_weights_gib")
        )
        readings = Readings(free_before_bytes=before, free_after_bytes=after)
        inputs = replace(_ask(case, "a"), readings=readings)
        figures = _list_figures(inputs, *_predict(inputs))
        bound = max(BOUNDS["a"], READING_GIB / _number(logged["kv_gib"]))
        for name in sorted(figures.keys() & logged.keys()):
            assert figures[name] == pytest.approx(_number(logged[name]), rel=bound, abs=1), rank


@pytest.mark.parametrize(("folder", "case"), EACH)
def test_the_map_beside_the_pools(folder: Path, case: Case) -> None:
    del folder
    inputs = _ask(case, "a")
    found = predict(inputs)
    parts = {part.part: part.predicted_bytes for part in found.maps[0].parts}
    taken = float(held_table_bytes(inputs))
    for name in ("kv_pool", "state_pool", "draft", "request_table"):
        part = parts.get(name)
        taken += part.likely if part is not None else 0.0
    left = _number(case.logged.table["avail_after_weights_gib"]) - taken / GIB
    after = _number(case.logged.table["avail_after_pool_gib"])
    assert left == pytest.approx(after, abs=AFTER_POOL_GIB)
    for name, told in (("graphs", "graph_gib"), ("unused", "available_gpu_mem_gib")):
        if told not in case.logged.table:
            continue
        span = parts[name]
        assert span is not None
        assert span.low <= _number(case.logged.table[told]) * GIB <= span.high, name
