"""The verbs about recipes on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from tests.recipes.reading import FIXTURES


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """A command line with folders of its own."""
    monkeypatch.setenv("STOKER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("STOKER_DATA", str(tmp_path / "data"))
    return CliRunner()


def test_sync_list_and_show(runner: CliRunner) -> None:
    done = runner.invoke(app, ["recipes", "sync", str(FIXTURES / "vllm"), "--commit", "abc123"])
    assert done.exit_code == 0
    assert "vllm-recipes (vllm):" in done.stdout
    assert "models/acme/Broken.yaml line" in done.stdout
    listed = runner.invoke(app, ["recipes", "list", "--engine", "vllm"])
    assert "acme/Rocket-300B" in listed.stdout
    shown = runner.invoke(app, ["recipes", "show", "Rocket-300B", "--gpu", "h200"])
    assert "verified (the collection's word: verified) for h200, 8 GPUs" in shown.stdout
    assert "at abc123" in shown.stdout


def test_the_same_as_json(runner: CliRunner) -> None:
    done = runner.invoke(app, ["recipes", "sync", str(FIXTURES), "--json"])
    document = json.loads(done.stdout)
    assert document["schema"] == "recipes-sync/1"
    assert [each["name"] for each in document["collections"]] == ["sglang-cookbook", "vllm-recipes"]
    listed = json.loads(runner.invoke(app, ["recipes", "list", "--json"]).stdout)
    assert listed["schema"] == "recipes/1"
    shown = json.loads(runner.invoke(app, ["recipes", "show", "Feather-1B", "--json"]).stdout)
    assert shown["schema"] == "shown-recipes/1"
    assert shown["recipes"][0]["recipe"]["hardware"]["status"] == "untested"


def test_a_wrong_source_ends_with_words(runner: CliRunner) -> None:
    done = runner.invoke(app, ["recipes", "sync", "/nowhere"])
    assert done.exit_code != 0
    assert "is no folder" in str(done.exception)
