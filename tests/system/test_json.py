"""`--json` on every verb: stdout is one document, whatever happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.runner import NAME, PUBLISHED_NAME, Stoker, edit

#: Words that must fail where nothing is deployed yet, and how.
FAILING: dict[tuple[str, ...], int] = {
    ("init", "hf:nonsense"): 2,
    ("plan", "missing.yaml"): 2,
    ("apply", "missing.yaml"): 2,
    ("up", "missing.yaml"): 2,
    ("status", "nobody"): 2,
    ("logs",): 2,
    ("verify",): 2,
    ("start",): 2,
    ("stop",): 2,
    ("down",): 2,
    ("rollback",): 2,
    ("rollback", "--list"): 2,
    ("adopt", "--port", "1"): 2,
    ("diff", "missing.yaml", "pid:1"): 2,
}


def test_what_runs_as_documents(running: Stoker, running_file: str) -> None:
    status = running.say("status")
    assert status["schema"] == "status/1"
    (one,) = status["deployments"]
    expected = {"name": NAME, "model": PUBLISHED_NAME, "phase": "ready", "verified": True}
    assert one.items() >= expected.items()
    assert running.say("plan", running_file)["schema"] == "plan/3"
    applied = running.say("up", running_file)
    assert applied["schema"] == "applied/1"
    assert (applied["url"], applied["model"]) == (one["url"], PUBLISHED_NAME)
    assert (applied["verified"], applied["changed"], bool(applied["answer"])) == (True, False, True)
    verified = running.say("verify")
    assert verified["schema"] == "verification/1"
    assert {result["verdict"] for result in verified["results"]} == {"passed"}
    assert len(running.say("logs", "-n", "2")["lines"]) == 2
    listed = running.say("rollback", "--list")
    assert [line["is_current"] for line in listed["generations"]] == [True]


def test_what_needs_no_deployment(stoker: Stoker) -> None:
    assert stoker.say("status")["deployments"] == []
    assert stoker.say("facts")["schema"] == "facts/1"
    assert stoker.say("verify", "--list")["schema"] == "checks/1"
    written = stoker.say("init")
    assert written["schema"] == "init/1"
    assert (stoker.place / written["file"]).is_file()
    assert "properties" in stoker.succeed("schema").document


@pytest.mark.parametrize("words", FAILING, ids=" ".join)
def test_errors_are_documents(stoker: Stoker, words: tuple[str, ...]) -> None:
    result = stoker.run(*words, "--json")
    assert result.exit_code == FAILING[words]
    error = result.document
    assert error["schema"] == "error/1"
    assert error["exit_code"] == result.exit_code
    assert error["summary"]
    assert error["hint"] or error["details"]


def test_blocked_and_rolled_back_are_documents(stoker: Stoker, small: str, tmp_path: Path) -> None:
    refused = {"engine.settings.cache-type-k": "nonsense", "accept": ["engine.flag-value"]}
    edit(small, refused)
    failed = stoker.run("apply", small, "--json")
    assert failed.exit_code == failed.document["exit_code"] == 7
    assert "nonsense" in failed.document["summary"]
    events = [json.loads(line) for line in failed.stderr.splitlines()]
    assert {event["schema"] for event in events} == {"event/1"}
    edit(small, {"model": f"path:{tmp_path}/none.gguf"})
    blocked = stoker.run("apply", small, "--json")
    assert blocked.exit_code == blocked.document["exit_code"] == 3
    assert "[model.missing]" in blocked.document["details"][0]
    shown = stoker.run("plan", small, "--json")
    assert shown.exit_code == 3
    assert shown.document["schema"] == "plan/3"
