"""The verb `diagnose` as a person calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import PROJECT

STOKER = (sys.executable, "-m", "stoker", "diagnose")
LOG = PROJECT / "tests" / "recorded" / "engine_logs" / "sglang-0.5.17-h200-no-room.log"
DEPLOYMENT = """\
name: a
engine:
  kind: sglang
  environment: path:/opt/sglang
  settings:
    mem_fraction_static: 0.10  # too little
model: path:/models/a
"""


def run(
    *words: str, folder: Path, content: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "STOKER_STATE": str(folder / "state"), "STOKER_DATA": str(folder / "data")}
    text = None if content is None else content.decode()
    return subprocess.run(
        [*STOKER, *words], capture_output=True, text=True, check=False, env=env, input=text
    )


def test_a_log_as_text_and_as_json(tmp_path: Path) -> None:
    text = run("--log", str(LOG), folder=tmp_path)
    assert text.returncode == 0, text.stderr
    assert "[kv-pool-no-room]" in text.stdout
    told = json.loads(run("-", "--json", folder=tmp_path, content=LOG.read_bytes()).stdout)
    assert told["schema"] == "diagnosis/1"
    assert told["causes"][0]["kind"] == "kv-pool-no-room"
    assert not (tmp_path / "state").exists()  # a laptop that has none gets none


def test_a_repair_is_written_into_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(DEPLOYMENT)
    words = ("--log", str(LOG), "--file", str(file))
    applied = run(*words, "--apply", "1", folder=tmp_path)
    assert applied.returncode == 0, applied.stderr
    assert f"`stoker plan {file}`" in applied.stdout
    changed = file.read_text()
    assert "# too little" in changed
    assert "mem_fraction_static: 0.10" not in changed
    assert changed.count("mem_fraction_static") == 1


def test_what_cannot_be(tmp_path: Path) -> None:
    for words in (("--log", "/nowhere"), (), ("--log", str(LOG), "--apply", "1")):
        told = run(*words, folder=tmp_path)
        assert told.returncode == 2
        assert "error: " in told.stderr
