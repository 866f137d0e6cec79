"""Making cases of capacity from logs: what it writes is what the recorded cases are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.make_capacity_case import main
from stoker.evaluate.capacity_cases import read_cases

RECORDED = Path(__file__).parents[1] / "capacity" / "recorded" / "h200"
NAMES = ("llama-share-0.25-host-cache", "llama-two-ranks-share-0.3-host-cache", "llama-default")


def _make(tmp_path: Path, name: str, *more: str) -> int:
    case = json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    log = tmp_path / f"{name}.log"
    log.write_text("\n".join(["noise", *case["log"], "more noise"]), "utf-8")
    config = RECORDED / "models" / f"{case['config']}.json"
    words = [str(log), str(config), "--to", str(tmp_path / "cases"), "--gpu", "H200"]
    flags = [word for flag in case["flags"] for word in flag.split()]
    return main([*words, "--source", case["source"], *more, "--", *flags])


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_case_is_made_again_from_its_log(tmp_path: Path, name: str) -> None:
    assert _make(tmp_path, name, "--release", "0.5.17") == 0
    made = json.loads((tmp_path / "cases" / f"{name}.json").read_text("utf-8"))
    assert made == json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    [case] = read_cases(tmp_path / "cases", tmp_path / "cases" / "models")
    assert all(case.question(question) is not None for question in "abc")


def test_answers_tell_the_release_and_the_cache_of_the_target_alone(tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    told = {"version": "0.5.17", "internal_states": [{"memory_usage": {"kvcache": 62.53}}]}
    answers.write_text(json.dumps({"/server_info": json.dumps(told), "chat": "no answer"}), "utf-8")
    draft = str(RECORDED / "models" / "smollm2-135m.json")
    more = ("--answers", str(answers), "--draft-config", draft, "--name", "again")
    assert _make(tmp_path, "smollm2-standalone", *more) == 0
    made = json.loads((tmp_path / "cases" / "again.json").read_text("utf-8"))
    assert made["version"] == "0.5.17"
    assert made["logged"]["draft_kv_gib"] == pytest.approx(62.51)
    assert made["inputs"]["draft_layers"] == 30


def test_paths_are_left_out(tmp_path: Path) -> None:
    name = "llama-default"
    case = json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    first = case["log"][0].replace("'load_format': 'dummy'", "'load_format': '/srv/secret'")
    log = tmp_path / "start.log"
    log.write_text("\n".join([first, *case["log"][1:]]), "utf-8")
    config = RECORDED / "models" / "llama-3.1-8b.json"
    words = [str(log), str(config), "--to", str(tmp_path), "--gpu", "H200", "--release", "0.5.17"]
    assert main([*words, "--", "--tokenizer-path", "/srv/secret", "--tp-size", "1"]) == 0
    text = (tmp_path / "start.json").read_text("utf-8")
    assert "secret" not in text
    assert json.loads(text)["flags"] == ["--tp-size 1"]


def test_the_last_start_of_a_log_counts_and_a_folder_names_the_model(tmp_path: Path) -> None:
    log, folder = tmp_path / "start.log", tmp_path / "models" / "some-model"
    first, last = (
        json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
        for name in ("llama-share-0.7", "llama-default")
    )
    log.write_text("\n".join([*first["log"], *last["log"]]), "utf-8")
    folder.mkdir(parents=True)
    config = folder / "config.json"
    config.write_text((RECORDED / "models" / "llama-3.1-8b.json").read_text("utf-8"), "utf-8")
    words = [str(log), str(config), "--to", str(tmp_path), "--gpu", "H200", "--release", "0.5.17"]
    assert main(words) == 0
    made = json.loads((tmp_path / "start.json").read_text("utf-8"))
    assert (made["model"], made["flags"], made["log"]) == ("some-model", [], last["log"])
    assert (tmp_path / "models" / "some-model.json").is_file()


def test_what_is_no_case_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tell(*more: str, text: str = "nothing of an engine\n", gpu: str = "H200") -> str:
        log = tmp_path / "other.log"
        log.write_text(text, "utf-8")
        config = str(RECORDED / "models" / "llama-3.1-8b.json")
        words = [str(log), config, "--to", str(tmp_path / "cases"), "--gpu", gpu, *more]
        assert main(words) == 1
        return capsys.readouterr().err

    assert "name it with --engine" in tell()
    assert "tells no tokens" in tell("--engine", "sglang", "--release", "0.5.17")
    assert "the table of GPUs has no H999" in tell("--engine", "sglang", gpu="H999")
    assert "is no name" in tell("--engine", "sglang", "--name", "Not A Name")
    case = json.loads((RECORDED / "llama-default.json").read_text("utf-8"))
    assert "the release is not told" in tell(text="\n".join(case["log"]))
