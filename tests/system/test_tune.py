"""A search on the real engine: to its end, and on after kill -9.

How fast anything is depends on what else runs, so nothing here asks which configuration wins: only
that file, state and what runs agree with what the search says.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.system.runner import NAME, Stoker, finish, wait_until

WORKLOAD = """\
title = "Some words in, few out"
shape = "chat"
text = "prose"
prompt_tokens = { median = 16 }
output_tokens = { median = 4 }
source = { kind = "inferred", where = "a test", date = "2026-12-01" }
"""
FULL = bool(os.environ.get("FULL"))


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "short.toml"
    path.write_text(WORKLOAD)
    return str(path)


def words(small: str, workload: str, *, restarts: int, measure: str = "4s") -> tuple[str, ...]:
    return (
        *("tune", small, "--workload", workload, "--concurrency", "1"),
        *("--restarts", str(restarts), "--measure", measure, "--repetitions", "1"),
    )


def campaigns(stoker: Stoker) -> list[Any]:
    folder = stoker.state / "campaigns"
    return [json.loads(path.read_text()) for path in sorted(folder.glob("t*.json"))]


def check_end(stoker: Stoker, small: str, before: str) -> Any:
    """What runs and stands in the file is what the only search ended with."""
    (campaign,) = campaigns(stoker)
    end = campaign["end"]
    assert campaign["is_closed"]
    text = Path(small).read_text()
    assert stoker.say("plan", small)["changes"] == []
    assert stoker.status()["verified"]
    if end["is_improved"]:
        assert f"evidence: {campaign['id']}" in text
        assert end["low"] > 1
    else:
        assert text == before
    shown = stoker.say("tune", "--show", campaign["id"])
    assert shown["campaign"]["trials"] == campaign["trials"]
    assert shown["campaign"]["end"] == end
    return campaign


@pytest.mark.timeout(400, func_only=True)
def test_a_short_search_to_its_end(stoker: Stoker, small: str, workload: str) -> None:
    stoker.patience_seconds = 360.0  # a fifth of it, where nothing else runs
    before = Path(small).read_text()
    result = stoker.succeed(*words(small, workload, restarts=4))
    campaign = check_end(stoker, small, before)
    assert f"search {campaign['id']} for {NAME}" in result.stdout
    assert "trial 1: The deployment as it is comes first" in result.stderr
    first, *others = campaign["trials"]
    assert (first["purpose"], first["outcome"]) == ("baseline", "measured")
    assert others
    assert len(first["benchmarks"]) == 1
    assert first["benchmarks"][0] in stoker.succeed("bench", "list").stdout
    assert sum(each["restarted"] for each in campaign["trials"]) <= 4
    # Nothing of a trial is left to be warned of: what runs was measured.
    assert stoker.status()["unmeasured"] == ""


def test_before_anything_starts(stoker: Stoker, small: str, workload: str) -> None:
    space = stoker.succeed(*words(small, workload, restarts=4), "--dry-run").stdout
    assert "threads" in space
    assert "the deployment file sets threads" in space
    answers = stoker.say(*words(small, workload, restarts=4), "--ask", "micro-batch=64")
    assert len(answers["answers"]) == 1
    assert stoker.engines() == []


def test_a_workload_longer_than_the_context(stoker: Stoker, small: str, workload: str) -> None:
    Path(workload).write_text(WORKLOAD.replace("median = 16", "median = 900"))
    result = stoker.run(*words(small, workload, restarts=4))
    assert result.exit_code == 2
    assert "context" in result.error
    assert [each["trials"] for each in campaigns(stoker)] in ([], [[]])


@pytest.mark.skipif(not FULL, reason="takes minutes: FULL=1")
@pytest.mark.timeout(3000, func_only=True)
def test_a_long_search_that_is_killed_and_interrupted(
    stoker: Stoker, small: str, workload: str
) -> None:
    stoker.patience_seconds = 2400.0  # a finalist passes the full contract
    before = Path(small).read_text()
    command = words(small, workload, restarts=10, measure="5s")

    def is_trying(number: int) -> bool:
        found = campaigns(stoker)
        return bool(found) and (found[0]["under_way"] or {}).get("number") == number

    killed = stoker.begin(*command)
    wait_until(lambda: is_trying(3), seconds=300.0)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (first,) = campaigns(stoker)
    stopped = stoker.begin(*command)
    wait_until(lambda: is_trying(5), seconds=300.0)
    stopped.send_signal(signal.SIGINT)
    result = finish(stopped)
    assert result.exit_code == 130, result
    assert stoker.say("plan", small)["changes"] == []  # the deployment as it was
    stoker.succeed(*command)
    campaign = check_end(stoker, small, before)
    assert campaign["id"] == first["id"]
    assert campaign["trials"][:2] == first["trials"]
    cut = [each["number"] for each in campaign["trials"] if each["outcome"] == "interrupted"]
    assert cut == [3, 5]
