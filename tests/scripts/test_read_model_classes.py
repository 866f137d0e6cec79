"""Model classes are found where engines register them, and nothing of the packages is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.read_model_classes import open_any, read_release, write_files

MANY = [f"M{number}ForCausalLM" for number in range(100)]


def write_package(folder: Path, name: str, files: dict[str, str]) -> Path:
    """An unpacked package whose files would raise if anything imported them."""
    for path, text in files.items():
        file = folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\nraise SystemExit('it was run')\n", encoding="utf-8")
    return folder / name


def write_sglang(folder: Path, release: str, *more: str) -> Path:
    models = "sglang/srt/models"
    return write_package(
        folder,
        f"sglang-{release}",
        {
            f"{models}/many.py": f"\ufeffEntryClass = [{', '.join(MANY)}]",
            f"{models}/one.py": "class AForCausalLM: ...\nEntryClass = AForCausalLM",
            f"{models}/some.py": "if HAS:\n    EntryClass = [B]\nEntryClass += [CModel]\nOther = D",
            f"{models}/inner/deep.py": "EntryClass = E",
            f"{models}/more.py": f"EntryClass = [{', '.join(more)}]",
            "sglang/srt/configs/model_config.py": "swap('OldForCausalLM', 'AForCausalLM', 'word')",
        },
    )


def test_classes_of_sglang(tmp_path: Path) -> None:
    found = read_release(open_any(write_sglang(tmp_path, "0.5.9")))
    assert found.classes == {*MANY, "AForCausalLM", "B", "CModel"}
    assert found.named == {"OldForCausalLM"}
    assert found.endings == ()


def test_classes_of_vllm(tmp_path: Path) -> None:
    many = dict.fromkeys(MANY, ("file", "Class"))
    registry = f"_TEXT = {many!r}\n_DRAFTS: dict = {{'XMTP': ('file', 'X')}}\n"
    registry += "_GONE = {'GoneForCausalLM': '0.1'}\n_VLLM_MODELS = {**_TEXT, **_DRAFTS}"
    endings = "_SUFFIX_TO_DEFAULTS: list = [('ForCausalLM', (1, 2)), ('Model', (1, 2))]"
    files = {"vllm/model_executor/models/registry.py": registry, "vllm/config/model.py": endings}
    found = read_release(open_any(write_package(tmp_path, "vllm-0.33.0", files)))
    assert found.classes == {*MANY, "XMTP"}
    assert found.named == frozenset()
    assert found.endings == ("ForCausalLM", "Model")


def test_a_form_that_is_not_known(tmp_path: Path) -> None:
    path = write_package(tmp_path, "sglang-9.9", {"sglang/srt/models/a.py": "EntryClass = A"})
    with pytest.raises(ValueError, match="only 1 model classes"):
        read_release(open_any(path))


def test_a_folder_without_a_release(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NAME-RELEASE"):
        open_any(tmp_path)


def test_spans_over_releases(tmp_path: Path) -> None:
    paths = [
        write_sglang(tmp_path, release, *more)
        for release, *more in (("0.5.10", "F"), ("0.5.9",), ("0.5.8.post1", "F"))
    ]
    write_files(paths, tmp_path)
    made = json.loads((tmp_path / "model_classes" / "sglang.json").read_text())
    assert made["releases"] == ["0.5.8.post1", "0.5.9", "0.5.10"]
    assert made["classes"]["F"] == ["0.5.8.post1", "0.5.8.post1", "0.5.10", "0.5.10"]
    assert made["classes"]["B"] == ["0.5.8.post1", "0.5.10"]
    assert made["named"] == {"OldForCausalLM": ["0.5.8.post1", "0.5.10"]}
    assert made["source"]["version"] == "0.5.10"
