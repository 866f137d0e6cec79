"""What engines say that they decided: recorded logs and answers, and what an ill log may do."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines.phases import read_phase
from stoker.engines.resolved import MOST_LINES, add_answers, read_answer, read_resolved
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.engine_log import EngineLog, ResolvedRow
from stoker.model.engine_table import EngineTable
from tests.conftest import PROJECT

LOGS = sorted((PROJECT / "tests" / "recorded" / "engine_logs").glob("*.log"))
SGLANG = load_engine_table("sglang")
_CORPUS = Path(os.environ.get("STOKER_CORPUS") or "/nowhere") / "logs"
FULL_LOGS = sorted(path for path in _CORPUS.rglob("*.log"))


def table_of(path: Path) -> EngineTable:
    """The table of the engine that a recorded log is named after."""
    names = [kind for kind in engine_kinds() if kind in path.name.replace("llama.cpp", "llamacpp")]
    return load_engine_table(names[0] if names else "sglang")


def read_lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "replace").split("\n")


def phases_of(lines: list[str], table: EngineTable) -> list[str]:
    """The words of a start one after the other, each as often as it comes anew."""
    told: list[str] = []
    for line in lines:
        phase = read_phase([line], table)
        if phase.title != "starting" and told[-1:] != [phase.phase]:
            told.append(phase.phase)
    return told


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_recorded_logs(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    lines, table = read_lines(path), table_of(path)
    resolved = read_resolved(lines, table)
    values = {name: value.value for name, value in resolved.values.items()}
    ranks = {
        name: dict(value.by_rank)
        for name, value in resolved.values.items()
        if len(value.by_rank) > 1
    }
    assert {
        "phase": resolved.phase,
        "title": resolved.title,
        "phases": phases_of(lines, table),
        "values": values,
        "ranks": ranks,
        "notes": [note.title for note in resolved.notes],
    } == expected


def test_every_engine_has_a_recorded_log() -> None:
    assert {table_of(path).kind for path in LOGS} == set(engine_kinds())


@pytest.mark.parametrize("kind", engine_kinds())
def test_each_example_tells_what_its_row_is_for(kind: str) -> None:
    table = load_engine_table(kind)
    for row in table.log.resolved:
        alone = replace(table, log=replace(table.log, resolved=(replace(row, nth=0),)))
        values = read_resolved([row.example], alone).values
        assert {name for name in row.units if name in values} == set(row.units), row.example
        assert values, row.example


@pytest.mark.skipif(not FULL_LOGS, reason="STOKER_CORPUS names no folder with logs")
def test_full_logs_and_answers_of_the_corpus_agree() -> None:
    compared = 0
    for answers in _CORPUS.rglob("*.api.json"):
        log = answers.with_name(answers.name.replace(".api.json", ".log"))
        resolved = read_resolved(read_lines(log), SGLANG)
        document = json.loads(json.loads(answers.read_text())["/server_info"])
        told = read_answer(document, "/server_info", SGLANG)
        for name in ("kv_tokens", "max_running_requests", "attention_backend", "tensor_size"):
            assert resolved.values[name].value == told[name].value, (log, name)
            compared += 1
        assert resolved.phase == "listening", log
    assert compared > 40


@pytest.mark.skipif(not FULL_LOGS, reason="STOKER_CORPUS names no folder with logs")
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("badpath", "there is no model at that path"),
        ("ctx", "the model was not made for so long a request"),
        ("llama_badflag", "the engine refuses a flag"),
        ("llama_oom", "the weights leave no memory for the context"),
        ("llama_mem99", "the GPU's memory is too small"),
        ("tp2", "there are fewer GPUs than the engine was told to use"),
    ],
)
def test_failed_starts_of_the_corpus(name: str, title: str) -> None:
    (path,) = _CORPUS.rglob(f"{name}.log")
    resolved = read_resolved(read_lines(path), SGLANG)
    assert (resolved.phase, resolved.title) == ("failed", title)


def test_only_the_last_start_counts() -> None:
    first = LOGS[0].with_name("sglang-0.5.17-h200-draft.log")
    second = LOGS[0].with_name("sglang-0.5.23-processor.log")
    alone = read_resolved(read_lines(second), SGLANG)
    both = read_resolved([*read_lines(first), *read_lines(second)], SGLANG)
    assert both.values == alone.values
    assert "draft_weight_bytes" not in both.values


def test_the_rank_that_counts() -> None:
    line = "[2026-11-29 18:01:59 {}] Load weight end. type=A, avail mem={} GB, mem usage={} GB."
    lines = [line.format("TP0", "10.00", "7.50"), line.format("TP1", "9.00", "8.50")]
    values = read_resolved(lines, SGLANG).values
    assert values["weight_bytes"].value == int(8.5 * 2**30), "the fullest GPU counts"
    assert values["free_after_weights_bytes"].value == 9 << 30, "the least free one counts"
    assert values["weight_bytes"].by_rank == {"TP0": int(7.5 * 2**30), "TP1": int(8.5 * 2**30)}


def test_answers_fill_in_what_the_log_does_not_tell() -> None:
    resolved = read_resolved(["nothing"], SGLANG)
    document = {"version": "0.5.17", "tp_size": 2, "kv_cache_dtype": "auto"}
    told = read_answer(document, "/server_info", SGLANG)
    whole = add_answers(resolved, {"/server_info": told}, SGLANG)
    assert {name: value.value for name, value in whole.values.items()} == {
        "engine_version": "0.5.17",
        "tensor_size": 2,
    }, "what is `auto` is not resolved"
    assert whole.values["tensor_size"].told_by == "/server_info"


@pytest.mark.parametrize(
    "document",
    [None, [], "text", 3, {"internal_states": []}, {"internal_states": [{"memory_usage": 3}]},
     {"tp_size": {"a": 1}}, {"max_total_num_tokens": "many"}, {"max_total_num_tokens": 1e400}],
)  # fmt: skip
def test_answers_that_tell_nothing(document: Any) -> None:
    assert read_answer(document, "/server_info", SGLANG) == {}


@given(st.lists(st.text(max_size=300), max_size=20))
def test_any_text_is_read(lines: list[str]) -> None:
    for kind in engine_kinds():
        read_resolved(lines, load_engine_table(kind))


def test_a_log_without_end_is_read_up_to_a_bound() -> None:
    log = EngineLog(
        begin="^begin",
        rank="^$",
        phases=(),
        resolved=(ResolvedRow(pattern=r"n=(?P<kv_tokens>\d+)", example="", source=SOURCE),),
        kinds=SGLANG.log.kinds,
    )
    table = replace(SGLANG, log=log)
    lines = ["n=1", *["idle"] * MOST_LINES, "n=2"]
    assert read_resolved(lines, table).values["kv_tokens"].value == 1
    assert read_resolved([*lines, "begin", "n=3"], table).values["kv_tokens"].value == 3


SOURCE = SGLANG.log.resolved[0].source
