"""What a plan shows, when a saved one is refused, and how drift is found and put right."""

from __future__ import annotations

from pathlib import Path

from tests.system.runner import NAME, Stoker, edit


def test_saved_plan_is_applied_as_it_was_shown(stoker: Stoker, small: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "p.json")
    planned = stoker.run("plan", small, "--out", saved, "--exit-code")
    assert planned.exit_code == 4
    assert f"stoker apply {saved}" in planned.stdout
    assert f"> start {NAME}" in planned.stdout
    assert "--threads 1\n      user: " in planned.stdout
    stoker.succeed("apply", saved)
    nothing = stoker.succeed("plan", small, "--exit-code")
    assert "Nothing to do" in nothing.stdout
    assert "needs no change any more" in stoker.refuse(3, "apply", saved)


def test_plan_is_stale_when_the_file_was_edited(
    running: Stoker, running_file: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "p.json")
    edit(running_file, {"serve.context_tokens": 512})
    running.succeed("plan", running_file, "--out", saved)
    edit(running_file, {"serve.context_tokens": 768})
    error = running.refuse(3, "apply", saved)
    assert "this plan is stale" in error
    assert f"{running_file} was edited" in error


def test_plan_is_stale_when_the_disk_was_changed(
    running: Stoker, running_file: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "p.json")
    edit(running_file, {"serve.context_tokens": 512})
    running.succeed("plan", running_file, "--out", saved)
    program = program_file(running)
    whole = program.read_text()
    program.write_text(whole.replace("startretries=3", "startretries=5"))
    assert f"{program} is not what it was" in running.refuse(3, "apply", saved)
    program.write_text(whole)


def test_file_that_is_no_plan_of_ours(stoker: Stoker, tmp_path: Path) -> None:
    other = tmp_path / "p.json"
    other.write_text('{"schema": "plan/99"}')
    stoker.refuse(2, "apply", str(other))
    other.write_text('{"schema": "plan/1", "id": 3}')
    stoker.refuse(2, "apply", str(other))


def test_drift_is_shown_and_put_right(running: Stoker, running_file: str) -> None:
    """A definition that was edited by hand, and a generation's record that is gone."""
    before = running.look()
    program = program_file(running)
    program.write_text(program.read_text().replace("startretries=3", "startretries=5"))
    record = running.state / "deployments" / NAME / "generations" / "000001.json"
    record.chmod(0o644)
    planned = running.run("plan", running_file, "--exit-code")
    assert planned.exit_code == 4
    assert f"~ {program}" in planned.stdout
    assert "-startretries=5\n      +startretries=3" in planned.stdout
    assert "mode 0644 -> 0600" in planned.stdout
    assert "> restart" not in planned.stdout
    running.succeed("apply", running_file)
    assert running.look() == before


def program_file(stoker: Stoker) -> Path:
    """supervisord's definition of the service."""
    return stoker.state / "supervisor" / "programs" / f"{NAME}.conf"
