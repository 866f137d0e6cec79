"""`stoker bench` where servers end, start again or have no room: what was measured stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from stoker.fake_engine.script import Script, Timing
from stoker.fake_engine.server import EngineServer
from tests.system.conftest import NewTmpfs
from tests.system.processes import kill
from tests.system.runner import NAME, Stoker, finish

SHORT = ("--prompt-tokens", "16", "--output-tokens", "4")
TIMING = Timing(first_token_seconds=0.02, seconds_per_token=0.01)


def _documents(state: Path) -> list[Any]:
    return [json.loads(path.read_text("utf-8")) for path in (state / "benchmarks").glob("*.json")]


def _begin(state: Path, *words: str) -> subprocess.Popen[str]:
    """The command alone: no deployment is needed for a URL."""
    return subprocess.Popen(
        [sys.executable, "-m", "stoker", "bench", *words],
        env={**os.environ, "STOKER_STATE": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return


def test_a_deployment_whose_engine_is_killed_in_the_middle(running: Stoker) -> None:
    """The guard starts it again; figures of two processes are not those of one."""
    (engine,) = running.engines()
    words = ("bench", NAME, "--concurrency", "1", "--for", "25s", "--warmup", "0", *SHORT)
    process = running.begin(*words)
    _wait_for(process, "answered")
    kill(engine.pid)
    done = finish(process)
    said = " ".join(done.stdout.split())
    assert done.exit_code in (0, 5, 7), done
    assert "The server was started again, or ended, while it was measured" in said
    assert "failed" in said
    (document,) = _documents(running.state)
    assert document["served"]["name"] == NAME
    assert document["served"]["digest"]
    assert document["served"]["verified"]
    assert document["points"][0]["errors"]


def test_a_server_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    engine = (sys.executable, "-m", "stoker", "dev", "fake-engine", "--tokens-per-second", "100")
    sweep = ("--unverified", "--concurrency", "2,4", "--for", "60s", *SHORT)
    with subprocess.Popen([*engine], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(2)]
        url = next(word for line in lines for word in line.split() if word.startswith("http"))
        process = _begin(tmp_path / "state", url, *sweep)
        _wait_for(process, "answered")
        server.kill()
        done = finish(process)
    assert done.exit_code == 5
    said = " ".join(done.stdout.split())
    assert "ended early: nothing but errors" in said
    assert "Connection refused" in said
    (document,) = _documents(tmp_path / "state")
    assert len(document["points"]) == 1
    assert document["points"][0]["window"]["requests"] > 0
    assert document["id"] in done.stdout


def test_a_full_disk(tmpfs: NewTmpfs) -> None:
    """The document is small and comes first; whatever has no room is said."""
    disk = tmpfs(64)
    (disk / "ballast").write_bytes(b"x" * (40 << 10))
    load = ("--unverified", "--concurrency", "4", "--requests", "600", *SHORT)
    with EngineServer(Script(timing=TIMING)) as server:
        done = finish(_begin(disk / "state", server.url, *load))
    assert done.exit_code in (0, 7), done
    said = " ".join(done.stdout.split())
    assert "not kept" in said
    assert "TOKENS/S" in said
