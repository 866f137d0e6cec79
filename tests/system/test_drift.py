"""What differs from what was applied is told by status and plan, and mended by apply."""

from __future__ import annotations

from pathlib import Path

from tests.system.runner import NAME, Stoker


def definition(stoker: Stoker) -> Path:
    """supervisord's definition of the service."""
    return stoker.state / "supervisor" / "programs" / f"{NAME}.conf"


def test_an_edited_definition(running: Stoker, running_file: str) -> None:
    path, before = definition(running), running.status()
    assert before["drift"] == ""
    text = path.read_text("utf-8")
    path.write_text(text.replace("autorestart=unexpected", "autorestart=false"), "utf-8")
    drift = running.status()["drift"]
    assert f"{path} was edited after Stoker wrote it" in drift
    assert f"`stoker start {NAME}` puts it right" in drift
    plan = running.succeed("plan", running_file, "--json").document
    (change,) = plan["changes"]
    assert change["path"] == str(path)
    assert "was edited" in change["reasons"][0]
    assert [each["kind"] for each in plan["activations"]] == ["reload"]
    running.succeed("apply", running_file)
    after = running.status()
    assert (after["drift"], after["verified"]) == ("", True)
    assert path.read_text("utf-8") == text
    plan = running.succeed("plan", running_file, "--json").document
    assert (plan["changes"], plan["activations"]) == ([], [])


def test_the_supervisors_own_words(running: Stoker) -> None:
    lines = running.succeed("logs", NAME, "--journal", "--json").document["lines"]
    assert any(f"spawned: '{NAME}'" in line for line in lines)
    assert "cannot be followed" in running.refuse(2, "logs", NAME, "--journal", "-f")
