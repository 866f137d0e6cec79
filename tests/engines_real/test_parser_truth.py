"""The recorded outcomes of parsers are what the installed engines' parsers make today."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PROJECT

_RECORDED = PROJECT / "tests" / "contract" / "parser_truth"

#: Formats of few cases and of all sorts: faithful ones and such that lose, leave or cut.
_SAMPLE = {
    "sglang": ("sglang-0.5.23", ("gpt-oss", "gemma-4", "kimi-k2", "mistral", "glm-4.5-line")),
    "vllm": ("vllm-0.32.0", ("hermes", "kimi-k2", "gemma-4")),
}


@pytest.mark.parametrize("engine", _SAMPLE)
def test_a_new_recording_is_as_the_old_one(engine: str, engines: Path, tmp_path: Path) -> None:
    package, formats = _SAMPLE[engine]
    python = engines / package / "bin" / "python"
    tokenizer = engines / "models" / "smollm2-hf" / "tokenizer.json"
    if not python.exists() or not tokenizer.is_file():
        pytest.skip(f"{package} or the small model is not built; `make test-engines` builds them")
    script = PROJECT / "scripts" / "record_parser_truth.py"
    argv = [str(python), "-W", "ignore", str(script), engine, "--tokenizer", str(tokenizer)]
    subprocess.run([*argv, "--output", str(tmp_path), "--only", *formats], check=True, cwd=PROJECT)
    for name in formats:
        new = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        old = json.loads((_RECORDED / engine / f"{name}.json").read_text("utf-8"))
        assert new == old
