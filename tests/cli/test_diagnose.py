"""The verb `diagnose` as a person calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00\x1b[2J" * 1000,
        b"a" * (50 << 20),
        b"[" * 100_000 + b"]" * 100_000,
        b'{"error": {"message": "\\ud800 CUDA out of memory"}}',
        b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\ndata: {"choices": [{"del',
        b"<html><body><h1>502 Bad Gateway</h1></body></html>",
    ],
    ids=["empty", "binary", "one character", "deep", "half", "broken off", "page"],
)
def test_any_reply_gets_an_answer(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "reply"
    file.write_bytes(content)
    told = run("--reply", str(file), folder=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    words = ("No failure was found: ", "First cause: ", "The cause is not known: ")
    assert any(each in told.stdout for each in words)
    assert "\x1b" not in told.stdout


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-x\n+y", 0),
        (b"--- /etc/passwd\n+++ /etc/passwd\n", 0),
        (b"--- a/\x1b[2J/sglang/srt/overlap.py\n@@ -1,999999999 +1 @@\n", 0),
        (b"--- a/x.py\n+++ b/x.py\n" + b"@@ -1 +1 @@\n-x\n+y.z\n" * 100_000, 0),
        (b"diff --git a/x b/x\nGIT binary patch\nliteral 9\n\xff\x00\n", 2),
        (b"", 2),
        (b"\n" * (17 << 20), 2),
    ],
    ids=["above", "absolute", "escape", "hunks", "binary", "empty", "huge"],
)
def test_any_patch_is_read_or_refused(tmp_path: Path, content: bytes, code: int) -> None:
    log, file = tmp_path / "log", tmp_path / "own patch"
    file.write_bytes(content)
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "/env/site-packages/sglang/srt/overlap.py", line 9, in run\n'
        "KeyError: 1\n"
    )
    told = run("--log", str(log), "--engine", "sglang", "--patch", str(file), folder=tmp_path)
    assert told.returncode == code
    assert told.stderr.count("error: ") == (code != 0)
    assert "Traceback" not in told.stderr
    assert "\x1b" not in told.stdout
