"""The verb `capacity` as a person calls it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import PROJECT

STOKER = (sys.executable, "-m", "stoker", "capacity")
LOG = str(PROJECT / "tests" / "recorded" / "engine_logs" / "sglang-0.5.17-h200-by-stoker.log")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*STOKER, *words], capture_output=True, text=True, check=False)


def test_a_log_as_text_as_json_and_as_a_picture(tmp_path: Path) -> None:
    text = run("--log", LOG, "--context", "8192")
    assert text.returncode == 0
    assert "requests of 8,192 tokens at the same time  712" in text.stdout
    picture = tmp_path / "a.svg"
    told = run("--log", LOG, "--json", "--svg", str(picture))
    assert json.loads(told.stdout)["schema"] == "capacity/2"
    assert picture.read_text().startswith("<svg")


def test_what_cannot_be() -> None:
    assert run().returncode == 2
    option = run("--log", LOG, "--apply", "1")
    assert option.returncode == 2
    assert "name the file" in option.stderr
    assert run("--log", LOG, "--svg", f"{LOG}/a.svg").returncode == 2


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    loop, pipe = tmp_path / "loop", tmp_path / "pipe"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    for path in (loop, pipe, tmp_path, tmp_path / "nothing", tmp_path / ("x" * 300)):
        told = run("--log", str(path))
        assert told.returncode == 2, told.stderr
        assert "Traceback" not in told.stderr


def test_a_log_with_absurd_figures(tmp_path: Path) -> None:
    text = Path(LOG).read_text()
    found = re.search(r"max_total_num_tokens=(\d+)", text)
    assert found is not None
    log = tmp_path / "a.log"
    log.write_text(re.sub(r"(max_total_num_tokens=|#tokens: )\d+", rf"\g<1>{10**29}", text))
    told = run("--log", str(log))
    assert told.returncode == 0
    assert "these are left out" in told.stdout
    assert "How many tokens fit is not known" in told.stdout


def test_a_picture_goes_over_pictures_alone(tmp_path: Path) -> None:
    file, pipe, picture = tmp_path / "kimi.yaml", tmp_path / "pipe", tmp_path / "a.svg"
    file.write_text("name: kimi\n")
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(picture)
    for path, why in ((file, "no picture"), (pipe, "not a file"), (tmp_path, "directory")):
        told = run("--log", LOG, "--svg", str(path))
        assert told.returncode == 2
        assert why in told.stderr
    assert file.read_text() == "name: kimi\n"
    assert pipe.is_fifo()
    for name in ("link", "a.svg"):
        assert run("--log", LOG, "--svg", str(tmp_path / name)).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert picture.read_text().startswith("<svg")
