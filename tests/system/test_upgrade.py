"""A newer Stoker finds what an older one left: nothing restarts, documents are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.system.runner import NAME, Stoker, edit


def install_another_version(folder: Path) -> Path:
    """The package as the next release would be, apart from this checkout."""
    shutil.copytree(
        PROJECT / "src" / "stoker", folder / "stoker", ignore=shutil.ignore_patterns("__pycache__")
    )
    version = folder / "stoker" / "__init__.py"
    text = version.read_text(encoding="utf-8")
    assert '__version__ = "' in text
    version.write_text(text.replace('__version__ = "', '__version__ = "99.'), encoding="utf-8")
    return folder


def test_upgrading_stoker_restarts_nothing(
    running: Stoker, running_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = running.status()
    runs = running.runs()
    newer = install_another_version(tmp_path / "next")
    monkeypatch.setitem(running.env, "PYTHONPATH", str(newer))
    assert "stoker 99." in running.succeed("--version").stdout
    assert running.status() == before
    assert "Nothing to do" in running.succeed("plan", running_file).stdout
    assert running.say("apply", running_file)["changed"] is False
    assert running.runs() == runs
    assert running.status()["pid"] == before["pid"]


def test_the_older_one_can_be_removed(
    running: Stoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs needs nothing of the Stoker that started it."""
    folder = install_another_version(tmp_path / "old")
    with monkeypatch.context() as patch:
        patch.setitem(running.env, "PYTHONPATH", str(folder))
        running.succeed("stop")
        running.succeed("start")
    shutil.rmtree(folder)
    status = running.status()
    assert status["verified"] is True
    running.succeed("verify")


def test_another_guard_is_taken_up_with_the_next_start(
    running: Stoker, running_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition changes, and what runs goes on."""
    before = running.status()
    newer = install_another_version(tmp_path / "next")
    with (newer / "stoker" / "guard" / "words.py").open("a", encoding="utf-8") as file:
        file.write("\n# another guard\n")
    monkeypatch.setitem(running.env, "PYTHONPATH", str(newer))
    plan = running.say("plan", running_file)
    # An earlier run of the tests may have made it already.
    assert {each["kind"] for each in plan["preparations"]} <= {"environment"}
    assert {each["path"].rpartition("/")[2] for each in plan["changes"]} == {f"{NAME}.conf"}
    assert [each["kind"] for each in plan["activations"]] == ["reload"]
    running.succeed("apply", running_file)
    assert running.status()["pid"] == before["pid"]
    assert "it will with the next start" in running.status()["drift"]
    assert "Nothing to do" in running.succeed("plan", running_file).stdout

    running.succeed("stop")
    running.succeed("start")
    assert running.status()["drift"] == ""
    assert running.status()["verified"]


def test_other_orders_of_the_guard_restart_nothing(running: Stoker, running_file: str) -> None:
    before = running.status()
    edit(running_file, {"service.stall_timeout_seconds": 1234})
    plan = running.say("plan", running_file)
    assert plan["activations"] == []
    running.succeed("apply", running_file)
    assert running.status() == {**before, "generation": 2}
    assert "Nothing to do" in running.succeed("plan", running_file).stdout
