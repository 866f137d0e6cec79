"""`--json` on every verb: stdout is one document, whatever happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
}


def test_life_as_documents(stoker: Stoker, small: str, port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    planned = say(stoker, "plan", small)
    assert planned["schema"] == "plan/1"
    applied = say(stoker, "apply", small)
    assert applied["schema"] == "applied/1"
    assert (applied["url"], applied["model"]) == (url, PUBLISHED_NAME)
    assert (applied["verified"], applied["changed"]) == (True, True)
    assert applied["answer"]
    status = say(stoker, "status")
    assert status["schema"] == "status/1"
    (one,) = status["deployments"]
    assert (
        one.items()
        >= {
            "name": NAME,
            "url": url,
            "model": PUBLISHED_NAME,
            "phase": "ready",
            "verified": True,
        }.items()
    )
    verified = say(stoker, "verify")
    assert verified["schema"] == "verification/1"
    assert {result["verdict"] for result in verified["results"]} == {"passed"}
    assert say(stoker, "logs", "-n", "2")["lines"]
    assert say(stoker, "stop")["schema"] == "done/1"
    assert say(stoker, "start")["run"]
    edit(small, {"serve.context_tokens": 512})
    assert say(stoker, "up", small)["changed"]
    assert say(stoker, "rollback")["run"]
    listed = say(stoker, "rollback", "--list")
    assert [line["is_current"] for line in listed["generations"]] == [False, False, True]
    assert say(stoker, "down")["name"] == NAME
    assert say(stoker, "status") == {"schema": "status/1", "deployments": [], "interrupted": []}


def test_what_needs_no_deployment(stoker: Stoker) -> None:
    assert say(stoker, "facts")["schema"] == "facts/1"
    assert say(stoker, "verify", "--list")["schema"] == "checks/1"
    written = say(stoker, "init")
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
    edit(small, {"engine.settings.cache-type-k": "nonsense"})
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
    assert shown.document["schema"] == "plan/1"


def say(stoker: Stoker, *words: str) -> Any:
    """The document of a verb that succeeds, with events alone on stderr."""
    result = stoker.succeed(*words, "--json")
    for line in result.stderr.splitlines():
        assert json.loads(line)["schema"] == "event/1"
    return result.document
