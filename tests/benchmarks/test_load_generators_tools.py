"""What the compared tools wrote, recorded from each of them, and how they are called and found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load_generators_tools import (
    OURS,
    NotRun,
    Said,
    Tool,
    find_program,
    install,
    load_tools,
    make_environment,
    read_remarks,
    read_said,
)
from stoker.model.benchmark import (
    Benchmark,
    ClientHealth,
    Figure,
    Load,
    Point,
    Served,
    Window,
    Workload,
)
from stoker.model.document import render_document

RECORDED = Path(__file__).with_name("recorded")
TOOLS = {tool.name: tool for tool in load_tools()}

#: As they stand in the recorded files.
SAID = {
    "aiperf": (509.44, 174.84, 229.99, 10.53, None),
    "guidellm": (355.63, 231.79, 405.98, 9.63, 13.11),
    "sglang": (640.55, 133.66, 166.83, 10.12, 10.12),
    "sglang-rust": (692.16, 108.57, 115.96, 10.01, 10.01),
    "vllm": (681.07, 120.36, 146.66, 9.8, 9.95),
}


@pytest.mark.parametrize("name", sorted(SAID))
def test_what_a_rival_wrote_is_read(name: str) -> None:
    said = read_said(TOOLS[name], RECORDED / name)
    keys = ("tokens_per_second", "ttft_ms", "ttft_p99_ms", "itl_ms", "tpot_ms")
    found = [getattr(said, key) for key in keys]
    assert [each and round(each, 2) for each in found] == list(SAID[name])


def test_every_rival_is_recorded() -> None:
    assert SAID.keys() | {OURS} == TOOLS.keys()
    assert next(iter(TOOLS)) == OURS


def test_what_stoker_prints_is_read(tmp_path: Path) -> None:
    percentiles = {"50": 99.0, "99": 120.0}
    figures = (
        Figure(name="output_throughput", unit="tokens/s", count=3, mean=700.0),
        Figure(name="ttft", unit="ms", count=3, mean=101.0, percentiles=percentiles),
        Figure(name="itl", unit="ms", count=3, mean=10.0),
    )
    complaint = "the client was late"
    point = Point(
        load=Load(requests=3),
        window=Window(seconds=1.0),
        figures=figures,
        health=ClientHealth(complaints=(complaint,)),
    )
    document = Benchmark(
        id="b1",
        started="2026-12-01T00:00:00+00:00",
        served=Served(url="http://127.0.0.1:1", model="exact"),
        workload=Workload(name="random", title="random"),
        points=(point,),
    )
    (tmp_path / "stdout").write_text(render_document(document), "utf-8")
    assert read_said(TOOLS[OURS], tmp_path) == Said(
        tokens_per_second=700.0, ttft_ms=101.0, ttft_p99_ms=120.0, itl_ms=10.0
    )
    assert read_remarks(TOOLS[OURS], tmp_path) == (complaint,)


@pytest.mark.parametrize("text", [None, "", "Traceback", '{"points":'])
def test_what_cannot_be_read_is_told(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stdout").write_text(text, "utf-8")
    with pytest.raises(NotRun, match="what it wrote cannot be read"):
        read_said(TOOLS[OURS], tmp_path)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", '{"points": [], "output_throughput": "many"}']
)
def test_figures_that_are_not_there(tmp_path: Path, text: str) -> None:
    for name in ("stdout", "result.json"):
        (tmp_path / name).write_text(text, "utf-8")
    assert read_said(TOOLS[OURS], tmp_path) == Said()
    assert read_said(TOOLS["vllm"], tmp_path) == Said()


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_every_word_of_a_call_is_filled_in(tool: Tool) -> None:
    words = dict.fromkeys(
        ("url", "model", "tokenizer", "folder", "concurrency", "requests", "tokens"), "x"
    )
    words["prompt_tokens"] = "x"
    assert "{" not in "".join(word.format(**words) for word in tool.argv)
    assert "{" not in "".join(
        make_environment(tool, words).get(key, "") for key in tool.environment
    )


def test_additions_are_found_and_what_leads_to_a_hub_is_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    environment = make_environment(TOOLS["sglang"], {})
    assert "HF_ENDPOINT" not in environment
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["PYTHONPATH"] == str(TOOLS["sglang"].additions_folder)
    assert TOOLS["sglang"].additions_folder == TOOLS["sglang-rust"].additions_folder


def test_a_tool_that_is_not_there_says_how_to_have_it() -> None:
    tool = Tool(
        name="none", program=".cache/none/bin/none", argv=(), result="", figures={}, legend=""
    )
    for attempt in (lambda: find_program(tool), lambda: install(tool, 1.0)):
        with pytest.raises(NotRun, match="it is not installed; to have it: make dev"):
            attempt()
