"""The score of diagnoses: what a case shows, what is read of it, and how it is judged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stoker.errors import UsageError
from stoker.evaluate import failure_cases, failures
from stoker.evaluate.failure_cases import CaseAnswer, read_inputs
from stoker.evaluate.failures import (
    Prediction,
    hold_out,
    judge,
    load_kinds,
    main,
    score,
    without,
)
from stoker.knowledge.causes import load_causes

CASE = """\
id: {id}
source: https://example.org/threads/{id}#below
engine: sglang
engine_version: 0.5.17
gpu: NVIDIA H200
gpu_count: 1
arch: sm_90
model: a/b
quantization: none
flags: []
log: |
  ValueError: Loaded weights leave no GPU memory for the KV cache under
  --mem-fraction-static=0.08. Raise --mem-fraction-static above 0.109
kind: {kind}
acceptable: [{acceptable}]
scored: {scored}
remedy_tokens: [--mem-fraction-static]
log_source: {log_source}
"""


def put(folder: Path, number: str, **changes: str) -> Path:
    values = {
        "id": number,
        "kind": "kv-pool-no-room",
        "acceptable": "",
        "scored": "true",
        "log_source": "thread",
        **changes,
    }
    path = folder / f"{number}.yaml"
    path.write_text(CASE.format(**values))
    return path


def test_a_case_is_diagnosed_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "018")
    put(tmp_path, "019", kind="something-else")
    put(tmp_path, "020", scored="false")
    put(tmp_path, "021", log_source="assembled")
    main([str(tmp_path), "--json", "--held-out"])
    found = json.loads(capsys.readouterr().out)
    assert (found["n"], found["kind_first"], found["wrong_confident"]) == (2, 0.5, 0.5)
    assert (found["kind_top3"], found["remedy"], found["unknown"]) == (0.5, 1.0, 0.0)
    first = found["cases"][0]
    assert (first["id"], first["expected"], first["found"][0], first["verdict"]) == (
        "018",
        "kv-pool-no-room",
        "kv-pool-no-room",
        "right",
    )
    assert "--mem-fraction-static" in first["remedy"]
    assert "Loaded weights leave" not in first["remedy"]
    assert [case["id"] for case in found["assembled"]["cases"]] == ["021"]
    assert found["held_out"]["n"] == 2
    main([str(tmp_path)])
    assert "recorded: 2 cases  kind first 50.0%" in capsys.readouterr().out


def test_no_answer_is_read_before_all_predictions_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the predictions are made the answers may change: the predictions do not."""
    paths = [put(tmp_path, str(number)) for number in range(3)]
    predicted: list[str] = []
    predict, read_answer = failures.predict, failure_cases.read_answer

    def watched(case: failure_cases.CaseInput) -> Prediction:
        assert not hasattr(case, "kind")
        predicted.append(case.id)
        return predict(case)

    def late(case: failure_cases.CaseInput) -> CaseAnswer:
        assert len(predicted) == len(paths)
        return read_answer(case)

    monkeypatch.setattr(failures, "predict", watched)
    monkeypatch.setattr(failures, "read_answer", late)
    assert len(score(tmp_path).whole) == 3


def test_the_answer_of_a_case_is_no_input(tmp_path: Path) -> None:
    put(tmp_path, "1", kind="one-kind")
    (first,), _ = read_inputs(tmp_path)
    put(tmp_path, "1", kind="another-kind", acceptable="x", log_source="engine")
    (second,), _ = read_inputs(tmp_path)
    assert first == second


@pytest.mark.parametrize(
    ("found", "kinds", "verdict"),
    [
        (("a",), ("a",), "right"),
        (("b",), ("a", "b"), "right"),
        (("b", "c", "a"), ("a",), "right_in_3"),
        (("b", "c", "d", "a"), ("a",), "wrong"),
        ((), ("a",), "unknown"),
        ((), ("a", "unknown"), "right"),
    ],
)
def test_verdicts(found: tuple[str, ...], kinds: tuple[str, ...], verdict: str) -> None:
    answer = CaseAnswer(
        id="1", kinds=kinds, remedy_tokens=("--x 1",), source="", is_scored=True, is_assembled=False
    )
    judged = judge(Prediction(id="1", found=found, remedy="set --x 1", first_remedy="y"), answer)
    assert (judged.verdict, judged.has_remedy, judged.has_first_remedy) == (verdict, True, False)


def test_signatures_of_held_out_pages_are_switched_off(tmp_path: Path) -> None:
    from stoker.diagnosis.matching import load_matcher

    everyone = load_matcher().signatures
    assert without({"https://example.org/nowhere"}).signatures == everyone
    learned = [each for each in everyone if "https://" in each.source.where]
    if learned:
        url = failures._URL.findall(learned[0].source.where)[0]
        left = without({failures._plain_url(url)}).signatures
        assert learned[0] not in left
    put(tmp_path, "1")
    put(tmp_path, "2")
    cases, _ = read_inputs(tmp_path)
    answers = [failure_cases.read_answer(case) for case in cases]
    assert {verdict.prediction.id for verdict in hold_out(cases, answers)} == {"1", "2"}
    quoted = next(each for each in everyone if each.needles)
    text = next(each.text for each in quoted.example if each.fires)
    assert quoted not in without(set(), (f"[INFO] {text}",)).signatures


def test_the_table_of_kinds_names_kinds_of_ours() -> None:
    assert set(load_kinds()) <= set(load_causes())


def test_a_hostile_folder_is_some_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "1")
    (tmp_path / "2.yaml").write_text("a: [\n")
    (tmp_path / "3.yaml").write_text("- a\n")
    (tmp_path / "4.yaml").write_text("log: 1\n" * 2)
    (tmp_path / "5.yaml").write_text("log: {}\n")
    (tmp_path / "6.yaml").write_text("[" * 5000)
    (tmp_path / "7.yaml").write_bytes(b"log: \xff\xfe\n")
    (tmp_path / "8.yaml").symlink_to("8.yaml")
    (tmp_path / "9.yaml").write_text("log: boom\nkind: [a]\nscored: true\n")
    (tmp_path / "10.yaml").write_text("log: !!python/object/apply:os.system [x]\n")
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(20)) + "log: *a\n"
    (tmp_path / "11.yaml").write_text(bomb)
    os.mkfifo(tmp_path / "12.yaml")
    main([str(tmp_path)])
    told = capsys.readouterr()
    assert "recorded: 1 cases" in told.out
    for number in (2, 3, 5, 6, 8, 9, 10, 11, 12):
        lines = [line for line in told.err.splitlines() if line.startswith(f"{number}.yaml: ")]
        assert len(lines) == 1, number


def test_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no cases"):
        score(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        score(tmp_path / "nowhere")


def test_the_corpus_is_diagnosed() -> None:
    """What the cases show; how many of them are right is printed by `make failures-report`."""
    corpus = os.environ.get("STOKER_CORPUS")
    folder = Path(corpus or "nowhere") / "failures"
    if not folder.is_dir():
        pytest.skip("STOKER_CORPUS names no folder with failures")
    report = score(folder)
    assert not report.problems
    wrong = [each for each in report.whole if each.verdict == "wrong"]
    assert len(report.whole) >= 80
    assert len(wrong) <= len(report.whole) * 0.05
