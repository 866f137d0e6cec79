"""The score of logs, and which releases still write the lines that are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stoker.evaluate.log_formats import find_anchors, find_releases, fits, read_texts
from stoker.evaluate.logs import recognise, render_scores, score_logs
from tests.conftest import PROJECT

RECORDED = PROJECT / "tests" / "recorded" / "engine_logs"


def test_every_recorded_log_is_recognised() -> None:
    for score in score_logs(RECORDED):
        assert score.name.startswith(score.resolved.engine), score.name
        assert not score.missing, score.name


def test_answers_beside_a_log_are_held_against_it(tmp_path: Path) -> None:
    shutil.copy(RECORDED / "sglang-0.5.23-processor.log", tmp_path / "a.log")
    info = {"max_total_num_tokens": 16384, "tp_size": 4, "attention_backend": "torch_native"}
    (tmp_path / "a.api.json").write_text(json.dumps({"/server_info": json.dumps(info)}))
    (tmp_path / "b.log").write_text("nothing that an engine wrote\n")
    (score,) = score_logs(tmp_path)
    assert (score.agreed, score.wrong) == (2, ("tensor_size:1!=4",))
    text = render_scores([score])
    assert "tensor_size:1!=4" in text
    assert "2 of 3 agree with answers" in text


def test_what_no_engine_wrote() -> None:
    assert recognise(["hello", "[2026-11-29] nothing"]) is None


@pytest.mark.parametrize(
    ("source", "pattern", "is_there"),
    [
        (
            'log.info(f"Memory pool end. avail mem={x:.2f} GB")',
            r"pool end\. avail mem=[\d.]+",
            True,
        ),
        ('log.info("KV cache size: %s tokens", n)', r"KV cache size: (?P<kv_tokens>\d+) t", True),
        ('log.info("weights took %.2f " "GiB and %d")', r"weights took [\d.]+ GiB and \d+", True),
        ('log.info(f"captured graph bs={sizes}, x")', r"captured graph bs=\[\d+\]", True),
        ('log.info("Memory pool ends")', r"Memory pool end\.", False),
        ("this is no python: Memory pool end.", r"Memory pool end\.", False),
    ],
)
def test_a_line_that_a_release_could_write(
    tmp_path: Path, source: str, pattern: str, is_there: bool
) -> None:
    (tmp_path / "a.py").write_text(f"log = x = n = sizes = None\n{source}\n")
    assert fits(pattern, read_texts(tmp_path, [pattern])) is is_there


def test_anchors_are_plain_text() -> None:
    assert find_anchors(r"Load weight end\. (?P<a>\d+)") == ("Load weight end",)
    assert find_anchors(r"first text|second text") == ("first text", "second text")
    assert find_anchors(r"\d+") == ()


def test_releases_are_in_order(tmp_path: Path) -> None:
    for name in ("vllm-0.9.0", "vllm-0.11.0", "sglang-0.5.9", "other-1", "file"):
        (tmp_path / name).mkdir()
    found = [(kind, release) for kind, release, _ in find_releases(tmp_path)]
    assert found == [("sglang", "0.5.9"), ("vllm", "0.9.0"), ("vllm", "0.11.0")]
