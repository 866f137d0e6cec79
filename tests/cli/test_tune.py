"""The verb `tune` as a person types it: what is refused, what is shown, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.hosts.local import LocalHost
from stoker.model.plan import Folders
from stoker.state.campaigns import write_campaign
from tests.state.test_campaigns import CAMPAIGN

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    folders = {"STOKER_STATE": str(tmp_path / "state"), "STOKER_DATA": str(tmp_path / "data")}
    return {**os.environ, **folders}


def run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "stoker", "tune", *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "which deployment?"),
        (("x.yaml", "--objective", "speed"), "there is no objective speed"),
        (("x.yaml", "--objective", "goodput"), "give --ttft, --tpot or --e2e"),
        (("x.yaml", "--ttft", "100"), "write --objective goodput"),
        (("x.yaml", "--restarts", "1"), "1 restarts are too few"),
        (("x.yaml", "--concurrency", "many"), "--concurrency takes whole numbers"),
        (("x.yaml", "--measure", "soon"), "soon"),
        (("x.yaml",), "x.yaml"),
        (("--show", "t1"), "there is no search t1"),
    ],
)
def test_one_clear_sentence(env: dict[str, str], words: tuple[str, ...], told: str) -> None:
    done = run(env, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("error: ") == 1
    assert done.stdout == ""


def test_a_kept_search_is_shown(env: dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    folders = Folders(state=str(state), environments="", models="", services="")
    write_campaign(LocalHost(), folders, replace(CAMPAIGN, under_way=None))
    done = run(env, "--show", CAMPAIGN.id[:12])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"search {CAMPAIGN.id} for qwen")
    told = run(env, "--show", CAMPAIGN.id, "--json")
    document = json.loads(told.stdout)
    assert document["schema"] == "tuning-table/1"
    assert document["campaign"]["wish"]["aim"]["metric"] == "goodput"
