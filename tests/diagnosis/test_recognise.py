"""Which engine wrote a log, and the texts that a pattern must find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.diagnosis.lines import read_lines
from stoker.diagnosis.needles import list_literals
from stoker.diagnosis.recognise import recognise_engine
from stoker.knowledge.engines import engine_kinds, load_engine_table
from tests.conftest import PROJECT

RECORDED = sorted((PROJECT / "tests" / "recorded" / "engine_logs").glob("*.log"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_logs_are_known(path: Path) -> None:
    lines = read_lines([path.read_bytes()], "log")
    assert recognise_engine(lines) == path.name.partition("-")[0]


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ('  File "/x/vllm/v1/engine/core.py", line 1, in run', "vllm"),
        ('  File "/x/sglang/srt/managers/scheduler.py", line 1, in run', "sglang"),
        ("llama_model_load: error loading model: tensor is out of bounds", "llamacpp"),
        ("(EngineCore_DP0 pid=1) boom", "vllm"),
        ("torch.OutOfMemoryError: CUDA out of memory", ""),
        ("", ""),
    ],
)
def test_a_line_alone(text: str, engine: str) -> None:
    assert recognise_engine(read_lines([text.encode()], "log")) == engine


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("Load weight begin", ("Load weight begin",)),
        (
            "(KV|Mamba) Cache is allocated|Memory pool end",
            (" Cache is allocated", "Memory pool end"),
        ),
        (r"[Ll]oading [\w\s-]*(?:shards|x):\s+(?P<percent>\d+)%", ("oading ",)),
        (r"tokens? are gone", (" are gone",)),
        (r"a\.b\(c\) is \[d\]", ("a.b(c) is [d]",)),
        ("(?:one|two)three", ()),
        ("abc|long enough", ()),
        (r"^x{2,3}yyyyyyy+zz$", ("yyyyyyy",)),
    ],
)
def test_what_a_pattern_must_find(pattern: str, literals: tuple[str, ...]) -> None:
    assert list_literals(pattern) == literals


def test_each_row_of_the_engines_tables_holds_its_texts() -> None:
    for kind in engine_kinds():
        log = load_engine_table(kind).log
        phases = [(row.pattern, row.example) for row in log.phases]
        arguments = [(row.pattern, row.example) for row in log.arguments]
        for pattern, example in (*phases, *arguments):
            found = list_literals(pattern)
            assert re.search(pattern, example) is not None
            assert not found or any(text in example for text in found), pattern
